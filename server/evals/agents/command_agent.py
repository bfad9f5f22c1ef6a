"""An agent by its command: a template that `sh` runs in the workspace of each run.

If it prints what one of the known agents prints, that tells its tokens, calls, answer and errors.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from server.evals.agents.agent import AgentReport
from server.evals.agents.scratch import agent_environment
from server.evals.agents.shell import run_shell
from skills_core.diagnostics import one_line
from skills_core.evals.agents.all_agents import ANY_AGENT
from skills_core.evals.grading.results import EvalStatus
from skills_core.run.scripts.process import ProcessEnding, ProcessLimits, exit_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from server.evals.agents.agent import AgentTask
    from server.evals.agents.scratch import RunScratch, ScratchFolder
    from skills_core.evals.agents.transcript import Transcript
    from skills_core.run.scripts.process import ProcessResult

__all__ = ["CommandAgent", "fill_template", "transcript_lines"]

_PLACEHOLDER: Final = re.compile(r"(?<!\$)\{(prompt|skill|outputs|files)\}")
# `${files}` is a variable of the shell.

_MAX_TRANSCRIPT: Final = 64 * 1024 * 1024
_MAX_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """Runs `template` for each task, in folders below `scratch`."""

    template: str
    scratch: ScratchFolder

    @property
    def label(self) -> str:
        """The template."""
        return self.template

    @asynccontextmanager
    async def running(self, tasks: list[AgentTask]) -> AsyncGenerator[None]:
        """Open nothing: each command is a process of its own."""
        del tasks
        yield

    async def perform(self, task: AgentTask) -> AgentReport:
        """Run the command for a task."""
        prepare = partial(self.scratch.prepare, task.key, task.attempt, task.source, task.case, task.version)
        scratch = await anyio.to_thread.run_sync(prepare)
        command = fill_template(self.template, task.case.prompt, scratch)
        limits = ProcessLimits(task.seconds, _MAX_TRANSCRIPT)
        begun = time.monotonic()
        done = await run_shell(command, scratch.workspace, agent_environment(scratch, os.environ), limits)
        duration_ms = round((time.monotonic() - begun) * 1000)
        printed = done.stdout.decode("utf-8", "replace")
        said = ANY_AGENT.parse(printed.splitlines())
        status, error = _status(done, task.seconds)
        if status is EvalStatus.DONE and said.is_error:
            status, error = EvalStatus.ERROR, f"the agent reports: {said.error or 'an error'}"
        if status is EvalStatus.DONE and task.version is None and (loaded := _known_skills(said, task)):
            status, error = EvalStatus.ERROR, f"the baseline is not without the skill: the agent loaded {loaded}"
        return AgentReport(
            scratch=scratch,
            status=status,
            error=error,
            exit_code=done.exit_code,
            duration_ms=duration_ms,
            total_tokens=said.total_tokens,
            tool_calls=said.tool_calls if said.recognized else None,
            transcript=tuple(transcript_lines(done)),
            answer=said.text if said.recognized and said.text else printed,
        )


def _known_skills(said: Transcript, task: AgentTask) -> str:
    """Return the name of the skill under test if the agent has loaded it."""
    return task.skill_name if task.skill_name in said.loaded else ""


def fill_template(template: str, prompt: str, scratch: RunScratch) -> str:
    """Return the command for a run; the values are quoted for the shell."""
    values = {
        "prompt": shlex.quote(prompt),
        "skill": shlex.quote(str(scratch.skill or "")),
        "outputs": shlex.quote(str(scratch.outputs)),
        "files": " ".join(shlex.quote(str(file)) for file in scratch.files),
    }
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


def transcript_lines(done: ProcessResult) -> Iterator[str]:
    """Yield what a program printed, one JSON value a line; lines that are not JSON become objects with their text."""
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.strip():
            yield _json_line(line)
    for line in done.stderr.decode("utf-8", "replace").splitlines():
        if line.strip():
            yield json.dumps({"text": line, "stream": "stderr"}, ensure_ascii=False)


def _json_line(line: str) -> str:
    try:
        # A bare word or number is text that happens to be JSON.
        if isinstance(value := json.loads(line), dict | list):
            return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"text": line}, ensure_ascii=False)


def _status(done: ProcessResult, seconds: float) -> tuple[EvalStatus, str]:
    """Return the status of a run by how its command ended, and why it is not done."""
    said = one_line(done.stderr.decode("utf-8", "replace").strip()[-_MAX_ERROR:])
    match done.ending:
        case ProcessEnding.NOT_STARTED:
            return EvalStatus.ERROR, f"the agent's command was not started: {done.fault}"
        case ProcessEnding.TIMED_OUT:
            return EvalStatus.TIMEOUT, f"the agent took longer than {seconds:g} seconds; raise --timeout"
        case ProcessEnding.TOO_MUCH_OUTPUT:
            return EvalStatus.ERROR, f"the agent printed more than {_MAX_TRANSCRIPT} bytes"
    if done.exit_code == 0:
        return EvalStatus.DONE, ""
    return EvalStatus.ERROR, f"the agent's command {exit_text(done.exit_code)}{f': {said}' if said else ''}"
