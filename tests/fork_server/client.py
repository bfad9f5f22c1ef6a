"""The client in the process of the tests: decides which processes can be forked, and requests them."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["ForkServer", "forking"]

MAIN = Path(__file__).with_name("main.py")
TESTS = MAIN.parents[1]
MACHINES = ("x86_64", "aarch64")
"""Where the server knows how to fork."""
INTERPRETER_VARIABLES = ("PYTHON", "LC_", "LANG", "LD_")
"""Prefixes of variables that an interpreter reads when it starts; a fork inherits their effect."""


@dataclass(frozen=True)
class Start:
    """A request of `subprocess`: the first arguments of `_posixsubprocess.fork_exec`, in their order."""

    arguments: Sequence[str | bytes]
    executables: Sequence[bytes]
    close_fds: bool
    kept: Sequence[int]
    directory: str | bytes | os.PathLike[str] | None
    environment: Sequence[bytes] | None
    stdin: int
    stdin_ours: int
    stdout_ours: int
    stdout: int
    stderr_ours: int
    stderr: int
    errors: int
    errors_theirs: int
    restore_signals: bool
    new_session: bool
    process_group: int
    gid: int | None
    gids: Sequence[int] | None
    uid: int | None
    umask: int
    before_exec: object

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the new process."""
        if self.environment is None:
            return dict(os.environ)
        pairs = (os.fsdecode(line).partition("=") for line in self.environment)
        return {name: value for name, _, value in pairs}

    @property
    def words(self) -> list[str]:
        """The command line after the interpreter."""
        return [os.fsdecode(word) for word in self.arguments[1:]]

    def can_be_forked(self) -> bool:
        """Return whether a fork of our interpreter is equivalent to the requested process."""
        plain = self.close_fds and self.restore_signals and self.before_exec is None
        same_user = self.gid is None and self.gids is None and self.uid is None and self.umask < 0
        return (
            plain
            and same_user
            and self.process_group < 0
            and set(self.kept) <= {self.errors_theirs}
            and [os.fsdecode(path) for path in self.executables] == [sys.executable]
            and os.fsdecode(self.arguments[0]) == sys.executable
            and _is_ours(self.words)
            and _of_interpreter(self.variables) == _of_interpreter(os.environ)
        )


def _is_ours(words: list[str]) -> bool:
    """Return whether these words run the product or a program of the tests."""
    if words[:1] == ["-m"]:
        return words[1] == "server" or words[1].startswith("tests.")
    return bool(words) and TESTS in Path(words[0]).parents and words[0] != str(MAIN)


def _of_interpreter(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(INTERPRETER_VARIABLES) and name != "PYTHONPATH"
    }


class ForkServer:
    """An interpreter that has imported the product; it starts with the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, wanted: Start) -> int:
        """Fork the requested process as a child of this process; return its pid."""
        request = json.dumps(
            {
                "words": wanted.words,
                "directory": os.fspath(os.fsdecode(wanted.directory)) if wanted.directory is not None else os.getcwd(),  # noqa: PTH109
                "environment": wanted.variables,
                "new_session": wanted.new_session,
            }
        ).encode()
        streams = [
            ours if given < 0 else given for ours, given in enumerate((wanted.stdin, wanted.stdout, wanted.stderr))
        ]
        with self._lock:
            connection = self._connection or self._open()
            socket.send_fds(connection, [struct.pack("!I", len(request))], streams)
            connection.sendall(request)
            answer = connection.recv(4, socket.MSG_WAITALL)
        if len(answer) < 4:
            raise RuntimeError("the fork server of the tests ended; its stderr has the reason")
        return int(struct.unpack("!I", answer)[0])

    def _open(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(MAIN), str(theirs.fileno())],
                cwd=TESTS.parent,
                env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
                pass_fds=[theirs.fileno()],
            )
        self._connection = ours
        return ours

    def close(self) -> None:
        """Stop the interpreter; the processes that it forked continue."""
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.wait()


@contextmanager
def forking(server: ForkServer) -> Generator[None]:
    """Start processes by `server` for the duration of the block, if it can fork them."""
    by_exec: Any = getattr(subprocess, "_fork_exec", None)
    if sys.platform != "linux" or os.uname().machine not in MACHINES or by_exec is None:
        yield
        return

    def fork(*arguments: Any) -> int:
        wanted = Start(*arguments[: len(fields(Start))])
        return server.start(wanted) if wanted.can_be_forked() else int(by_exec(*arguments))

    subprocess._fork_exec = fork  # type: ignore[attr-defined]
    try:
        yield
    finally:
        subprocess._fork_exec = by_exec  # type: ignore[attr-defined]
