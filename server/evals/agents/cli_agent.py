"""A coding agent that is started by its command line, once for each run, in folders and a home of its own."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

import server
from server.evals.agents.agent_process import run_agent
from server.evals.agents.programs import shell_words
from server.evals.agents.run_folder import agent_environment, temporary_root
from server.evals.agents.template import fill
from server.evals.errors import EvalError
from server.evals.skills.skill_copies import find_twins
from skills_core.evals.agents.all_agents import ANY_AGENT
from skills_core.evals.agents.kind import Rights, ServerCommand, Via
from skills_core.run.scripts.process import Command

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from server.evals.agents.agent import AgentTask
    from server.evals.agents.run_folder import RunFolder
    from skills_core.evals.agents.agent_run import AgentRun
    from skills_core.evals.agents.kind import AgentKind, Setup

__all__ = ["CliAgent"]

_START: Final = "import runpy, sys; sys.path.insert(0, {!r}); runpy.run_module('server', run_name='__main__')"
# An agent starts the server in another folder and environment, so the command says where this package lies.

_GRACE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CliAgent:
    """An agent of a kind; `template` is the user's own command in place of that of the kind.

    `via` is None if only the template says where the skill is.
    """

    kind: AgentKind
    via: Via | None
    rights: Rights
    executable: str = ""
    version: str = ""
    template: str | None = None
    model: str | None = None
    home: Path | None = None

    @property
    def identity(self) -> Mapping[str, str]:
        """What makes runs of this agent comparable."""
        command = self.template or shlex.join(self.kind.command)
        return {
            "agent": self.kind.name,
            "version": self.version,
            "command": command,
            "model": self.model or "",
            "via": "" if self.via is None else self.via.value,
        }

    @property
    def label(self) -> str:
        """The command of the user, or the agent with its version and model."""
        return self.template or " ".join(filter(None, (self.kind.title, self.version, self.model)))

    @property
    def installed(self) -> bool:
        """Whether skills lie in the agent's own folder."""
        return self.via is Via.FOLDER

    @property
    def tells_loads(self) -> bool:
        """Whether it is a known agent; a command of the user's may print anything."""
        return self.kind is not ANY_AGENT

    @property
    def gets_skill(self) -> bool:
        """Whether a run can have the skill at all."""
        return self.via is not None or "{skill}" in (self.template or "")

    def twins(self, name: str) -> list[Path]:
        """Return the skills of this name that the agent would find besides the one under test."""
        above = [temporary_root(), *temporary_root().parents]
        return find_twins(name, above if self.home is None else [*above, self.home], self.kind.folders)

    @asynccontextmanager
    async def running(self, tasks: Sequence[AgentTask]) -> AsyncGenerator[None]:
        """Open nothing: each run is a process of its own."""
        del tasks
        yield

    async def perform(self, task: AgentTask) -> AgentRun:
        """Run the agent once.

        Raises:
            EvalError: the folders of the run cannot be created, or there is no shell for the template.
        """
        folder = task.folder
        serves = self.via is Via.SERVER and task.skills
        setup = self.kind.setup(_server_command(folder.skills) if serves else None, self.rights)
        try:
            words = await anyio.to_thread.run_sync(self._prepare, task, setup)
        except OSError as error:
            said = error.strerror or error
            raise EvalError(f"the folders of a run in {folder.root.parent} cannot be created: {said}") from error
        environment = {**agent_environment(folder, os.environ), **setup.environment}
        command = Command(words, folder.work, environment, grace_seconds=_GRACE_SECONDS)
        return await run_agent(command, task.seconds, self.kind.reader(), task.is_decided)

    def _prepare(self, task: AgentTask, setup: Setup) -> tuple[str, ...]:
        """Write the files of a run, and return the words of its command."""
        folder = task.folder
        folder.create(task.inputs, self.home)
        places = self._places(folder)
        for place in places:
            for skill in task.skills:
                skill.write(place)
        folder.write(setup.files)
        values = {
            "prompt": task.prompt,
            "skill": str(places[0] / task.skills[0].name) if task.skills else "",
            "outputs": str(folder.outputs),
        }
        if self.template is not None:
            files = " ".join(shlex.quote(str(folder.work / path)) for path in task.inputs)
            quoted = {name: shlex.quote(value) for name, value in values.items()}
            return shell_words(fill(self.template, {**quoted, "files": files}))
        prompt = task.text if self.rights is Rights.WORK else task.prompt
        values = {"prompt": prompt, "root": str(folder.root), "model": self.model or ""}
        return tuple(fill(word, values) for word in self._words(setup))

    def _places(self, folder: RunFolder) -> list[Path]:
        """Return the folders that get the skills."""
        if self.via is not Via.FOLDER:
            return [folder.skills]
        # A command of the user's may be any agent's.
        others = self.kind.other_folders[:1] if self.kind is ANY_AGENT else ()
        return [folder.work / path for path in (self.kind.skills_folder, *others)]

    def _words(self, setup: Setup) -> list[str]:
        model = self.kind.model_option if self.model is not None else ()
        return [self.executable, *self.kind.command[1:], *model, *setup.arguments, *self.kind.prompt]


def _server_command(skills: Path) -> ServerCommand:
    start = _START.format(str(Path(server.__file__).resolve().parents[1]))
    return ServerCommand(sys.executable, ("-c", start, "serve", str(skills)))
