"""What evals and trigger tests need of an agent: it performs a task in a fresh folder, and reports what it did.

The folders of runs lie in the system's temporary folder, away from the skill, its evals and other runs: agents look for
instructions and skills in the folders above theirs, and no path tells an agent which arm it is in.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import anyio

from server.capabilities.evals.workspace import EvalError
from skills_core.disk.files import Location, Reader, read_file
from skills_core.disk.replacement import remove_tree
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, SkillsError, system_message
from skills_core.evals.agents import ANY_AGENT
from skills_core.runs.spending import BoundReachedError

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import AgentRun, Transcript


_T = TypeVar("_T")

EXECUTOR: Final = "skillserve"
"""The name of our own executor among the agents."""

RUNS_PREFIX: Final = "skillserve-runs-"
"""How the name of a folder of runs begins."""
_HOME_FOLDERS: Final = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
}
_NOT_PASSED: Final = ("SKILLSERVE_", "XDG_", *ANY_AGENT.variables)
# Beginnings of variables that lead an agent to settings and skills outside of its own home.

_MAX_FILES: Final = 10_000
_MAX_BYTES: Final = 1024**3
_MAX_DEPTH: Final = 64
_MAX_STRAY: Final = 10


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folders of a run below `root`."""

    root: Path

    @property
    def work(self) -> Path:
        """The project in which the agent works."""
        return self.root / "work"

    @property
    def outputs(self) -> Path:
        """Where the agent puts its files."""
        return self.work / "outputs"

    @property
    def home(self) -> Path:
        """The agent's home."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """The agent's folder for temporary files."""
        return self.root / "tmp"

    @property
    def skills(self) -> Path:
        """Skills outside of the project: those that a server serves, or that a command names."""
        return self.root / "skills"

    def create(self, inputs: Mapping[str, Location], home: Path | None = None) -> None:
        """Create the folders with the input files and a copy of `home`; remove what an interrupted attempt has left.

        Raises:
            EvalError: an input file cannot be read.
            OSError: a folder cannot be created.
        """
        remove_tree(self.root)
        self.root.mkdir(mode=0o700)
        if home is not None:
            shutil.copytree(home, self.home, symlinks=True)
        for each in (self.work, self.outputs, self.home, self.temporary):
            each.mkdir(exist_ok=True)
        for path, source in inputs.items():
            try:
                write_file(Location(self.work, path), read_file(source)[0])
            except FileRefusedError as error:
                raise EvalError(error.message) from None

    def write(self, files: Mapping[str, str]) -> None:
        """Write files by their paths below `root`."""
        for path, text in files.items():
            write_file(Location(self.root, path), text.encode())


class RunFolders:
    """A folder for runs in the system's temporary folder, which only this user can enter."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def open(cls, known: object = None) -> RunFolders:
        """Return the folder that an earlier call has recorded if it is still ours, else a new one."""
        if isinstance(known, str) and _is_ours(Path(known)):
            return cls(Path(known))
        return cls(Path(tempfile.mkdtemp(prefix=RUNS_PREFIX, dir=temporary_root())))

    def of(self, *key: object) -> RunFolder:
        """Return the folder of a run without creating it; its name does not tell the key."""
        return RunFolder(self.root / hashlib.sha256(repr((self.root.name, *map(str, key))).encode()).hexdigest()[:12])

    def remove(self, folder: RunFolder | None = None) -> None:
        """Remove the folder of a run, or all of them; what cannot be removed stays for the system."""
        remove_tree(self.root if folder is None else folder.root)


def temporary_root() -> Path:
    """Return the folder in which folders of runs are made."""
    return Path(tempfile.gettempdir()).resolve()


def agent_environment(folder: RunFolder, host: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an agent: that of this process, with a home and temporary folder of the run's own.

    Variables that lead to settings elsewhere are left out; keys of providers are kept.
    """
    passed = {name: value for name, value in host.items() if not name.startswith(_NOT_PASSED) and name != "OLDPWD"}
    home = {"HOME": str(folder.home), "USERPROFILE": str(folder.home)}
    home |= {name: str(folder.home / path) for name, path in _HOME_FOLDERS.items()}
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder.temporary))
    return {**passed, **home, **temporary, "PWD": str(folder.work), "NO_COLOR": "1"}


def _is_ours(path: Path) -> bool:
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return False
    owned = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077)
    return stat.S_ISDIR(status.st_mode) and owned and path.name.startswith(RUNS_PREFIX)


