"""A program that prints what a process can know of how it was started, and ends with the exit code that it is given."""

from __future__ import annotations

import json
import os
import signal
import sys


def facts() -> dict[str, object]:
    """Return all that must not depend on whether this process was forked."""
    return {
        "name": __name__,
        "arguments": sys.argv[1:],
        "directory": os.getcwd(),  # noqa: PTH109 - as the system says it
        "environment": dict(os.environ),
        "path": sys.path,
        "flags": list(sys.flags),
        "parent": os.getppid(),
        "session": os.getsid(0) == os.getpid(),
        "group": os.getpgrp() == os.getpid(),
        "signals": {number: str(signal.getsignal(number)) for number in range(1, 32)},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "files": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],  # noqa: PTH208 - but that of the listing
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
