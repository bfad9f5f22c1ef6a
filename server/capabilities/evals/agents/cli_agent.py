"""A coding agent that is started by its command line, once for each run, in folders and a home of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

import server
from server.capabilities.evals.agents.agent import Agent, RunFolder, agent_environment, temporary_root
from server.capabilities.evals.agents.isolation import NOT_ISOLATED, AgentNeeds, isolation_for
from server.capabilities.evals.tested_skills import find_twins
from server.capabilities.evals.workspace import EvalError
from skills_core.diagnostics import one_line, printable
from skills_core.evals.agents import AGENTS, ANY_AGENT
from skills_core.evals.agents.kind import AgentRights, AgentRun, Via, transcript_lines
from skills_core.scripts.isolation import Isolation, run_confined
from skills_core.scripts.process import Command, ProcessEnding, ProcessLimits

if TYPE_CHECKING:
    from server.capabilities.evals.agents.agent import AgentTask
    from server.capabilities.evals.agents.isolation import AgentIsolation, HiddenPlaces
    from skills_core.evals.agents.kind import AgentKind, Setup, Transcript, TranscriptReader
    from skills_core.scripts.process import ProcessResult


def shell_words(command: str) -> tuple[str, ...]:
    """Return the words that run a command by `sh -c`.

    Raises:
        EvalError: there is no shell.
    """
    shell = shutil.which("sh")
    if shell is None:
        raise EvalError("there is no sh on the PATH; install a POSIX shell (on Windows, Git for Windows has one)")
    return (shell, "-c", command)


async def run_program(
    command: Command, limits: ProcessLimits, watch: Callable[[bytes], bool] | None = None
) -> ProcessResult:
    """Run a program, and return its result. A cancellation ends it, and so does `watch`; see `run_process`."""
    return await run_confined(Isolation(), command, limits, python=Path(sys.executable), watch=watch)


_MAX_OUTPUT: Final = 64 * 1024 * 1024
_MAX_ERRORS: Final = 600

_PLACEHOLDER: Final = re.compile(r"(?<!\$)\{(\w+)\}")
# `${files}` is a variable of the shell.

_START: Final = "import runpy, sys; sys.path.insert(0, {!r}); runpy.run_module('server', run_name='__main__')"
# An agent starts the server in another folder and environment, so the command says where this package lies.

_GRACE_SECONDS: Final = 2.0

_VERSION_SECONDS: Final = 30


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


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace placeholders once; other braces, and values that look like placeholders, stay as they are."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


@dataclass(frozen=True, slots=True, kw_only=True)
class CliAgent(Agent):
    """An agent of a kind; `template` is the user's own command in place of that of the kind.

    `via` is None if only the template says where the skill is.
    """

    kind: AgentKind
    via: Via | None
    rights: AgentRights
    executable: str = ""
    version: str = ""
    template: str | None = None
    model: str | None = None
    home: Path | None = None
    isolation: AgentIsolation = NOT_ISOLATED

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
            "isolation": self.isolation.kind.value,
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

    def isolated(self, found: AgentIsolation, hidden: HiddenPlaces, readable: Iterable[Path] = ()) -> CliAgent:
        """Return the agent isolated as `found` allows; besides what it needs, it can read what is `readable`."""
        needs = AgentNeeds(
            executable=self.executable,
            template=self.template,
            home=self.home,
            starts_server=self.via is Via.SERVER,
            readable=tuple(readable),
        )
        return replace(self, isolation=isolation_for(needs, found, hidden))

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
        confined = await anyio.to_thread.run_sync(self.isolation.confined, words, folder)
        command = Command(confined, folder.work, environment, grace_seconds=_GRACE_SECONDS)
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
        prompt = task.text if self.rights is AgentRights.WORK else task.prompt
        values = {"prompt": prompt, "root": str(folder.root), "model": self.model or ""}
        model = self.kind.model_option if self.model is not None else ()
        words = (self.executable, *self.kind.command[1:], *model, *setup.arguments, *self.kind.prompt)
        return tuple(fill(word, values) for word in words)

    def _places(self, folder: RunFolder) -> list[Path]:
        """Return the folders that get the skills."""
        if self.via is not Via.FOLDER:
            return [folder.skills]
        # A command of the user's may be any agent's.
        others = self.kind.other_folders[:1] if self.kind is ANY_AGENT else ()
        return [folder.work / path for path in (self.kind.skills_folder, *others)]


def _server_command(skills: Path) -> tuple[str, ...]:
    start = _START.format(str(Path(server.__file__).resolve().parents[1]))
    return (sys.executable, "-c", start, "serve", str(skills))


def find_agent(
    name: str | None,
    template: str | None,
    *,
    via: Via | None,
    rights: AgentRights,
    model: str | None = None,
    home: Path | None = None,
) -> CliAgent:
    """Return the agent of this name, or of the user's own command `template`.

    Raises:
        EvalError: the agent is not installed, or the command cannot be used.
    """
    kind = AGENTS[name] if name is not None else ANY_AGENT
    if home is not None and not home.is_dir():
        raise EvalError(f"{printable(str(home))}: expected a folder with the settings of the agent")
    if template is not None:
        if model is not None:
            raise EvalError("name the model in the command of the agent, not by an option")
        return CliAgent(kind=kind, via=via, rights=rights, template=template, home=home)
    executable = shutil.which(kind.command[0])
    if executable is None:
        raise EvalError(
            f"{kind.title} is not installed: there is no {kind.command[0]!r} on the PATH; install it, or name another "
            "agent or a command of your own"
        )
    version = _version_of(executable)
    return CliAgent(kind=kind, via=via, rights=rights, executable=executable, version=version, model=model, home=home)


def _version_of(executable: str) -> str:
    """Return what the agent says about its version; empty if it says nothing in time."""
    with tempfile.TemporaryDirectory(prefix="skillserve-", ignore_cleanup_errors=True) as root:
        folder = RunFolder(Path(root, "run"))
        folder.create({})
        try:
            said = subprocess.run(  # noqa: S603 - the agent that the user named
                [executable, "--version"],
                cwd=folder.work,
                env=agent_environment(folder, os.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return " ".join(said.stdout.decode("utf-8", "replace").split())[:100]


def check_no_twin(agent: CliAgent, skill: str) -> None:
    """Check that the agent would find no other skill of this name.

    Raises:
        EvalError: it would.
    """
    above = [temporary_root(), *temporary_root().parents]
    if twins := find_twins(skill, [*above, agent.home] if agent.home else above, agent.kind.folders):
        raise EvalError(
            f"the agent would find another skill {skill} in {printable(str(twins[0]))}; it could win, and nothing "
            "would be measured. Remove it from the home of the agent (--agent-home)"
        )
