"""Where skills come from: a directory with a scope, a strictness and the bounds of its scan.

The order of a tuple of sources is their precedence, highest first.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Reason, printable
from skills_core.errors import InvalidSourceError
from skills_core.system_faults import Fault, fault_of, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ScanBounds", "Scope", "SkillKind", "Source", "Strictness", "explicit_sources", "real_path"]


class Scope(StrEnum):
    """What kind of place a source is."""

    EXPLICIT = "explicit"
    WORKSPACE = "workspace"
    MANAGED = "managed"
    PLUGIN = "plugin"
    BUNDLED = "bundled"
    LEGACY = "legacy"


class Strictness(StrEnum):
    """Whether a breach of a rule costs the skill (strict) or a warning (lenient).

    In between, name and description are required, as adk-skill has it below `.skills`.
    """

    LENIENT = "lenient"
    REQUIRED = "required"
    STRICT = "strict"


class SkillKind(StrEnum):
    """What makes a skill: a folder with a SKILL.md, a document below `.skills`, or a convention file."""

    FOLDER = "folder"
    DOCUMENT = "document"
    CONVENTION = "convention"


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """How far a scan goes: levels below the root, folders in all, and names in all of them together.

    A folder beyond a bound is not looked into at all, and a diagnostic says so.
    """

    depth: int = 32
    folders: int = 500_000
    entries: int = 5_000_000


PREVIEW: Final = ScanBounds(depth=6, folders=500, entries=1500)
"""Bounds for projects that are not trusted: strangers decide how much there is, and each main file may be large."""


@dataclass(frozen=True, slots=True)
class Source:
    """A directory of skills; `root` is absolute and free of symbolic links.

    `follow_symlinks` is the policy for links below it; see `links`. It is no problem if an `optional` one is missing.
    A source in a `project` is served only while the project is trusted. `below` are the names of the folders in which
    skills are looked for, level by level, `*` for any: nothing else on these levels is looked at. `kinds` are those of
    skills that are looked for. With `gitignore`, what git ignores is no part of the source. One that is `barred` leads
    where it must not, and is not looked into.
    """

    root: Path
    scope: Scope = Scope.EXPLICIT
    strictness: Strictness = Strictness.LENIENT
    bounds: ScanBounds = ScanBounds()
    follow_symlinks: bool = False
    optional: bool = False
    project: Path | None = None
    below: tuple[str, ...] = ()
    kinds: frozenset[SkillKind] = frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT})
    gitignore: bool = False
    barred: bool = False

    @property
    def preview(self) -> Source:
        """The source as far as it is looked into before its project is trusted: enough to tell what is there."""
        bounds = ScanBounds(
            min(self.bounds.depth, PREVIEW.depth),
            min(self.bounds.folders, PREVIEW.folders),
            min(self.bounds.entries, PREVIEW.entries),
        )
        return replace(self, bounds=bounds)

    def name_of(self, folder: str) -> str:
        """Return the name of a folder below the root, or of the root for `""`, as printable text."""
        return printable(folder.rpartition("/")[2] or self.root.name)


def real_path(path: Path) -> Path:
    """Return where a path leads; links that lead in a circle lead to themselves."""
    # `Path.resolve` raises for these before Python 3.13.
    return Path(os.path.realpath(path))


def explicit_sources(
    directories: Iterable[str | os.PathLike[str]],
    strictness: Strictness = Strictness.LENIENT,
    *,
    follow_symlinks: bool = False,
    conventions: bool = True,
    gitignore: bool = False,
) -> tuple[Source, ...]:
    """Make sources of the directories that a user named, in the given precedence.

    A directory named twice counts once, at its first place. `follow_symlinks` allows links below it, within the
    limits that `links` sets. With `conventions`, files such as `AGENTS.md` in it are skills; with `gitignore`, what git
    ignores is left out.

    Raises:
        InvalidSourceError: a directory is missing, is a file, or cannot be looked at.
    """
    sources: dict[Path, Source] = {}
    kinds = frozenset(SkillKind) if conventions else frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT})
    for directory in directories:
        path = Path(directory)
        try:
            mode = path.stat().st_mode if os.fspath(directory) else None
        except ValueError:
            mode = None
        except OSError as error:
            fault = fault_of(error)
            if fault in {Fault.DENIED, Fault.PASSING}:
                denied = fault is Fault.DENIED
                advice = "check the permissions of the folders above it" if denied else "try again"
                reason = Reason.PERMISSION_DENIED if denied else Reason.UNREADABLE
                message = f"the system cannot look at this directory ({words_of(error)}); {advice}"
                raise InvalidSourceError(path, reason, message) from None
            mode = None
        if mode is None:
            message = "there is no such directory; create it or correct the path"
            raise InvalidSourceError(path, Reason.MISSING_DIRECTORY, message)
        if not stat.S_ISDIR(mode):
            message = "this is a file; name the directory that holds the skill folders"
            raise InvalidSourceError(path, Reason.NOT_A_DIRECTORY, message)
        root = path.resolve()
        source = Source(root, strictness=strictness, follow_symlinks=follow_symlinks, kinds=kinds, gitignore=gitignore)
        sources.setdefault(root, source)
    return tuple(sources.values())
