"""Run a script of a skill, from the loaded files to its result.

In order: check whether it may run, make a private copy of verified files, find the interpreter, set up the sandbox, run
the process, and remove the copy. The files on disk may change at any time, even between check and use: what runs is
what was hashed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.disk.files import Reader, open_new
from skills_core.disk.replacement import remove_tree
from skills_core.errors import FileRefusedError, ScriptRefusedError, SkillChangedError, UnknownFileError
from skills_core.scripts.environment import ScriptFolders, WorkingDirectory, installer_environment, script_environment
from skills_core.scripts.isolation import run_confined
from skills_core.scripts.packages import PackageInstaller, read_metadata
from skills_core.scripts.process import Command, ProcessLimits, ProcessResult
from skills_core.scripts.programs import (
    Interpreter,
    find_interpreter,
    is_inside,
    is_python,
    required_paths,
    sandbox_program,
)
from skills_core.scripts.sandbox import SCRATCH, SKILL, sandbox_arguments
from skills_core.skills.skill import State
from skills_core.skills.withheld_files import files_for_models, is_eval_file, is_eval_path

if TYPE_CHECKING:
    from skills_core.disk.files import Location
    from skills_core.scripts.isolation import Isolation
    from skills_core.scripts.programs import ProgramFinder
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

_READ_ONLY = 0o500
# Scripts call one another, and not every archive keeps the executable bit.


class PrivateCopy:
    """A folder for one call that only this user can enter: `skill` is the copy, `scratch` an empty folder."""

    def __init__(self, skill: Skill, *, with_evals: bool = False) -> None:
        """Create the folder, with a copy of the files of `skill`; of eval files only `with_evals`.

        Raises:
            SkillChangedError: a file on disk is not the one that was loaded.
            OSError: the files cannot be copied, for example because the disk is full.
        """
        self.root = Path(tempfile.mkdtemp(prefix="skillserve-"))
        self.skill, self.scratch = self.root / "skill", self.root / "scratch"
        try:
            self.scratch.mkdir()
            copy_skill(skill, self.skill, with_evals=with_evals)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder with everything in it; log what cannot be removed."""
        if left := remove_tree(self.root):
            logger.warning("the folder of a script cannot be removed: %s: %s", self.root, one_line(left))


def copy_skill(skill: Skill, target: Path, *, with_evals: bool = False, read_only: bool = True) -> None:
    """Copy the files of a skill to the new folder `target`; of eval files only `with_evals`.

    Raises:
        SkillChangedError: a file on disk is not the one that was loaded.
        OSError: the files cannot be copied.
    """
    content = skill.content
    files = (content.files if with_evals else files_for_models(content)).values()
    empty = (folder for folder in content.folders if with_evals or not is_eval_path(content, f"{folder}/"))
    folders = sorted({"", *empty, *(above for file in files for above in _parent_folders(file.path))})
    for folder in folders:
        os.mkdir(f"{target}/{folder}")  # noqa: PTH102 - a skill may have thousands, and `Path` is slow
    changed = []
    with Reader() as reader:
        for file in files:
            location = skill.location(file)
            raw = _verified_bytes(file.digest, reader, location)
            if raw is None:
                changed.append(location.path)
            else:
                with open(f"{target}/{file.path}", "xb", opener=_create if read_only else _create_writable) as copy:
                    copy.write(raw)
    if changed:
        raise SkillChangedError(skill.key, tuple(changed))
    for folder in folders if read_only else ():
        os.chmod(f"{target}/{folder}", _READ_ONLY)  # noqa: PTH101 - likewise


