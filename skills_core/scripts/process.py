"""Runs a program within limits: starts it, feeds its stdin, collects its output, and ends it.

No shell is involved: arguments are passed as they are. The program has no terminal, reads only the given stdin, and
both of its streams are read concurrently, so that neither blocks the other. However the call ends, by itself, a limit
or a cancellation, all processes that the program started end too, except those that left its session; `isolation`
handles these.

On POSIX a child leads a session, so it has no terminal, and is killed with all descendants that did not leave its
process group. On Windows it has no console, and its tree is killed as far as living parents lead to their children.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import anyio
import anyio.to_thread

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from anyio.abc import Process

PIPES_ARE_POLLABLE = sys.platform != "win32"
"""Whether the event loop can wait for a pipe."""

OWN_SESSION: dict[str, Any] = (
    # CREATE_NO_WINDOW and CREATE_NEW_PROCESS_GROUP, which only Windows defines.
    {"creationflags": 0x0800_0000 | 0x0000_0200} if sys.platform == "win32" else {"start_new_session": True}
)
"""Arguments that start a child without a terminal, so that it can be killed with its children."""

HAS_SUBREAPER = sys.platform == "linux"
"""Whether a process can adopt the orphans among its descendants, so that none of them escapes."""

_PIECE = 1 << 16
_CLOSED = -1


async def terminate(leader: int) -> None:
    """Send SIGTERM to the child that leads a session, and to its process group."""
    if sys.platform == "win32":
        await kill_all(leader)
    else:
        _signal(leader, signal.SIGTERM)
        # A stopped process cannot end before it continues.
        _signal(leader, signal.SIGCONT)


async def kill_all(leader: int) -> None:
    """Kill the child that leads a session, and its process group, also if the child itself has ended.

    The system does not reuse the number for another process while the group exists.
    """
    if sys.platform == "win32":
        with suppress(OSError):
            await anyio.run_process(
                ["taskkill", "/T", "/F", "/PID", str(leader)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
    else:
        _signal(leader, signal.SIGKILL)


class Pipe:
    """A pipe from a child to this process; use it as a context manager."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_writer()
        _close(self._taken())

    def close_writer(self) -> None:
        """Close the write end here, so that only the child has it."""
        writer, self.writer = self.writer, _CLOSED
        _close(writer)

    async def drain(self, take: Callable[[bytes], bool]) -> None:
        """Pass the data to `take` until the pipe ends, or `take` returns false."""
        if not PIPES_ARE_POLLABLE:
            # The thread may outlive its caller while it waits for the pipe's end.
            limiter = anyio.CapacityLimiter(1)
            await anyio.to_thread.run_sync(self._drain, take, abandon_on_cancel=True, limiter=limiter)
            return
        os.set_blocking(self._reader, False)
        while True:
            await anyio.wait_readable(self._reader)
            piece = os.read(self._reader, _PIECE)
            if not piece or not take(piece):
                return

    def _drain(self, take: Callable[[bytes], bool]) -> None:
        with open(self._taken(), "rb", buffering=0) as file:  # noqa: PTH123 - it is a descriptor
            while (piece := file.read(_PIECE)) and take(piece):
                pass

    def _taken(self) -> int:
        reader, self._reader = self._reader, _CLOSED
        return reader


def pipe_with(content: bytes) -> int:
    """Return a descriptor from which a child reads `content`, which must fit into a pipe; the caller closes it."""
    reader, writer = os.pipe()
    try:
        os.write(writer, content)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return reader


def _close(descriptor: int) -> None:
    if descriptor != _CLOSED:
        os.close(descriptor)


if sys.platform != "win32":

    def _signal(leader: int, number: signal.Signals) -> None:
        # macOS reports a missing permission if all processes of a group have ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)


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
