"""The skills under test: copies that are written for each run, and versions to compare.

No copy has the folder `evals`: no model that performs the skill may see it.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.evals.workspace import EvalError
from server.config.machine import current_environment
from server.config.values import home_path
from skills_core.authoring.fixes import with_description
from skills_core.diagnostics import one_line, printable
from skills_core.disk.files import Location, read_file
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE, is_ignored
from skills_core.disk.sources import explicit_sources
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.live.library import Library
from skills_core.loading.single_skill import read_skill
from skills_core.scripts.runner import copy_skill
from skills_core.skills.skill import State
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


_LEFT_OUT: Final = frozenset({"evals", ".git", "__pycache__", "node_modules", ".venv"})
_MAX_FILES: Final = 5000
_MAX_SIZE: Final = 100_000_000
_MAX_SEEN: Final = 50_000

_MAX_ARCHIVE: Final = 64 * 1024 * 1024
_GIT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class _CopiedFile:
    content: bytes
    executable: bool


@dataclass(frozen=True, slots=True)
class SkillCopy:
    """A skill's name, description and body, and its files by path."""

    name: str
    description: str
    body: str
    files: Mapping[str, _CopiedFile]

    @property
    def digest(self) -> str:
        """A digest of all names and bytes."""
        whole = hashlib.sha256()
        for path in sorted(self.files):
            file = self.files[path]
            whole.update(f"{path}\0{file.executable}\0{len(file.content)}\0".encode())
            whole.update(file.content)
        return f"sha256:{whole.hexdigest()}"

    def described(self, description: str) -> SkillCopy:
        """Return the skill with another description.

        Raises:
            DescriptionError: the description cannot be replaced.
        """
        if description == self.description:
            return self
        main = self.files[MAIN_FILE]
        content = with_description(main.content, description)
        files = {**self.files, MAIN_FILE: replace(main, content=content)}
        return replace(self, description=description, files=files)

    def write(self, folder: Path) -> None:
        """Write the skill into a folder of its name below `folder`."""
        for path, file in self.files.items():
            target = folder / self.name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            if file.executable:
                target.chmod(0o755)


def read_copy(folder: Path) -> SkillCopy:
    """Read the skill in `folder`; links are left out.

    Raises:
        InvalidSkillError: there is no valid skill.
        EvalError: the skill is too large to be copied for each run, or cannot be read.
    """
    instructions = read_skill(folder)
    files: dict[str, _CopiedFile] = {}
    size = 0
    try:
        for path in _walk(folder):
            file = folder / path
            size += file.stat().st_size
            if len(files) >= _MAX_FILES or size > _MAX_SIZE:
                raise EvalError(
                    f"{printable(str(folder))}: the skill has more than {_MAX_FILES:,} files or {_MAX_SIZE:,} bytes; "
                    "it is copied for each run, so take out what it does not need"
                )
            name = MAIN_FILE if path.lower() == MAIN_FILE.lower() else path
            files[name] = _CopiedFile(file.read_bytes(), bool(file.stat().st_mode & stat.S_IXUSR))
    except OSError as error:
        raise EvalError(f"{printable(str(folder))}: cannot be copied: {error.strerror or error}") from error
    return SkillCopy(instructions.name, instructions.description, instructions.body, files)


def _walk(folder: Path) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        here = Path(root)
        for name in sorted(names):
            if not (here / name).is_symlink() and (here / name).is_file():
                yield (here / name).relative_to(folder).as_posix()


def find_twins(name: str, roots: Iterable[Path], folders: Iterable[str]) -> list[Path]:
    """Return the skills and commands of this name that an agent would find below `roots`, in its `folders`."""
    bases = [root / folder for root in roots for folder in folders]
    return [found for base in dict.fromkeys(bases) if base.is_dir() for found in _twins_below(name, base)]


def _twins_below(name: str, base: Path) -> Iterator[Path]:
    seen = 0
    for root, _, names in os.walk(base, followlinks=True):
        seen += len(names) + 1
        if seen > _MAX_SEEN:
            return
        here = Path(root)
        if f"{name}.md" in names:
            yield here / f"{name}.md"
        if MAIN_FILE in names and (here.name == name or _name_in(here) == name):
            yield here / MAIN_FILE


def _name_in(folder: Path) -> str:
    try:
        return read_skill(folder).name
    except SkillsError:
        return ""


