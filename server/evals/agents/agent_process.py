"""Run an agent's process to its end, or until its outcome is clear, and read what it prints meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from server.evals.agents.programs import run_program
from skills_core.diagnostics import one_line
from skills_core.evals.agents.agent_run import AgentRun
from skills_core.evals.agents.printed import transcript_lines
from skills_core.run.scripts.process import ProcessEnding, ProcessLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.evals.agents.kind import TranscriptReader
    from skills_core.evals.agents.transcript import Transcript
    from skills_core.run.scripts.process import Command, ProcessResult

__all__ = ["run_agent"]

_MAX_OUTPUT: Final = 64 * 1024 * 1024
_MAX_ERRORS: Final = 600


@dataclass(slots=True)
class _Watcher:
    """Reads lines as they come, until the outcome is clear."""

    reader: TranscriptReader
    is_decided: Callable[[Transcript], bool]
    _rest: bytearray = field(default_factory=bytearray)

    def goes_on(self, piece: bytes) -> bool:
        """Read the lines that a piece of the output completes; return whether the agent shall go on."""
        begin = len(self._rest)
        self._rest += piece
        end = self._rest.rfind(b"\n", begin)
        if end < 0:
            return True
        whole, self._rest = bytes(self._rest[:end]), self._rest[end + 1 :]
        return all(map(self._take, whole.split(b"\n")))

    def end(self) -> Transcript:
        """Read what follows the last line, and return the record."""
        self._take(bytes(self._rest))
        return self.reader.transcript()

    def _take(self, line: bytes) -> bool:
        self.reader.take(line.decode("utf-8", "replace"))
        return not self.is_decided(self.reader.transcript())


async def run_agent(
    command: Command, seconds: float, reader: TranscriptReader, is_decided: Callable[[Transcript], bool]
) -> AgentRun:
    """Run the agent for at most `seconds`, and return what it did."""
    watcher, begun = _Watcher(reader, is_decided), time.monotonic()
    done = await run_program(command, ProcessLimits(seconds, _MAX_OUTPUT), watcher.goes_on)
    transcript = watcher.end()
    said = transcript.text if transcript.recognized else ""
    return AgentRun(
        transcript=transcript,
        exit_code=done.exit_code,
        timed_out=done.ending is ProcessEnding.TIMED_OUT,
        stopped=done.ending is ProcessEnding.STOPPED,
        fault=_fault(done),
        seconds=time.monotonic() - begun,
        errors=one_line(done.stderr.decode("utf-8", "replace").strip()[-_MAX_ERRORS:]),
        lines=tuple(transcript_lines(done.stdout, done.stderr)),
        answer=said or done.stdout.decode("utf-8", "replace"),
    )


def _fault(done: ProcessResult) -> str:
    if done.ending is ProcessEnding.NOT_STARTED:
        return f"the agent's command was not started: {done.fault}"
    if done.ending is ProcessEnding.TOO_MUCH_OUTPUT:
        return f"the agent printed more than {_MAX_OUTPUT:,} bytes"
    return ""
