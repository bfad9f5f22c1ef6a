"""Load the skill that is evaluated, and the baseline: a git revision of its folder, another folder, or a snapshot."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.config.machine import current_environment
from server.evals.errors import EvalError
from skills_core.diagnostics import one_line
from skills_core.disk.files import Location
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE, is_ignored
from skills_core.disk.writing import write_file
from skills_core.library import Library
from skills_core.run.scripts.private_copy import copy_skill
from skills_core.skill import State
from skills_core.sources import explicit_sources
from skills_core.withheld_files import files_for_models

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["SkillVersion", "extract_revision", "find_baseline", "keep", "load_version"]

_MAX_ARCHIVE: Final = 64 * 1024 * 1024
_GIT_SECONDS: Final = 60


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
    if named and Path(named).is_dir():
        return load_version(Path(named).resolve())
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
        prefix = _git(skill, "rev-parse", "--show-prefix").decode().strip()
        commit = _git(skill, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        tree = f"{commit.decode().strip()}:{prefix}".rstrip("/")
        top = _git(skill, "rev-parse", "--show-toplevel").decode().rstrip("\n")
        # From a folder that the revision does not have, git refuses to archive.
        archive = _git(Path(top), "archive", "--format=tar", tree)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        why = one_line(said.decode("utf-8", "replace").strip()) or "git does not know it"
        raise EvalError(f"--baseline {revision}: expected {kinds} of {skill}: {why}") from None
    target = scratch / skill.name
    target.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        # Links stay out, as a server does not follow them.
        for member in tar:
            if member.isfile() and (file := tar.extractfile(member)) is not None:
                write_file(Location(target, member.name), file.read(), member.mode & 0o777)
    return target


def _git(folder: Path, *arguments: str) -> bytes:
    # A skill that contains a repository without a work tree would configure programs that git runs.
    command: Sequence[str] = ("git", "-c", "safe.bareRepository=explicit", "-C", str(folder), *arguments)
    done = subprocess.run(command, capture_output=True, check=True, timeout=_GIT_SECONDS, stdin=subprocess.DEVNULL)  # noqa: S603 - git, with fixed arguments
    if len(done.stdout) > _MAX_ARCHIVE:
        raise EvalError(f"{folder}: the skill at this revision has more than {_MAX_ARCHIVE} bytes")
    return done.stdout
