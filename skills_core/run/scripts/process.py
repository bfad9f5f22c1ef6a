"""Runs a program within limits: starts it, feeds its stdin, collects its output, and ends it.

No shell is involved: arguments are passed as they are. The program has no terminal, reads only the given stdin, and
both of its streams are read concurrently, so that neither blocks the other. However the call ends, by itself, a limit
or a cancellation, all processes that the program started end too, except those that left its session; `confinement`
handles these.
"""

from __future__ import annotations

import os
import signal
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
    "exit_text",
    "run_process",
]

GRACE_SECONDS = 1.0
"""Seconds that a program gets to clean up after SIGTERM."""

SECCOMP_FILTER = "{descriptor of the seccomp filter}"
"""A placeholder argument for the number of the descriptor from which the program reads its seccomp filter."""

_DRAIN_SECONDS = 0.5
# Seconds that processes left running may keep the streams open after the program ended; then they are killed.


class ProcessEnding(StrEnum):
    """How a program ended. The output of a killed program is kept."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    TOO_MUCH_OUTPUT = "too_much_output"
    STOPPED = "stopped"
    """Its caller has seen enough."""
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, its working directory, and its complete environment.

    A program without a path is looked up in the PATH of `environment`; on Windows, in that of this process. A non-empty
    `seccomp_filter` is passed on a descriptor, whose number replaces the first argument `SECCOMP_FILTER`. The program
    gets `grace_seconds` to end after SIGTERM.
    """

    argv: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str]
    seccomp_filter: bytes = b""
    grace_seconds: float = GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of a program: run time, and bytes of output on both streams together."""

    seconds: float = 120.0
    output_bytes: int = 10_000_000


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of a program.

    `exit_code` is None if it did not exit by itself, and negative if a signal ended it on POSIX. `fault` says why it
    was not started.
    """

    ending: ProcessEnding
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    fault: str = ""


def exit_text(exit_code: int | None) -> str:
    """Say how a program ended that no limit ended, as the predicate of a sentence."""
    if exit_code is None or exit_code >= 0:
        return f"ended with exit code {exit_code}"
    names = {each.value: f" ({each.name})" for each in signal.Signals}
    return f"was ended by signal {-exit_code}{names.get(-exit_code, '')}"


class _OutputBuffer:
    """The output of both streams, together within the limit."""

    def __init__(self, limit: int, watch: Callable[[bytes], bool] | None) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.overflowed = self.stopped = False
        self._left = limit
        self._watch = watch

    def take_stdout(self, piece: bytes) -> bool:
        goes_on = self._take(self.stdout, piece)
        if goes_on and self._watch is not None:
            self.stopped = not self._watch(piece)
        return goes_on and not self.stopped

    def take_stderr(self, piece: bytes) -> bool:
        return self._take(self.stderr, piece)

    def _take(self, stream: bytearray, piece: bytes) -> bool:
        stream += piece[: self._left]
        self.overflowed = self.overflowed or len(piece) > self._left
        self._left = max(0, self._left - len(piece))
        return not self.overflowed


async def run_process(
    command: Command, limits: ProcessLimits, stdin: bytes = b"", watch: Callable[[bytes], bool] | None = None
) -> ProcessResult:
    """Run a program with `stdin`, and return its result.

    Reaching a limit ends the program. So does `watch` when it returns false for a piece of stdout, and a cancellation,
    which propagates once the program has ended.
    """
    output = _OutputBuffer(limits.output_bytes, watch)
    with Pipe() as stdout, Pipe() as stderr:
        try:
            process = await _start(command, stdin, stdout.writer, stderr.writer)
        except (OSError, ValueError) as error:
            return ProcessResult(ProcessEnding.NOT_STARTED, fault=_start_error(command, error))
        # A stream ends once all write ends are closed.
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
    if output.stopped:
        return ProcessResult(ProcessEnding.STOPPED, None, bytes(output.stdout), bytes(output.stderr))
    ending = ProcessEnding.TIMED_OUT if exit_code is None else ProcessEnding.EXITED
    return ProcessResult(ending, exit_code, bytes(output.stdout), bytes(output.stderr))


async def _start(command: Command, stdin: bytes, stdout: int, stderr: int) -> Process:
    # From a file the program reads at its own pace, and no task has to write.
    given = await anyio.to_thread.run_sync(_temporary_file, stdin) if stdin else None
    # A cancellation here would leave an unknown child process.
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
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.seek(0)
    return file


def _start_error(command: Command, error: OSError | ValueError) -> str:
    why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    named = getattr(error, "filename", None) or command.argv[0]
    return one_line(f"{named}: {why[:1].lower()}{why[1:]}")


async def _wait_and_drain(process: Process, output: _OutputBuffer, stdout: Pipe, stderr: Pipe) -> None:
    """Wait until the program and its streams have ended, shortly longer for the streams, or until too much output."""
    async with anyio.create_task_group() as tasks:

        async def collect(pipe: Pipe, take: Callable[[bytes], bool]) -> None:
            await pipe.drain(take)
            if output.overflowed or output.stopped:
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
    """End a program if it still runs, and all processes that it left; wait for it, but not for ever."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            await terminate(process.pid)
            with anyio.move_on_after(grace_seconds):
                await process.wait()
        await kill_all(process.pid)
        with anyio.move_on_after(GRACE_SECONDS):
            await process.wait()
