"""What evals and trigger tests need of an agent: it performs a task in folders of its own, and reports what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from server.capabilities.evals.agents.run_folder import RunFolder
    from skills_core.disk.files import Location
    from skills_core.evals.agents.transcript import AgentRun, Transcript


class AgentUnavailableError(SkillsError):
    """The agent cannot be started; the message says what to do."""


class TestedSkill(Protocol):
    """A skill that is written for a run."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def digest(self) -> str:
        """A digest of all that a model may see of it."""
        ...

    def write(self, folder: Path) -> None:
        """Write it into a folder of its name below `folder`."""
        ...


def _never(_: Transcript) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask:
    """One run to perform.

    `folder` names the folders of the run, which the agent creates and the caller removes. `skills` are those that the
    agent has, the tested one first; none in the arm without a skill. `inputs` are input files by their paths in the
    workspace. The run ends early when `is_decided` says so.
    """

    folder: RunFolder
    prompt: str
    skills: Sequence[TestedSkill]
    seconds: float
    inputs: Mapping[str, Location] = field(default_factory=dict)
    is_decided: Callable[[Transcript], bool] = _never

    @property
    def text(self) -> str:
        """What the user says for a run with outputs: the prompt, the input files, and where files go.

        It is the same in all arms.
        """
        given = [f"Input files in the working folder: {', '.join(self.inputs)}"] if self.inputs else []
        return "\n\n".join([self.prompt, *given, "If the result is files, write them to the folder outputs."])


class Agent(Protocol):
    """An agent under test."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What makes runs of it comparable: its name, version, model and command."""
        ...

    @property
    def label(self) -> str:
        """The name for reports."""
        ...

    @property
    def installed(self) -> bool:
        """Whether skills lie in its own folder."""
        ...

    @property
    def tells_loads(self) -> bool:
        """Whether its record tells which skills it loads."""
        ...

    def running(self, tasks: Sequence[AgentTask]) -> AbstractAsyncContextManager[None]:
        """Open what the agent needs for these tasks, until the block ends."""
        ...

    async def perform(self, task: AgentTask) -> AgentRun:
        """Perform a task; a failure of the agent is part of the result.

        Raises:
            SkillsError: the task cannot be prepared.
        """
        ...