def _parent_folders(path: str) -> Iterator[str]:
    """Yield the folders that contain a file, relative to the skill."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _verified_bytes(digest: str, reader: Reader, location: Location) -> bytes | None:
    """Return the bytes of a file, None if they do not have the digest or cannot be read."""
    try:
        raw, _ = reader.read(location)
    except FileRefusedError:
        return None
    return raw if digest == "sha256:" + hashlib.sha256(raw).hexdigest() else None


def _create(path: str, _: int) -> int:
    return open_new(path, _READ_ONLY)


def _create_writable(path: str, _: int) -> int:
    return open_new(path, 0o700)


MAX_AT_A_TIME = 4
"""Most scripts that run at the same time; others wait. Each may fill its scratch folder, which is in memory."""

READ_ONLY_HINT = (
    "it starts in the skill's folder, which is read-only; it may write to the folder that SCRATCH_DIR names"
)
"""The note for a script that the system did not let write."""

_WRITE_ERRORS = (b"Read-only file system", b"EROFS", b"Permission denied", b"EACCES")

_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSetup:
    """The source of packages for scripts.

    `index` is a URL, which may contain credentials; None means uv's default index. `passed` names variables of this
    process that uv gets in addition to a fixed list. `any_source` lets scripts name their own indexes, URLs and paths.
    """

    index: str | None = field(default=None, repr=False)
    passed: tuple[str, ...] = ()
    any_source: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSetup:
    """The settings for running scripts.

    `host` is the environment of this process, `passed` the names of variables that scripts get in addition to a fixed
    list. `home` is the user's home, which no sandbox mounts, `cache` a folder for files kept between calls, `private`
    what no sandbox shows even where it lies in a workspace: the state and the settings of this program. `workspace` is
    a folder of the user that scripts may write to. `cwd` is the folder in which they start; None means the workspace if
    there is one, else the skill's folder.
    """

    isolation: Isolation
    programs: ProgramFinder
    host: Mapping[str, str] = field(repr=False)
    home: Path
    cache: Path
    private: tuple[Path, ...] = ()
    require_sandbox: bool = False
    network: bool = False
    workspace: Path | None = None
    cwd: WorkingDirectory | None = None
    passed: tuple[str, ...] = ()
    packages: PackageSetup = field(default_factory=PackageSetup)
    limits: ProcessLimits = field(default_factory=ProcessLimits)

    @property
    def directory(self) -> WorkingDirectory:
        """The folder in which scripts start."""
        return self.cwd or (WorkingDirectory.SKILL if self.workspace is None else WorkingDirectory.WORKSPACE)

    @property
    def statement(self) -> str:
        """What a script can access, in a sentence."""
        said = self.isolation.statement(network=self.network, workspace=self.workspace)
        return f"{said} None is run, as a sandbox is required." if self.refuses else said

    @property
    def refuses(self) -> bool:
        """Whether no script can be run at all."""
        return self.require_sandbox and bool(self.isolation.fault)

    @property
    def contained(self) -> bool:
        """Whether a script has no lasting effects, neither on this machine nor elsewhere."""
        return not self.isolation.fault and not self.network and self.workspace is None


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The result of a script; `note` says which requirement was not met, or what may explain a failure."""

    finished: ProcessResult
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call: the script, its arguments, and its private folder."""

    path: str
    raw: bytes
    arguments: tuple[str, ...]
    folder: PrivateCopy
    variables: Mapping[str, str]


class ScriptRunner:
    """Runs scripts of skills, a limited number at a time."""

    def __init__(self, setup: ScriptSetup) -> None:
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
        """Run a file of `skill`, and return its result.

        `path` is the file's path in the skill, which `SkillContent.file` looks up. `variables` are the user's
        environment variables for this skill.

        Raises:
            UnknownFileError: the skill has no such file.
            ScriptRefusedError: the script cannot or must not be run.
            SkillChangedError: files on disk are not those that were loaded.
        """
        file = skill.content.file(path)
        if file is None:
            raise UnknownFileError(skill.key, path, files_for_models(skill.content))
        path = file.path
        if skill.state is not State.ACTIVE:
            raise ScriptRefusedError(path, f"the skill {skill.key!r} is {skill.state.value}")
        if self.setup.refuses:
            raise ScriptRefusedError(path, f"a sandbox is required here: {self.setup.isolation.fault}")
        await anyio.to_thread.run_sync(_check_copies_are_safe, path, self.setup)
        async with self._limiter:
            folder = await anyio.to_thread.run_sync(_private_copy, path, skill)
            try:
                raw = await anyio.to_thread.run_sync(_read_copy, path, folder)
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
                note = interpreter.note or await anyio.to_thread.run_sync(self._explain, finished, folder)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(folder.remove)
        return ScriptResult(finished, note)

    def _explain(self, finished: ProcessResult, folder: PrivateCopy) -> str:
        """Return what may explain a failure besides the script's own output; empty if there is nothing to add."""
        if finished.exit_code in {0, None}:
            return ""
        if not folder.skill.is_dir():
            return "its copy of the skill was removed from the temporary folder during the call"
        refused = any(word in finished.stderr for word in _WRITE_ERRORS)
        return READ_ONLY_HINT if refused and self.setup.directory is WorkingDirectory.SKILL else ""

    async def _interpreter(self, call: _Call) -> Interpreter:
        """Return the interpreter of the script, with the packages that it needs."""
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
            note = (
                f"the required Python version ({wanted}) was not checked, because uv is not installed" if wanted else ""
            )
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
        """Return the command, with the paths inside the sandbox if there is one, and the sandbox's mounts."""
        setup, folder = self.setup, call.folder
        if setup.isolation.sandbox is None:
            argv = (*interpreter.argv, str(folder.skill / call.path), *call.arguments)
            folders = ScriptFolders(skill=folder.skill, scratch=folder.scratch, workspace=setup.workspace)
            search_path = _with_program_folder(interpreter, _search_path(setup.host))
            return Command(argv, folders.find(setup.directory), self._environment(call, folders, search_path)), []
        folders = ScriptFolders(skill=SKILL, scratch=SCRATCH, workspace=setup.workspace)
        program = tuple(str(sandbox_program(Path(path))) for path in interpreter.argv[:1])
        argv = (*program, *interpreter.argv[1:], str(SKILL / call.path), *call.arguments)
        shown = required_paths(Path(argv[0]), setup.home, setup.workspace) if program else []
        mounts = sandbox_arguments(
            shown,
            skill=folder.skill,
            workspace=setup.workspace,
            directory=folders.find(setup.directory),
            network=setup.network,
            private=setup.private,
            kept=setup.cache,
        )
        search_path = _with_program_folder(interpreter, os.pathsep.join(_SYSTEM_PATH))
        return Command(argv, Path("/"), self._environment(call, folders, search_path)), mounts

    def _environment(self, call: _Call, folders: ScriptFolders, search_path: str) -> dict[str, str]:
        return script_environment(
            self.setup.host,
            search_path=search_path,
            folders=folders,
            passed=self.setup.passed,
            variables=call.variables,
        )


