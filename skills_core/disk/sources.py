"""Sources of skills: directories with a scope, a strictness and scan bounds, named by the user or by default.

The order of a tuple of sources is their precedence, highest first. The default sources are the project's folders from
the working directory up to the root of its git repository, the user's own folders, those of plugins, the bundled
skills, and last the folders of other agents. A folder that does not exist is a source too, because it may be created
later. Rules: JD.AI's lifecycle, agentskills.io's client guide, adk-skill, Agenvoy.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from skills_core.diagnostics import Reason, printable
from skills_core.disk.folders import DOCUMENTS_FOLDER
from skills_core.errors import Fault, InvalidSourceError, did_you_mean, fault_of, similar_to, system_message


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
    out. A `barred` source is a link out of its project, and is not scanned. `fault` says why the root of a source that
    the user named could not be used when the source was made.
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
    fault: str = ""

    @property
    def preview(self) -> Source:
        """The source with the bounds that apply until its project is trusted: enough to list its skills."""
        bounds = ScanBounds(
            min(self.bounds.depth, PREVIEW_BOUNDS.depth),
            min(self.bounds.folders, PREVIEW_BOUNDS.folders),
            min(self.bounds.entries, PREVIEW_BOUNDS.entries),
        )
        return replace(self, bounds=bounds)

    def shown(self, path: str) -> str:
        """Return a path below the root as messages show it; `""` is the root."""
        return printable(f"{self.root}/{path}" if path else str(self.root))

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
    awaited: bool = False,
) -> tuple[Source, ...]:
    """Make sources of the directories that a user named, in order of precedence.

    A directory named twice counts once, at its first position. `follow_symlinks` allows links below it, within the
    limits of `disk.scan`. With `conventions`, convention files (`AGENTS.md` and others) are skills. With `gitignore`,
    files that git ignores are left out. With `awaited`, a directory that cannot be used yet is a source with a `fault`.

    Raises:
        InvalidSourceError: a directory is missing, is a file, or cannot be accessed, and is not awaited.
    """
    sources: dict[Path, Source] = {}
    kinds = frozenset(SkillKind) if conventions else frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT})
    for directory in directories:
        error = directory_error(directory)
        # No directory can ever have such a name.
        if error is not None and not (awaited and os.fspath(directory) and "\0" not in os.fspath(directory)):
            raise error
        root, fault = real_path(Path(directory)), "" if error is None else str(error)
        source = Source(
            root,
            strictness=strictness,
            follow_symlinks=follow_symlinks,
            kinds=kinds,
            gitignore=gitignore,
            fault=fault or (unreadable_fault(root) if awaited else ""),
        )
        sources.setdefault(root, source)
    return tuple(sources.values())


def directory_error(directory: str | os.PathLike[str]) -> InvalidSourceError | None:
    """Return why a directory that a user named cannot be a source now, None if it can."""
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
            return InvalidSourceError(path, reason, message)
        mode = None
    if mode is None:
        # The client of a server decides in which working directory it starts.
        with suppress(OSError):  # the working directory was removed
            path = path.absolute()
        advice = " (variables are not replaced: write ~ or the whole path)" if "$" in str(path) else ""
        message = f"there is no such directory; create it or correct the path{advice}{_neighbour(path)}"
        return InvalidSourceError(path, Reason.MISSING_DIRECTORY, message)
    if not stat.S_ISDIR(mode):
        message = "this is a file; name the directory that holds the skill folders"
        return InvalidSourceError(path, Reason.NOT_A_DIRECTORY, message)
    return None


def unreadable_fault(root: Path) -> str:
    """Return why the skills in an existing directory cannot be read; an empty text if they can."""
    try:
        # To read the names of entries and to reach these are two permissions.
        os.scandir(root).close()
        os.stat(f"{root}/.")  # noqa: PTH116 - a `Path` drops the dot
    except OSError as error:
        return f"{root}: this directory cannot be read ({system_message(error)}); check its permissions"
    return ""


def _neighbour(path: Path) -> str:
    """Return the end of a message that names the directory which a path most likely means, if there is one."""
    try:
        above = next(each for each in path.parents if each.is_dir())
        missing, *below = path.relative_to(above).parts
        with os.scandir(above) as entries:
            names = [entry.name for entry in islice(entries, _MAX_NEIGHBOURS) if entry.is_dir()]
    except (OSError, ValueError, StopIteration):
        return ""
    found = [above / name for name in similar_to(missing, names)]
    nearest = next((each.joinpath(*below) for each in found if each.joinpath(*below).is_dir()), None)
    similar = [str(nearest)] if nearest is not None else [str(each) for each in found[:1]]
    return f".{did_you_mean(similar)}" if similar else ""


JDAI_FOLDER: Final = ".jdai"
"""The folder of JD.AI in a home directory or project; unknown fields make a skill in it invalid; see `Strictness`."""

_KINDS = frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT})

_MAX_NEIGHBOURS: Final = 1000
# Directories beside a missing one that its name is compared with.

DEFAULT_BOUNDS = ScanBounds(depth=6, folders=2000, entries=200_000)
"""Scan bounds of default sources, whose size is unknown; the first two are from agentskills.io's client guide.

