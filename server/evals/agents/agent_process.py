"""Run an agent's process to its end, or until its outcome is clear, and end it with everything that it started."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from skills_core.evals.triggers.outcomes import AgentRun
from skills_core.run.scripts.platform_processes import OWN_SESSION, kill_all, terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import ByteReceiveStream, Process

    from skills_core.evals.agents.kind import TranscriptReader
    from skills_core.evals.agents.transcript import Transcript

__all__ = ["AgentCommand", "run_agent"]

_GRACE: Final = 2.0
# Seconds that an agent has to end after SIGTERM, and for the end of its output once it has ended.

_MAX_LINE: Final = 16 * 1024 * 1024
_MAX_OUTPUT: Final = 256 * 1024 * 1024
_MAX_ERRORS: Final = 600


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """The command of a run, its working directory and its environment."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    seconds: float


@dataclass(slots=True)
class _Output:
    """Reads what the agent prints, and keeps the lines."""

    reader: TranscriptReader
    is_decided: Callable[[Transcript], bool]
    decided: anyio.Event = field(default_factory=anyio.Event)
    lines: list[str] = field(default_factory=list)
    errors: bytes = b""
    _rest: bytes = b""
    _size: int = 0

    async def read(self, stream: ByteReceiveStream) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for piece in stream:
                self._take(piece)
        if self._rest:
            self._line(self._rest)

    def _take(self, piece: bytes) -> None:
        *lines, rest = (self._rest + piece).split(b"\n")
        # A line without end must not fill the memory; what follows it is read as a line of its own.
        self._rest = rest if len(rest) <= _MAX_LINE else b""
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._size += len(line)
        if self._size <= _MAX_OUTPUT:
            self.lines.append(text)
        self.reader.take(text)
        if not self.decided.is_set() and self.is_decided(self.reader.transcript()):
            self.decided.set()

    async def read_errors(self, stream: ByteReceiveStream) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for piece in stream:
                self.errors = (self.errors + piece)[-_MAX_ERRORS:]


async def run_agent(
    command: AgentCommand, reader: TranscriptReader, is_decided: Callable[[Transcript], bool], log: Path
) -> AgentRun:
    """Run the agent; write what it prints to `log`, one JSON value a line.

    Raises:
        OSError: the agent cannot be started, or `log` cannot be written.
    """
    output, started = _Output(reader, is_decided), time.monotonic()
    process = await anyio.open_process(
        list(command.words),
        stdin=subprocess.DEVNULL,
        cwd=command.folder,
        env=dict(command.environment),
        **OWN_SESSION,
    )
    with anyio.move_on_after(command.seconds) as clock:
        try:
            await _follow(process, output)
        finally:
            with anyio.CancelScope(shield=True):
                exit_code = await _end(process)
                await anyio.to_thread.run_sync(_write_log, log, output.lines)
    return AgentRun(
        transcript=output.reader.transcript(),
        exit_code=None if output.decided.is_set() or clock.cancelled_caught else exit_code,
        timed_out=clock.cancelled_caught and not output.decided.is_set(),
        stopped=output.decided.is_set(),
        seconds=time.monotonic() - started,
        errors=output.errors.decode("utf-8", "replace").strip(),
    )


async def _follow(process: Process, output: _Output) -> None:
    """Read the output until the process ends or the outcome is clear."""
    stdout, stderr = process.stdout, process.stderr
    assert stdout is not None  # noqa: S101 - a pipe
    assert stderr is not None  # noqa: S101 - likewise
    async with anyio.create_task_group() as tasks:

        async def end_when_decided() -> None:
            await output.decided.wait()
            tasks.cancel_scope.cancel()

        async def read_to_end() -> None:
            async with anyio.create_task_group() as readers:
                readers.start_soon(output.read, stdout)
                readers.start_soon(output.read_errors, stderr)
                await process.wait()
                # A process that the agent left behind may keep the pipes open.
                readers.cancel_scope.deadline = anyio.current_time() + _GRACE
            tasks.cancel_scope.cancel()

        tasks.start_soon(end_when_decided)
        tasks.start_soon(read_to_end)


async def _end(process: Process) -> int | None:
    """End the process and its group, and return its exit code."""
    if process.returncode is None:
        await terminate(process.pid)
        with anyio.move_on_after(_GRACE):
            await process.wait()
    await kill_all(process.pid)
    with anyio.move_on_after(_GRACE):
        await process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await stream.aclose()
    return process.returncode


def _write_log(log: Path, lines: Sequence[str]) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(f"{_as_json(line)}\n" for line in lines), encoding="utf-8", newline="\n")


def _as_json(line: str) -> str:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return json.dumps({"text": line}, ensure_ascii=False)
    return line.strip()
