"""A coding agent that is started by its command line, once for each run, in a folder and a home of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

import server
from server.evals.agents.agent_process import AgentCommand, run_agent
from server.evals.agents.run_folder import (
    agent_environment,
    fill_folder,
    install,
    open_run_folder,
    temporary_root,
    write_files,
)
from server.evals.agents.tested_agent import AgentUnavailableError
from server.evals.skills.skill_copies import find_twins
from skills_core.evals.agents.all_agents import AGENTS, ANY_AGENT
from skills_core.evals.agents.kind import ServerCommand, Via

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from server.evals.agents.run_folder import RunFolder
    from server.evals.skills.skill_copies import SkillCopy
    from skills_core.evals.agents.kind import AgentKind, Setup
    from skills_core.evals.agents.transcript import Transcript
    from skills_core.evals.triggers.outcomes import AgentRun

__all__ = ["CliAgent", "open_cli_agent"]

_PLACEHOLDER: Final = re.compile(r"\{(prompt|skill|outputs|files|root)\}")
_VERSION_SECONDS: Final = 30

_START: Final = "import runpy, sys; sys.path.insert(0, {!r}); runpy.run_module('server', run_name='__main__')"
# An agent starts the server in another folder and environment, so the command says where this package lies.


@dataclass(frozen=True, slots=True, kw_only=True)
class CliAgent:
    """An agent of a kind; `template` is the user's own command in place of that of the kind."""

    kind: AgentKind
    via: Via
    seconds: float
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
            "via": self.via.value,
        }

    @property
    def installed(self) -> bool:
        """Whether skills lie in the agent's own folder."""
        return self.via is Via.FOLDER

    def twins(self, name: str) -> list[Path]:
        """Return the skills of this name that the agent would find besides the one under test."""
        above = [temporary_root(), *temporary_root().parents]
        return find_twins(name, above if self.home is None else [*above, self.home], self.kind.folders)

    async def run(
        self, prompt: str, skills: Sequence[SkillCopy], log: Path, is_decided: Callable[[Transcript], bool]
    ) -> AgentRun:
        """Run the agent once.

        Raises:
            AgentUnavailableError: the agent cannot be started.
        """
        try:
            with open_run_folder() as folder:
                setup = self.kind.setup(_server_command(folder.skills) if self.via is Via.SERVER else None)
                words = await anyio.to_thread.run_sync(self._prepare, folder, prompt, skills, setup)
                environment = {**agent_environment(os.environ, self.kind, folder), **setup.environment}
                command = AgentCommand(words, folder.work, environment, self.seconds)
                return await run_agent(command, self.kind.reader(), is_decided, log)
        except (OSError, ValueError) as error:  # a query with a null character cannot be an argument
            said = getattr(error, "strerror", None) or error
            raise AgentUnavailableError(f"{self.kind.title} cannot be run: {said}") from error

    def _prepare(self, folder: RunFolder, prompt: str, skills: Sequence[SkillCopy], setup: Setup) -> list[str]:
        """Write the files of a run, and return the words of its command."""
        fill_folder(folder, self.home)
        place = folder.skills if self.via is Via.SERVER else folder.work / self.kind.skills_folder
        # A command of the user's may be any agent's.
        others = [folder.work / other for other in ANY_AGENT.other_folders[:1]] if self.kind is ANY_AGENT else []
        install(skills, [place, *others] if self.via is Via.FOLDER else [place])
        write_files(folder, setup.files)
        values = {"prompt": prompt, "skill": str(place / skills[0].name), "root": str(folder.root)}
        if self.template is None:
            return [_fill(word, values) for word in self._words(setup)]
        outputs = folder.work / "outputs"
        outputs.mkdir()
        quoted = {name: shlex.quote(value) for name, value in {**values, "outputs": str(outputs)}.items()}
        return ["sh", "-c", _fill(self.template, {**quoted, "files": ""})]

    def _words(self, setup: Setup) -> list[str]:
        model = [] if self.model is None else [word.replace("{model}", self.model) for word in self.kind.model_option]
        return [self.executable, *self.kind.command[1:], *model, *setup.arguments, *self.kind.prompt]


def _fill(word: str, values: Mapping[str, str]) -> str:
    """Replace placeholders once; a value that looks like a placeholder stays as it is."""
    return _PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group()), word)


def _server_command(skills: Path) -> ServerCommand:
    start = _START.format(str(Path(server.__file__).resolve().parents[1]))
    return ServerCommand(sys.executable, ("-c", start, "serve", str(skills)))


def open_cli_agent(
    name: str | None, template: str | None, *, via: Via, seconds: float, model: str | None, home: Path | None
) -> CliAgent:
    """Return the agent of this name, or of the user's own command `template`.

    Raises:
        AgentUnavailableError: the agent is not installed, or the command cannot be used.
    """
    kind = AGENTS[name] if name is not None else ANY_AGENT
    if home is not None and not home.is_dir():
        raise AgentUnavailableError(f"{home}: expected a folder with the settings of the agent")
    if template is not None:
        if "{prompt}" not in template:
            raise AgentUnavailableError(f"the command {template!r} has no {{prompt}}; write it where the query goes")
        if model is not None:
            raise AgentUnavailableError("name the model in the command of the agent, not by an option")
        return CliAgent(kind=kind, via=via, seconds=seconds, template=template, home=home)
    executable = shutil.which(kind.command[0])
    if executable is None:
        raise AgentUnavailableError(
            f"{kind.title} is not installed: there is no {kind.command[0]!r} on the PATH; install it, or name another "
            "agent or a command of your own"
        )
    version = _version_of(executable, kind)
    return CliAgent(kind=kind, via=via, seconds=seconds, executable=executable, version=version, model=model, home=home)


def _version_of(executable: str, kind: AgentKind) -> str:
    """Return what the agent says about its version; empty if it says nothing in time."""
    with tempfile.TemporaryDirectory(prefix="skillserve-", ignore_cleanup_errors=True) as home:
        environment = {name: value for name, value in os.environ.items() if name not in kind.variables}
        try:
            said = subprocess.run(  # noqa: S603 - the agent that the user named
                [executable, "--version"],
                env={**environment, "HOME": home},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return " ".join(said.stdout.decode("utf-8", "replace").split())[:100]