The third allows a hundred entries for each folder; a scan that reaches it takes about a second.
"""


@dataclass(frozen=True, slots=True)
class Places:
    """The absolute folders that default sources derive from; `bundled` holds the bundled skills."""

    home: Path
    working_directory: Path
    config_home: Path
    bundled: Path | None = None


def project_of(directory: Path, home: Path) -> Path:
    """Return the root of the git repository that contains `directory`, or `directory` itself.

    A home directory in git is not a project, because it holds the user's own skills and all projects. If the system
    cannot tell whether a folder is a repository, the result is `directory`.
    """
    for folder in (directory, *directory.parents):
        try:
            (folder / ".git").stat()
        except OSError as error:
            if fault_of(error) in {Fault.ABSENT, Fault.REFUSED}:
                continue
            break
        if folder != home:
            return folder
    return directory


def plugins_folder(home: Path) -> Path:
    """Return the folder of this user's plugins, each with its skills below `skills`."""
    return home / JDAI_FOLDER / "plugins"


def default_sources(
    places: Places,
    more: Iterable[Source] = (),
    precedence: Sequence[Scope] = (),
    *,
    conventions: bool = False,
    bounds: ScanBounds = DEFAULT_BOUNDS,
    may_leave: bool = True,
) -> tuple[Source, ...]:
    """Return the default sources by precedence; a folder named by several counts once, at its highest position.

    A user's own folder keeps its position even if a link in the project leads to it. Sources in `more` come before the
    others of their scope. The scopes in `precedence` come first, in that order, then the others. With `conventions`,
    convention files (`AGENTS.md` and others) anywhere in the project are skills. `bounds` limits each scan. Without
    `may_leave`, a folder of the project that is a link out of it is not scanned.
    """
    scopes = list(dict.fromkeys([*precedence, *Scope]))
    found = [*more, *_candidates(places, bounds, conventions=conventions, may_leave=may_leave)]
    own = {source.root for source in found if source.project is None}
    sources: dict[Path, Source] = {}
    for source in sorted(found, key=lambda source: scopes.index(source.scope)):
        if source.project is None or source.root not in own:
            sources.setdefault(source.root, source)
    return tuple(sources.values())


def _candidates(places: Places, bounds: ScanBounds, *, conventions: bool, may_leave: bool) -> Iterator[Source]:
    def source(
        root: Path,
        scope: Scope,
        strictness: Strictness = Strictness.LENIENT,
        *,
        project: Path | None = None,
        below: tuple[str, ...] = (),
        kinds: frozenset[SkillKind] = _KINDS,
    ) -> Source:
        place = real_path(root)
        barred = project is not None and not may_leave and not place.is_relative_to(real_path(project))
        # A barred source keeps its own path, so that it does not replace the source at its target.
        return Source(
            root if barred else place,
            scope,
            strictness,
            bounds,
            optional=True,
            project=project,
            below=below,
            kinds=kinds,
            barred=barred,
        )

    home, project = places.home, project_of(places.working_directory, places.home)
    folders = [places.working_directory, *places.working_directory.parents]
    folders = [folder for folder in folders[: folders.index(project) + 1] if folder != home]
    for folder in folders:
        yield source(folder / JDAI_FOLDER / "skills", Scope.WORKSPACE, Strictness.JDAI, project=project)
        yield source(folder / ".agents" / "skills", Scope.WORKSPACE, project=project)
        yield source(folder / DOCUMENTS_FOLDER, Scope.WORKSPACE, Strictness.REQUIRED, project=project)
    if conventions and project != home:
        yield source(project, Scope.WORKSPACE, project=project, kinds=frozenset({SkillKind.CONVENTION}))
    yield source(home / JDAI_FOLDER / "skills", Scope.MANAGED, Strictness.JDAI)
    yield source(places.config_home / "skillserve" / "skills", Scope.MANAGED)
    yield source(home / ".agents" / "skills", Scope.MANAGED)
    yield source(plugins_folder(home), Scope.PLUGIN, Strictness.JDAI, below=("*", "skills"))
    if places.bundled is not None:
        yield source(places.bundled, Scope.BUNDLED)
    # Agenvoy keeps it below `.config` on every system, whatever `XDG_CONFIG_HOME` says.
    yield source(home / ".config" / "agenvoy" / "skills", Scope.LEGACY)
    yield source(home / ".claude" / "skills", Scope.LEGACY)
    for folder in folders:
        yield source(folder / ".claude" / "skills", Scope.LEGACY, project=project)
