"""Print the observable state of a new process, and exit with the given code."""

from __future__ import annotations

import json
import os
import signal
import sys


def facts() -> dict[str, object]:
    """Return the state that must be the same in forked and in started processes."""
    return {
        "name": __name__,
        "arguments": sys.argv[1:],
        "directory": os.getcwd(),  # noqa: PTH109 - the literal answer of the system
        "environment": dict(os.environ),
        "path": sys.path,
        "flags": list(sys.flags),
        "parent": os.getppid(),
        "session": os.getsid(0) == os.getpid(),
        "group": os.getpgrp() == os.getpid(),
        "signals": {number: str(signal.getsignal(number)) for number in range(1, 32)},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "files": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],  # noqa: PTH208 - without that of the listing
        "streams": [
            (stream.encoding, stream.errors, stream.isatty(), stream.line_buffering)
            for stream in (sys.stdin, sys.stdout, sys.stderr)
        ],
        "umask": os.umask(0o022),
        "input": sys.stdin.read(),
    }


if __name__ == "__main__":
    json.dump(facts(), sys.stdout)
    sys.stderr.write("an error\n")
    sys.exit(int(sys.argv[1]))