def publish_outputs(run: RunFolder, folder: Path, answer: str) -> str:
    """Replace `outputs` in the folder of a run with the agent's outputs; return a digest of them and of the answer.

    Raises:
        EvalError: they cannot be copied, or are too many or too large.
    """
    half, target = folder / ".outputs.part", folder / "outputs"
    remove_tree(half)
    half.mkdir(parents=True)
    place = run.outputs.relative_to(run.root).as_posix()
    left, digests = _MAX_BYTES, dict[str, str]()
    try:
        with Reader() as reader:
            for path, mode in _files(reader, run.root, place):
                raw, _ = reader.read(Location(run.root, path), left)
                left -= len(raw)
                digests[path] = hashlib.sha256(raw).hexdigest()
                write_file(Location(half, path.removeprefix(f"{place}/")), raw, mode)
    except FileRefusedError as error:
        raise EvalError(f"the outputs cannot be copied: {error}") from None
    except OSError as error:
        raise EvalError(f"the outputs cannot be copied: {system_message(error)}") from None
    finally:
        remove_tree(target)
        half.replace(target)
    whole = json.dumps([sorted(digests.items()), answer])
    return "sha256:" + hashlib.sha256(whole.encode()).hexdigest()


def stray_files(run: RunFolder, given: Iterable[str]) -> list[str]:
    """Return files that the agent has written to its workspace besides `given`, but not to `outputs`."""
    place = run.work.relative_to(run.root).as_posix()
    known = {f"{place}/{path}" for path in given}
    outputs = f"{run.outputs.relative_to(run.root).as_posix()}/"
    found: list[str] = []
    try:
        with Reader() as reader:
            for path, _ in _files(reader, run.root, place):
                name = path.removeprefix(f"{place}/")
                if path not in known and not path.startswith(outputs) and not name.startswith("."):
                    found.append(name)
    except (OSError, EvalError):
        pass  # a remark is not worth an error
    return sorted(found)[:_MAX_STRAY]


def _files(reader: Reader, root: Path, folder: str) -> Iterator[tuple[str, int]]:
    """Yield the paths and modes of the regular files below a folder; links and special files stay out.

    Raises:
        OSError: a folder cannot be read, or is a link.
        EvalError: there are too many files or levels.
    """
    waiting, count = deque([folder]), 0
    while waiting:
        above = waiting.popleft()
        if above.count("/") - folder.count("/") > _MAX_DEPTH:
            raise EvalError(f"the outputs have folders more than {_MAX_DEPTH} levels deep")
        with reader.entries(Location(root, above)) as entries:
            listed = sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries)
        for name, mode in listed:
            if stat.S_ISDIR(mode):
                waiting.append(f"{above}/{name}")
            elif stat.S_ISREG(mode):
                count += 1
                if count > _MAX_FILES:
                    raise EvalError(f"the outputs have more than {_MAX_FILES} files")
                yield f"{above}/{name}", mode & 0o777


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
        return False

    @property
    def tells_loads(self) -> bool:
        """Whether its record tells which skills it loads."""
        return False

    def running(self, tasks: Sequence[AgentTask]) -> AbstractAsyncContextManager[None]:
        """Open what the agent needs for these tasks, until the block ends; by default nothing."""
        del tasks
        return nullcontext()

    async def perform(self, task: AgentTask) -> AgentRun:
        """Perform a task; a failure of the agent is part of the result.

        Raises:
            SkillsError: the task cannot be prepared.
        """
        ...


async def for_each(items: Iterable[_T], jobs: int, do: Callable[[_T], Awaitable[None]]) -> None:
    """Call `do` with each item, `jobs` at a time.

    Raises:
        SkillsError: the first error, which ends the others.
        BoundReachedError: a bound was reached; what was under way has ended by itself.
    """
    faults: list[SkillsError] = []
    limiter = anyio.CapacityLimiter(jobs)

    async def one(item: _T, scope: anyio.CancelScope) -> None:
        async with limiter:
            try:
                await do(item)
            except BoundReachedError as error:
                faults.append(error)
            except SkillsError as error:  # raised below, where no task group wraps it
                faults.insert(0, error)
                scope.cancel()

    async with anyio.create_task_group() as group:
        for item in items:
            group.start_soon(one, item, group.cancel_scope)
    if faults:
        raise faults[0]
