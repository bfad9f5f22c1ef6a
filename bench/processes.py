"""Servers as child processes: started with a clean environment, and always ended again.

The environment is the same for every server: bytecode is cached (a start is not a compilation), and neither
settings nor a home folder of whoever runs the bench can change what is measured.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wire import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "127.0.0.1"
GRACE = 5.0
LOG_TAIL = 3000


@dataclass(frozen=True)
class Command:
    """How to start a server; `{dir}` and `{port}` in the words are filled in for each start."""

    words: tuple[str, ...]
    cwd: Path
    home: Path

    def argv(self, folder: Path, port: int) -> list[str]:
        """Fill in the words for one start."""
        return [word.replace("{dir}", str(folder)).replace("{port}", str(port)) for word in self.words]

    def environment(self) -> dict[str, str]:
        """Take this process's environment, less what could make one run differ from another."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SKILLSERVE_", "XDG_"))}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        # What one server remembers of its use must not put the skills of the next into another order.
        return {**kept, "HOME": str(self.home), "USERPROFILE": str(self.home), "SKILLSERVE_USAGE": "false"}


class Process(subprocess.Popen[bytes]):
    """A running server that knows when it was asked to start."""

    spawned: float


@contextmanager
def running(command: Command, folder: Path, port: int, *, piped: bool) -> Iterator[Process]:
    """Start a server and end it on the way out; with `piped`, stdin and stdout are the connection."""
    with tempfile.TemporaryFile() as log:
        spawned = time.perf_counter()
        process = Process(
            command.argv(folder, port),
            cwd=command.cwd,
            env=command.environment(),
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else log,
            stderr=log,
            bufsize=0,
        )
        process.spawned = spawned
        try:
            yield process
        except (BenchError, OSError) as error:
            stop(process)
            log.seek(0)
            error.add_note(log.read()[-LOG_TAIL:].decode(errors="replace"))
            raise
        finally:
            stop(process)


def stop(process: Process) -> None:
    """End a server the gentle way of its transport first, then by force; safe to call again."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    else:
        process.terminate()
    for harder in (process.terminate, process.kill):
        try:
            process.wait(GRACE)
            break
        except subprocess.TimeoutExpired:
            harder()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def free_port() -> int:
    """Find a port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
