"""Run servers as child processes with a clean environment, and always stop them.

Every server gets the same environment: bytecode is cached, so that a start does not compile, and the settings and
the home folder of the user who runs the bench have no effect.
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
    """How to start a server; each start replaces `{dir}` and `{port}` in the words.

    `settings` are variables of its environment.
    """

    words: tuple[str, ...]
    cwd: Path
    home: Path
    settings: tuple[tuple[str, str], ...] = ()

    def argv(self, folder: Path, port: int) -> list[str]:
        """Return the command line of one start."""
        return [word.replace("{dir}", str(folder)).replace("{port}", str(port)) for word in self.words]

    def environment(self) -> dict[str, str]:
        """Return this process's environment without variables that could change the results."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SKILLSERVE_", "XDG_"))}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        # The usage that one server records must not change the order of skills in the next.
        home = str(self.home)
        return {**kept, "HOME": home, "USERPROFILE": home, "SKILLSERVE_USAGE": "false", **dict(self.settings)}


class Process(subprocess.Popen[bytes]):
    """A running server, with the time of its start."""

    spawned: float


@contextmanager
def running(command: Command, folder: Path, port: int, *, piped: bool) -> Iterator[Process]:
    """Start a server and stop it on exit; with `piped`, stdin and stdout are the connection."""
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
    """Stop a server: gracefully in the way of its transport, then by force; safe to repeat."""
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
    """Return an unused port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
