"""`python -m server` is `skillserve`."""

import gc
import os
import sys

from server import __version__

if sys.version_info < (3, 11):  # noqa: UP036 - installers refuse an earlier Python, and clients may start any
    found = ".".join(map(str, sys.version_info[:2]))
    sys.exit(f"skillserve needs Python 3.11 or later; this is {found} at {sys.executable}")

# A start allocates much and frees nothing: collecting meanwhile takes a tenth of it. `serve` switches it on again.
gc.disable()


_BLOCKED = 2
# A host takes any exit code of a hook but 0 and 2 for consent, and so does a hook that a signal ends.

_SECONDS = 15
# For a guard from its start to its end, all imports included; what decides has a shorter limit of its own.


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:2] == ["guard"]:
        _guard(sys.argv[2:])
    if sys.argv[1:] == ["--version"]:
        print(f"skillserve {__version__}")  # noqa: T201 - the command line for people takes a while to import
        return
    if sys.argv[1:2] == ["serve"] and "--keep-alive" in sys.argv[2:]:
        _keep_serving()
        return
    if not sys.argv[1:] and os.isatty(0) and os.isatty(1):
        from server.cli.start_server import greet  # noqa: PLC0415 - what reads a command line for people takes a while to import

        if greet():
            return
    _run()


def _run() -> None:
    if sys.argv[1:2] == ["serve"]:
        from server.cli.start_server import serve_plainly  # noqa: PLC0415 - see below

        if serve_plainly(sys.argv[2:]):
            return
    from server.cli.app import main as run  # noqa: PLC0415 - what reads a command line for people takes a while to import

    run()


def _keep_serving() -> None:
    """Serve in a process that is replaced when it ends, and exit with its code."""
    from server.transport.keep_alive import ServerKeepsEndingError, keep_alive  # noqa: PLC0415 - it needs nothing more

    try:
        keep_alive(_run)
    except ServerKeepsEndingError as end:
        from server.cli.app import end_serving  # noqa: PLC0415 - see below

        end_serving(end, end.code)


def _guard(words: list[str]) -> None:
    """Answer a hook and exit, with 0 or 2 whatever happens."""
    code = _BLOCKED
    try:
        _block_where_stopped()
        code = _answered(words)
    except BaseException as error:  # noqa: BLE001 - nothing that happens here may end the process with another code
        _complain(f"the guard failed ({type(error).__name__}: {error})")
    finally:
        # All is written. To clear away what the system clears away as well takes a tenth of the time, and may fail.
        os._exit(code)


def _block_where_stopped() -> None:
    """Block the call where a signal ends this process, or where it takes too long to get to an answer."""
    import signal  # noqa: PLC0415 - what the guard needs is not imported where something else starts
    import threading  # noqa: PLC0415 - likewise

    def stop(why: str) -> None:
        try:
            _complain(why)
        finally:
            os._exit(_BLOCKED)

    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGXCPU", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: stop(f"the guard was ended by signal {number}"))
    timer = threading.Timer(_SECONDS, stop, [f"the guard came to no end within {_SECONDS} seconds"])
    timer.daemon = True
    timer.start()


def _answered(words: list[str]) -> int:
    """Answer the hook and return the exit code; a command line that is not plain takes the long way."""
    from server.capabilities.guard.hook import answer_call, parse_plain_options  # noqa: PLC0415 - see above

    options = parse_plain_options(words)
    if options is not None:
        return answer_call(options)
    from server.cli.app import main as run  # noqa: PLC0415 - what reads a command line for people takes a while to import

    try:
        run()
    except SystemExit as end:
        sys.stdout.flush()
        if end.code in {None, 0, _BLOCKED}:
            return end.code or 0
        raise
    return _BLOCKED


def _complain(why: str) -> None:
    # The streams of Python buffer, and may be closed.
    try:
        os.write(2, f"skillserve: {why}, so the call is denied\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return


if __name__ == "__main__":
    main()
