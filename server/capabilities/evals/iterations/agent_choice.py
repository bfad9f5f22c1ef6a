"""Choose the agent of an eval and its judge: a model, or a coding agent that is started for each question."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from server.capabilities.evals.agents.agent import EXECUTOR, AgentTask, RunFolders
from server.capabilities.evals.agents.cli_agent import find_agent
from server.capabilities.evals.settings import EvalSettings
from server.capabilities.evals.workspace import EvalError
from server.capabilities.runs.offered import open_named
from server.capabilities.runs.settings import RunSettings
from skills_core.disk.files import Location
from skills_core.disk.writing import write_file
from skills_core.evals.agents.kind import AgentRights, Via
from skills_core.evals.grading.results import EvalStatus, status_of
from skills_core.installation import extra_advice
from skills_core.runs.models import CLIENT, ModelUnavailableError, check_model, has_extra, parse_model

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import AgentInfo

    from server.capabilities.evals.agents.cli_agent import CliAgent
    from server.config.settings.model import Settings
    from server.config.values import SecretStr


def eval_agent(
    name: str | None, template: str | None, *, via: str, model: str | None, home: Path | None
) -> CliAgent | None:
    """Return the agent, None for our own executor.

    Raises:
        EvalError: the options do not go together, or the agent cannot be used.
    """
    if name == EXECUTOR and template is not None:
        raise EvalError(
            "--agent skillserve is our own executor; --agent-command starts another agent: name one of them"
        )
    if template is None and name in {None, EXECUTOR}:
        given = {"--agent-model": model, "--agent-home": home, "--via server": via == Via.SERVER or None}
        if wrong := next((flag for flag, value in given.items() if value is not None), None):
            raise EvalError(f"{wrong} is for a coding agent, such as --agent claude; our own executor has --model")
        return None
    # A command without a known agent says itself where the skill is, by {skill}.
    way = Via(via) if name is not None else None
    return find_agent(name, template, via=way, rights=AgentRights.WORK, model=model, home=home)


_QUESTION: Final = "question.md"
_MAX_ARGUMENT: Final = 30_000
# Bytes of a question that is an argument of a command: Windows takes 32,767 characters in all, Linux 128 KiB for one.

_IN_FILE: Final = (
    f"The rest of this request stands in the file {_QUESTION} in the working folder. Read all of it, in parts if it is "
    "long, before you answer."
)


@dataclass(frozen=True, slots=True)
class Judge:
    """A model by its name, with a key if it is named by its URL; or an agent, which may be the one under test."""

    model: str = ""
    key: SecretStr | None = None
    agent: CliAgent | None = None

    @property
    def label(self) -> str:
        """The name in results: a grading by another judge is another grading."""
        return self.model if self.agent is None else self.agent.label

    def check(self) -> None:
        """Check that the judge is configured, as far as this is known without a request.

        Raises:
            EvalError: the model would be that of a client.
            ModelUnavailableError: the model or the extra cannot be used.
        """
        if self.agent is None:
            check_named(self.model)
        elif not has_extra():
            raise ModelUnavailableError(f"A judge needs the extra `run`; {extra_advice('run')}")

    def open(self, seconds: float) -> Model:
        """Return the judge as a model; an agent has `seconds` for each question.

        Raises:
            ModelUnavailableError: the model cannot be used.
        """
        if self.agent is None:
            return open_named(self.model, self.key)
        from pydantic_ai.models.function import FunctionModel

        return FunctionModel(_Asked(self.agent, seconds).answer, model_name=self.label)


def check_named(model: str) -> None:
    """Check a model of evals, as far as this is known without a request.

    Raises:
        EvalError: the model would be that of a client.
        ModelUnavailableError: it cannot be used.
    """
    if model == CLIENT:
        raise EvalError("the model `client` needs a connected client; name another model")
    check_model(parse_model(model), os.environ)


def choose_judge(settings: Settings, named: CliAgent | None, tested: CliAgent | None) -> Judge | None:
    """Return the judge: the agent that was named as one, the configured models, or the known agent under test."""
    evals, runs = settings.section(EvalSettings), settings.section(RunSettings)
    if named is None and (model := evals.judge_model or runs.model) is not None:
        return Judge(model, evals.judge_key if evals.judge_model else runs.model_key)
    # What a command of the user's prints need not be an answer.
    agent = named or (tested if tested is not None and tested.tells_loads else None)
    return None if agent is None else Judge(agent=replace(agent, via=None, rights=AgentRights.LOAD))


def judge_agent(name: str | None, template: str | None, *, model: str | None, home: Path | None) -> CliAgent | None:
    """Return the agent that a user names as the judge, None if there is none; it may only read.

    Raises:
        EvalError: the agent cannot be a judge, or it cannot be used.
    """
    if name is None and template is None:
        return None
    if name == EXECUTOR:
        raise EvalError("--judge-agent: our own executor grades with a model; name it with --judge-model")
    return find_agent(name, template, via=None, rights=AgentRights.LOAD, model=model, home=home)


@dataclass(frozen=True, slots=True)
class _Asked:
    """An agent that is asked one question a run, in an empty folder and with no skill."""

    agent: CliAgent
    seconds: float

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Return what the agent says.

        Raises:
            EvalError: the run ended with an error.
        """
        from pydantic_ai.messages import ModelResponse, TextPart, UserPromptPart
        from pydantic_ai.usage import RequestUsage

        from server.capabilities.runs.metered_model import COST_DETAIL

        parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
        question = "\n\n".join(part.content for part in parts if isinstance(part.content, str))
        folders = await anyio.to_thread.run_sync(RunFolders.open)
        try:
            task = await anyio.to_thread.run_sync(self._task, folders, info.instructions or "", question)
            run = await self.agent.perform(task)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(folders.remove)
        status, error = status_of(run, self.seconds, known=self.agent.tells_loads)
        if status is not EvalStatus.DONE:
            raise EvalError(error)
        output = run.transcript.output_tokens or 0
        usage = RequestUsage(input_tokens=(run.transcript.total_tokens or 0) - output, output_tokens=output)
        details = {COST_DETAIL: run.transcript.cost_usd}
        return ModelResponse(parts=[TextPart(run.answer)], usage=usage, provider_details=details)

    def _task(self, folders: RunFolders, instructions: str, question: str) -> AgentTask:
        whole = f"{instructions}\n\n{question}"
        folder = folders.of("judge")
        if len(whole.encode("utf-8", "replace")) <= _MAX_ARGUMENT:
            return AgentTask(folder=folder, prompt=_as_argument(whole), skills=(), seconds=self.seconds)
        place = Location(folders.root, _QUESTION)
        write_file(place, question.encode("utf-8", "replace"))
        prompt = f"{instructions}\n\n{_IN_FILE}"
        inputs = {_QUESTION: place}
        return AgentTask(folder=folder, prompt=prompt, skills=(), seconds=self.seconds, inputs=inputs)


def _as_argument(text: str) -> str:
    # An output may contain what no argument of a program can hold.
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
