"""Sources of skills: directories with a scope, a strictness and scan bounds.

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
from skills_core.system_faults import Fault, fault_of, system_message

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
    """Whether a breach of a rule makes a skill invalid (strict) or yields a warning (lenient).

    With `required`, only a missing name or description makes it invalid, as in adk-skill's `.skills` folders. With
    `jdai`, every breach does, except that a name may be spelt freely and differ from the folder's, as in JD.AI.
    """

    LENIENT = "lenient"
    REQUIRED = "required"
    JDAI = "jdai"
    STRICT = "strict"


class SkillKind(StrEnum):
    """What makes a skill: a SKILL.md in a folder, a document, or a convention file.

    A document is a file named `*.skill.md`, or Markdown below `.skills` or `.claude/skills`.
    """

    FOLDER = "folder"
    DOCUMENT = "document"
    CONVENTION = "convention"


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """How far a scan goes: levels below the root, number of folders, and number of entries in all folders.

    A folder beyond a bound is not scanned, and a diagnostic reports it.
    """

    depth: int = 32
    folders: int = 500_000
    entries: int = 5_000_000


PREVIEW_BOUNDS: Final = ScanBounds(depth=6, folders=500, entries=1500)
"""Bounds for untrusted projects, whose authors control the number and size of the files."""


@dataclass(frozen=True, slots=True)
class Source:
    """A directory of skills; `root` is absolute and free of symbolic links.

    `follow_symlinks` allows links below it; see `disk.scan`. An `optional` source may be missing. A source in a
    `project` is served only while the project is trusted. `below` names, level by level, the only folders that are
    scanned, with `*` for any name. `kinds` are the kinds of skills to find. With `gitignore`, ignored files are left
    out. A `barred` source is a link out of its project, and is not scanned.
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
        """The source with the bounds that apply until its project is trusted: enough to list its skills."""
        bounds = ScanBounds(
            min(self.bounds.depth, PREVIEW_BOUNDS.depth),
            min(self.bounds.folders, PREVIEW_BOUNDS.folders),
            min(self.bounds.entries, PREVIEW_BOUNDS.entries),
        )
        return replace(self, bounds=bounds)

    def name_of(self, folder: str) -> str:
        """Return the printable name of a folder below the root; `""` is the root."""
        return printable(folder.rpartition("/")[2] or self.root.name)


def real_path(path: Path) -> Path:
    """Return a path with links resolved; a circular link stays as it is."""
    # Before Python 3.13, `Path.resolve` raises for circular links.
    return Path(os.path.realpath(path))


def explicit_sources(
    directories: Iterable[str | os.PathLike[str]],
    strictness: Strictness = Strictness.LENIENT,
    *,
    follow_symlinks: bool = False,
    conventions: bool = True,
    gitignore: bool = False,
) -> tuple[Source, ...]:
    """Make sources of the directories that a user named, in order of precedence.

    A directory named twice counts once, at its first position. `follow_symlinks` allows links below it, within the
    limits of `disk.scan`. With `conventions`, convention files (`AGENTS.md` and others) are skills. With `gitignore`,
    files that git ignores are left out.

    Raises:
        InvalidSourceError: a directory is missing, is a file, or cannot be accessed.
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
            if fault in {Fault.DENIED, Fault.TRANSIENT}:
                denied = fault is Fault.DENIED
                advice = "check the permissions of the folders above it" if denied else "try again"
                reason = Reason.PERMISSION_DENIED if denied else Reason.UNREADABLE
                message = f"this directory cannot be accessed ({system_message(error)}); {advice}"
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
