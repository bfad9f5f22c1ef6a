"""A program started, fed and ended, within limits.

It is started without a shell: what stands in an argument is text, whatever it looks like. It has no terminal, reads
nothing but what it is given, and both of its streams are read at the same time, so that neither can hold up the other.
However the call ends, be it by the program, a limit or a cancellation, all processes that it started end with it, save
those that left its session: `confinement` keeps these.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.run.scripts.platform_processes import OWN_SESSION, Pipe, kill_all, pipe_with, terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from anyio.abc import Process

__all__ = [
    "GRACE_SECONDS",
    "SECCOMP_FILTER",
    "Command",
    "ProcessEnding",
    "ProcessLimits",
    "ProcessResult",
    "run_process",
]

GRACE_SECONDS = 1.0
"""What a program has for putting things in order when it is asked to end."""

SECCOMP_FILTER = "{descriptor of the seccomp filter}"
"""An argument in whose place a program gets the number of the descriptor from which it reads its filter."""

_DRAIN_SECONDS = 0.5
# What a program left running may hold its streams open for so long after it, and then ends too.


class ProcessEnding(StrEnum):
    """How a program ended. Of those that did not exit by themselves, what they wrote until then is kept."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    TOO_MUCH_OUTPUT = "too_much_output"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: a program and its arguments, the directory to start it in, and its whole environment.

    A program without a path is looked up in the PATH of `environment`; on Windows, in that of this process. A
    `seccomp_filter` that is not empty is given to it on a descriptor, for the first argument that is `SECCOMP_FILTER`.
    It has `grace_seconds` to end when it is asked to.
    """

    argv: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str]
    seccomp_filter: bytes = b""
    grace_seconds: float = GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How long a program may run, and how many bytes it may write, to both streams together."""

    seconds: float = 120.0
    output_bytes: int = 10_000_000


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """What came of a program.

    `exit_code` is None where it did not exit by itself, and below 0 where a signal ended it on POSIX. `fault` says why
    it was not started.
    """

    ending: ProcessEnding
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    fault: str = ""


class _OutputBuffer:
    """What is kept of both streams: no more than the limit, together."""

    def __init__(self, limit: int) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.overflowed = False
        self._left = limit

    def take_stdout(self, piece: bytes) -> bool:
        return self._take(self.stdout, piece)

    def take_stderr(self, piece: bytes) -> bool:
        return self._take(self.stderr, piece)

    def _take(self, stream: bytearray, piece: bytes) -> bool:
        stream += piece[: self._left]
        self.overflowed = self.overflowed or len(piece) > self._left
        self._left = max(0, self._left - len(piece))
        return not self.overflowed


async def run_process(command: Command, limits: ProcessLimits, stdin: bytes = b"") -> ProcessResult:
    """Start a program, give it `stdin` to read, and return what came of it.

    A limit that is reached ends it, as does a cancellation, which goes on when it has ended.
    """
    output = _OutputBuffer(limits.output_bytes)
    with Pipe() as stdout, Pipe() as stderr:
        try:
            process = await _start(command, stdin, stdout.writer, stderr.writer)
        except (OSError, ValueError) as error:
            return ProcessResult(ProcessEnding.NOT_STARTED, fault=_start_error(command, error))
        # A stream ends when nobody has the end to write to any more.
        stdout.close_writer()
        stderr.close_writer()
        exit_code = None
        try:
            with anyio.move_on_after(limits.seconds):
                await _wait_and_drain(process, output, stdout, stderr)
        finally:
            exit_code = process.returncode
            await _end(process, command.grace_seconds)
    if output.overflowed:
        return ProcessResult(ProcessEnding.TOO_MUCH_OUTPUT, None, bytes(output.stdout), bytes(output.stderr))
    ending = ProcessEnding.TIMED_OUT if exit_code is None else ProcessEnding.EXITED
    return ProcessResult(ending, exit_code, bytes(output.stdout), bytes(output.stderr))


async def _start(command: Command, stdin: bytes, stdout: int, stderr: int) -> Process:
    # A file can be read at any pace, and nobody has to be there to write.
    given = await anyio.to_thread.run_sync(_temporary_file, stdin) if stdin else None
    # Broken off here, a child would be left that nobody knows of.
    with given or nullcontext(), anyio.CancelScope(shield=True):
        argv, inherited = list(command.argv), []
        if command.seccomp_filter:
            inherited = [await anyio.to_thread.run_sync(pipe_with, command.seccomp_filter)]
            argv[argv.index(SECCOMP_FILTER)] = str(inherited[0])
        try:
            process = await anyio.open_process(
                argv,
                stdin=given or subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=command.directory,
                env=command.environment,
                pass_fds=inherited,
                **OWN_SESSION,
            )
        finally:
            for descriptor in inherited:
                os.close(descriptor)
    return process


def _temporary_file(content: bytes) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever starts the child closes it
    file.write(content)
    file.seek(0)
    return file


def _start_error(command: Command, error: OSError | ValueError) -> str:
    why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    named = getattr(error, "filename", None) or command.argv[0]
    return one_line(f"{named}: {why[:1].lower()}{why[1:]}")


async def _wait_and_drain(process: Process, output: _OutputBuffer, stdout: Pipe, stderr: Pipe) -> None:
    """Return when the program has ended and its streams too, or soon after it, or when there is too much output."""
    async with anyio.create_task_group() as tasks:

        async def collect(pipe: Pipe, take: Callable[[bytes], bool]) -> None:
            await pipe.drain(take)
            if output.overflowed:
                tasks.cancel_scope.cancel()

        async def stop_after_exit() -> None:
            await process.wait()
            await anyio.sleep(_DRAIN_SECONDS)
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop_after_exit)
        async with anyio.create_task_group() as streams:
            streams.start_soon(collect, stdout, output.take_stdout)
            streams.start_soon(collect, stderr, output.take_stderr)
        await process.wait()
        tasks.cancel_scope.cancel()


async def _end(process: Process, grace_seconds: float) -> None:
    """End a program, if need be, and all that it left running; wait for it, but not for ever."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            await terminate(process.pid)
            with anyio.move_on_after(grace_seconds):
                await process.wait()
        await kill_all(process.pid)
        with anyio.move_on_after(GRACE_SECONDS):
            await process.wait()
