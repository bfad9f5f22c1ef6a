"""`python -m server` is `skillserve`."""

import gc
import os
import sys

# A start allocates much and frees nothing: collecting meanwhile takes a tenth of it. `serve` switches it on again.
gc.disable()

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:2] == ["guard"]:
        _guard(sys.argv[2:])
    from server.cli import main as run  # noqa: PLC0415 - what reads a command line for people takes a while to import

    run()


def _guard(words: list[str]) -> None:
    """Answer a hook, and exit; return where the command line is not plain."""
    try:
        from server.hook.options import plain_options  # noqa: PLC0415 - see above
        from server.hook.run import answer_call  # noqa: PLC0415 - see above

        options = plain_options(words)
    except Exception as error:  # noqa: BLE001 - any other exit code than 2 lets the call pass
        sys.exit(_broken(error))
    if options is not None:
        # All is written: to clear away what the system clears away as well would take a tenth of the time.
        os._exit(answer_call(options))


def _broken(error: Exception) -> int:
    sys.stderr.write(f"skillserve: the guard cannot start ({type(error).__name__}: {error}), so the call is denied\n")
    return 2


if __name__ == "__main__":
    main()
