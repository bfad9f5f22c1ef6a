"""The default sources, in order of precedence, for when the user names no directory.

They are the project's folders from the working directory up to the root of its git repository, the user's own folders,
those of plugins, the bundled skills, and last the folders of other agents. A folder that does not exist is a source
too, because it may be created later. Rules: JD.AI's lifecycle, agentskills.io's client guide, adk-skill, Agenvoy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.disk.folders import DOCUMENTS_FOLDER
from skills_core.disk.sources import ScanBounds, Scope, SkillKind, Source, Strictness, real_path
from skills_core.system_faults import Fault, fault_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["DEFAULT_BOUNDS", "JDAI_FOLDER", "Places", "default_sources", "plugins_folder", "project_of"]

JDAI_FOLDER: Final = ".jdai"
"""The folder of JD.AI in a home directory or project; unknown fields make a skill in it invalid; see `Strictness`."""

_KINDS = frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT})

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
