"""A script of a skill, run: from the files that were loaded to what came of it.

In order: may it run at all, a private copy of verified bytes, the program that runs it, the sandbox around it, the
process, and the removal of what was made for it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.errors import ScriptRefusedError, UnknownFileError
from skills_core.run.scripts.confinement import run_confined
from skills_core.run.scripts.environment import installer_environment, script_environment
from skills_core.run.scripts.interpreters import Interpreter, find_interpreter, is_python
from skills_core.run.scripts.metadata import read_metadata
from skills_core.run.scripts.mounts import SCRATCH, SKILL, sandbox_arguments
from skills_core.run.scripts.packages import PackageInstaller
from skills_core.run.scripts.private_copy import PrivateCopy
from skills_core.run.scripts.process import Command, ProcessLimits, ProcessResult
from skills_core.run.scripts.program_files import required_paths, sandbox_program
from skills_core.skill import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skills_core.run.scripts.interpreters import ProgramFinder
    from skills_core.run.scripts.isolation import Isolation
    from skills_core.skill import Skill

__all__ = ["PackageSetup", "ScriptResult", "ScriptRunner", "ScriptSetup"]

MAX_AT_A_TIME = 4
"""Most scripts that run at the same time; others wait. Each may fill its folder, which is in memory."""

_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSetup:
    """Where packages for scripts come from.

    `index` is a URL, which may hold credentials; None is uv's default index. `passed` names variables of this process
    that uv gets beside a stated list. `any_source` lets scripts name indexes, URLs and paths of their own.
    """

    index: str | None = field(default=None, repr=False)
    passed: tuple[str, ...] = ()
    any_source: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSetup:
    """How scripts are run.

    `host` is the environment of this process, `passed` the names of it that scripts get beside the stated list. `home`
    is the user's, which no sandbox shows, `cache` a folder for what is kept between calls. A `workspace` is the
    directory that scripts are started in and may write to; else it is an empty folder that is removed afterwards.
    """

    isolation: Isolation
    programs: ProgramFinder
    host: Mapping[str, str] = field(repr=False)
    home: Path
    cache: Path
    require_sandbox: bool = False
    network: bool = False
    workspace: Path | None = None
    passed: tuple[str, ...] = ()
    packages: PackageSetup = field(default_factory=PackageSetup)
    limits: ProcessLimits = field(default_factory=ProcessLimits)

    @property
    def statement(self) -> str:
        """What a script can reach, in a sentence."""
        said = self.isolation.statement(network=self.network, workspace=self.workspace)
        return f"{said} None is run, as a sandbox is required." if self.refuses else said

    @property
    def refuses(self) -> bool:
        """Whether no script can be run at all."""
        return self.require_sandbox and bool(self.isolation.fault)

    @property
    def contained(self) -> bool:
        """Whether a script leaves nothing behind, neither here nor elsewhere."""
        return not self.isolation.fault and not self.network and self.workspace is None


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What came of a script; `note` tells what was not as the script asks for."""

    finished: ProcessResult
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call: the script, its arguments, and the folder that was made for it."""

    path: str
    raw: bytes
    arguments: tuple[str, ...]
    folder: PrivateCopy
    variables: Mapping[str, str]


class ScriptRunner:
    """Runs scripts of skills, a few at a time."""

    def __init__(self, setup: ScriptSetup) -> None:
        """Run them as `setup` says."""
        self.setup = setup
        self._limiter = anyio.CapacityLimiter(MAX_AT_A_TIME)

    async def run(
        self,
        skill: Skill,
        path: str,
        arguments: Sequence[str] = (),
        *,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
    ) -> ScriptResult:
        """Run a file of `skill`, and return when it has ended.

        `path` is the file's in the manifest. `variables` are what the user has set for this skill.

        Raises:
            UnknownFileError: the skill has no such file.
            ScriptRefusedError: it cannot or must not be run.
            SkillChangedError: files on the disk are not those that were loaded.
        """
        if path not in skill.content.files:
            raise UnknownFileError(skill.key, path, skill.content.files)
        if skill.state is not State.ACTIVE:
            raise ScriptRefusedError(path, f"the skill {skill.key!r} is {skill.state.value}")
        if self.setup.refuses:
            raise ScriptRefusedError(path, f"a sandbox is required here: {self.setup.isolation.fault}")
        async with self._limiter:
            folder = await anyio.to_thread.run_sync(_private_copy, path, skill)
            try:
                raw = await anyio.to_thread.run_sync((folder.skill / path).read_bytes)
                call = _Call(path, raw, tuple(arguments), folder, variables or {})
                interpreter = await self._interpreter(call)
                command, mounts = await anyio.to_thread.run_sync(self._command, call, interpreter)
                finished = await run_confined(
                    self.setup.isolation,
                    command,
                    self.setup.limits,
                    stdin,
                    mounts=mounts,
                    python=self.setup.programs.python,
                )
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(folder.remove)
        return ScriptResult(finished, interpreter.note)

    async def _interpreter(self, call: _Call) -> Interpreter:
        """Return what runs the script, with the packages that it needs."""
        programs = self.setup.programs
        metadata = read_metadata(call.path, call.raw) if is_python(call.path, call.raw) else None
        if metadata is None:
            return await anyio.to_thread.run_sync(find_interpreter, call.path, call.raw, programs)
        uv = await anyio.to_thread.run_sync(programs.find_trusted, "uv")
        if uv is None and metadata.dependencies:
            needs = ", ".join(metadata.dependencies)[:500]
            raise ScriptRefusedError(
                call.path,
                f"it needs packages ({needs}), and uv, which provides them, is not installed"
                f"{' outside of the workspace' if programs.find('uv') else ''}: pip install uv",
            )
        if uv is None:
            plain = await anyio.to_thread.run_sync(find_interpreter, call.path, call.raw, programs)
            wanted = metadata.requires_python
            note = f"whether Python is {wanted}, as it asks for, was not looked at, as there is no uv" if wanted else ""
            return Interpreter(plain.argv, note)
        lock = await anyio.to_thread.run_sync(_lock_file, call)
        return Interpreter((str(await self._installer(uv).python_for(call.path, metadata, lock)),))

    def _installer(self, uv: Path) -> PackageInstaller:
        setup, packages = self.setup, self.setup.packages
        environment = installer_environment(
            setup.host, home=setup.home, cache=setup.cache, index=packages.index, passed=packages.passed
        )
        return PackageInstaller(uv, setup.cache, environment, setup.limits.seconds, packages.any_source)

    def _command(self, call: _Call, interpreter: Interpreter) -> tuple[Command, list[str]]:
        """Return what to start, with the script as it is seen from a sandbox if there is one, and its mounts."""
        setup, folder = self.setup, call.folder
        if setup.isolation.sandbox is None:
            argv = (*interpreter.argv, str(folder.skill / call.path), *call.arguments)
            place = folder.scratch
            environment = self._environment(
                call, folder.skill, place, _with_program_folder(interpreter, _search_path(setup.host))
            )
            return Command(argv, setup.workspace or place, environment), []
        program = tuple(str(sandbox_program(Path(path))) for path in interpreter.argv[:1])
        argv = (*program, *interpreter.argv[1:], str(SKILL / call.path), *call.arguments)
        shown = required_paths(Path(argv[0]), setup.home, setup.workspace) if program else []
        mounts = sandbox_arguments(shown, skill=folder.skill, workspace=setup.workspace, network=setup.network)
        search_path = os.pathsep.join(_SYSTEM_PATH)
        environment = self._environment(call, SKILL, SCRATCH, _with_program_folder(interpreter, search_path))
        return Command(argv, Path("/"), environment), mounts

    def _environment(self, call: _Call, skill: Path, scratch: Path, search_path: str) -> dict[str, str]:
        return script_environment(
            self.setup.host,
            search_path=search_path,
            skill=skill,
            scratch=scratch,
            passed=self.setup.passed,
            variables=call.variables,
        )


def _private_copy(path: str, skill: Skill) -> PrivateCopy:
    try:
        return PrivateCopy(skill)
    except OSError as error:
        raise ScriptRefusedError(path, f"the skill cannot be copied: {error.strerror or error}") from None


def _lock_file(call: _Call) -> bytes | None:
    try:
        return (call.folder.skill / f"{call.path}.lock").read_bytes()
    except OSError:
        return None


def _search_path(host: Mapping[str, str]) -> str:
    return next((value for name, value in host.items() if name.upper() == "PATH"), os.defpath)


def _with_program_folder(interpreter: Interpreter, search_path: str) -> str:
    """Return a search path that has the program, so that a script that starts it by name gets the same packages."""
    folder = str(Path(interpreter.argv[0]).parent) if interpreter.argv else ""
    if not folder or folder in search_path.split(os.pathsep):
        return search_path
    return f"{folder}{os.pathsep}{search_path}"