def digest_of(*values: object) -> str:
    """Return a digest of values that have one text each."""
    return hashlib.sha256("\0".join(map(str, values)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """One version of a skill: its folder, and what was loaded from it."""

    folder: Path
    catalog: Catalog
    skill: Skill

    @property
    def name(self) -> str:
        """The name of the skill."""
        return self.skill.content.name

    @property
    def digest(self) -> str:
        """The digest of what a model may see: paths and contents without eval files."""
        files = sorted((path, file.digest) for path, file in files_for_models(self.skill.content).items())
        return "sha256:" + hashlib.sha256(repr(files).encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write the skill without its eval files into a folder of its name below `folder`.

        Raises:
            SkillChangedError: the files have changed since they were loaded.
        """
        folder.mkdir(parents=True, exist_ok=True)
        copy_skill(self.skill, folder / self.name, read_only=False)


def texts_of(version: SkillVersion) -> Iterator[str]:
    """Yield the texts of a skill that a model may see; what cannot be read is left out."""
    for path in files_for_models(version.skill.content):
        with suppress(FileRefusedError, UnicodeDecodeError):
            yield read_file(Location(version.folder, path))[0].decode()


def load_version(folder: Path) -> SkillVersion:
    """Return the skill in a folder.

    Raises:
        EvalError: there is none, or it is invalid.
    """
    if not any((folder / name).is_file() for name in (MAIN_FILE, MAIN_FILE_LOWERCASE)):
        raise EvalError(f"{folder}: expected the folder of a skill, with a {MAIN_FILE}")
    catalog = Library(explicit_sources([folder]), current_environment).catalog
    skill = next((each for each in catalog.skills if each.content.place in {"", "."}), None)
    if skill is None or skill.state is not State.ACTIVE:
        why = one_line(f"{skill.state}: {skill.reason}" if skill else "it cannot be loaded")
        raise EvalError(f"{folder}: the skill cannot be used here ({why}); `skillserve status {folder}` says more")
    return SkillVersion(folder, catalog, skill)


def keep(version: SkillVersion, parent: Path) -> SkillVersion:
    """Return a copy of a version without its eval files in the new folder `parent`; reuse one that is equal.

    Raises:
        SkillChangedError: the files have changed since they were loaded.
        EvalError: another version is there, or a link.
    """
    target = parent / version.folder.name
    if link := next((each for each in (parent.parent, parent, target) if each.is_symlink()), None):
        raise EvalError(f"{link}: this is a link, which is not followed; remove it, or name another --workspace")
    if target.is_dir():
        kept = load_version(target)
        if kept.digest != version.digest:
            raise EvalError(f"{target}: the snapshot has changed; use --new for a new iteration")
        return kept
    parent.mkdir(parents=True, exist_ok=True)
    half = parent / f".{version.folder.name}.{os.getpid()}"
    copy_skill(version.skill, half, read_only=False)
    half.replace(target)
    return load_version(target)


def find_baseline(named: str, skill: Path, snapshots: Path, scratch: Path) -> SkillVersion:
    """Return the baseline that a user names: a folder, a snapshot of an earlier iteration, or a git revision.

    A revision is extracted below `scratch`.

    Raises:
        EvalError: nothing has this name, or it is not a skill.
    """
    if named and home_path(named).is_dir():
        return load_version(home_path(named).resolve())
    number = named.removeprefix("iteration-")
    snapshot = snapshots / f"iteration-{number}"
    # A number may be the beginning of a commit's hash, so a snapshot has to exist.
    if number.isdecimal() and snapshot.is_dir():
        for folder in sorted(each for each in snapshot.iterdir() if each.is_dir() and not is_ignored(each.name)):
            return load_version(folder)
    return load_version(extract_revision(skill, named, scratch))


def extract_revision(skill: Path, revision: str, scratch: Path) -> Path:
    """Write the files of a skill's folder at a git revision below `scratch`; the work tree stays as it is.

    Raises:
        EvalError: git does not know the revision, or the folder did not exist then.
    """
    kinds = "a folder, a snapshot (iteration-N) or a git revision"
    try:
        prefix = git_output(skill, "rev-parse", "--show-prefix").decode().strip()
        commit = git_output(skill, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        tree = f"{commit.decode().strip()}:{prefix}".rstrip("/")
        top = git_output(skill, "rev-parse", "--show-toplevel").decode().rstrip("\n")
        # From a folder that the revision does not have, git refuses to archive.
        archive = git_output(Path(top), "archive", "--format=tar", tree)
    except (OSError, subprocess.SubprocessError) as error:
        why = said_by_git(error) or "git does not know it"
        raise EvalError(f"--baseline {revision}: expected {kinds} of {skill}: {why}") from None
    target = scratch / skill.name
    target.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        # Links stay out, as a server does not follow them.
        for member in tar:
            if member.isfile() and (file := tar.extractfile(member)) is not None:
                write_file(Location(target, member.name), file.read(), member.mode & 0o777)
    return target


def git_output(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Return what git prints in a folder; `given` is its standard input.

    Raises:
        OSError: git is not installed.
        subprocess.SubprocessError: git refuses, or takes too long.
        EvalError: the output is too large.
    """
    if os.name == "nt":
        # Windows looks for programs in the working directory first, which may be a stranger's checkout.
        os.environ["NoDefaultCurrentDirectoryInExePath"] = "1"  # noqa: SIM112 - as Windows spells it
    # A skill that contains a repository without a work tree would configure programs that git runs, and the
    # configuration of any repository may name a monitor of its files.
    safe = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")
    command: Sequence[str] = ("git", *safe, "-C", str(folder), *arguments)
    done = subprocess.run(command, capture_output=True, check=True, timeout=_GIT_SECONDS, input=given)  # noqa: S603 - git, with fixed arguments
    if len(done.stdout) > _MAX_ARCHIVE:
        raise EvalError(f"{folder}: git has more than {_MAX_ARCHIVE:,} bytes of the skills at this revision")
    return done.stdout


def said_by_git(error: OSError | subprocess.SubprocessError) -> str:
    """Return on one line why git failed; empty if it said nothing."""
    return one_line((getattr(error, "stderr", b"") or b"").decode("utf-8", "replace").strip())