def _private_copy(path: str, skill: Skill) -> PrivateCopy:
    # A script that prints a file could hand the expected answers to a model; a script for the tests needs them.
    with_evals = is_eval_file(skill.content, skill.content.files[path])
    try:
        return PrivateCopy(skill, with_evals=with_evals)
    except OSError as error:
        raise ScriptRefusedError(path, f"the skill cannot be copied: {error.strerror or error}") from None


def _read_copy(path: str, folder: PrivateCopy) -> bytes:
    try:
        return (folder.skill / path).read_bytes()
    except OSError as error:
        raise ScriptRefusedError(path, f"its copy cannot be read: {error.strerror or error}") from None


def _check_copies_are_safe(path: str, setup: ScriptSetup) -> None:
    """Refuse a workspace that contains the private copies: a sandboxed script could change those of other calls."""
    workspace = setup.workspace
    if workspace is None:
        return
    if place := next((each for each in setup.private if is_inside(workspace, each)), None):
        raise ScriptRefusedError(path, f"the workspace is in {place}, which no script may change; choose another one")
    temporary = tempfile.gettempdir()
    if setup.isolation.sandbox is not None and is_inside(Path(temporary), workspace):
        raise ScriptRefusedError(
            path,
            f"the temporary folder {temporary} is in the workspace, so scripts could change the copies of other calls; "
            "choose another workspace, or set TMPDIR to a folder outside of it",
        )


def _lock_file(call: _Call) -> bytes | None:
    try:
        return (call.folder.skill / f"{call.path}.lock").read_bytes()
    except OSError:
        return None


def _search_path(host: Mapping[str, str]) -> str:
    return next((value for name, value in host.items() if name.upper() == "PATH"), os.defpath)


def _with_program_folder(interpreter: Interpreter, search_path: str) -> str:
    """Add the interpreter's folder to the search path, so that starting it by name gives the same packages."""
    folder = str(Path(interpreter.argv[0]).parent) if interpreter.argv else ""
    if not folder or folder in search_path.split(os.pathsep):
        return search_path
    return f"{folder}{os.pathsep}{search_path}"
