"""Where skills are looked for when nobody names a directory, in order of precedence.

The project's folders from the working directory up to the root of its git repository, the user's own, those that
plugins bring along, those that came with the product, and last what other agents keep. Folders that do not exist are
sources all the same: they may be made later. Rules: JD.AI's lifecycle, agentskills.io's client guide, adk-skill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.disk.names import DOCUMENTS
from skills_core.sources import ScanBounds, Scope, SkillKind, Source, Strictness, real_path
from skills_core.system_faults import Fault, fault_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["USUAL_BOUNDS", "Places", "default_sources", "project_of"]

_KINDS = frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT})

USUAL_BOUNDS = ScanBounds(depth=6, folders=2000, entries=200_000)
"""What nobody named may be anything; agentskills.io's guide gives the first two figures.

The third is a hundred names for each folder: a scan that reaches it takes about a second.
"""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders that sources are found from, all absolute; `bundled` is where the product's own skills are."""

    home: Path
    working_directory: Path
    config_home: Path
    bundled: Path | None = None


def project_of(directory: Path, home: Path) -> Path:
    """Return the root of the git repository that `directory` is in, or `directory` itself.

    A home directory that is kept in git is no project: it holds the user's own skills, and all projects. Where the
    system does not say whether a folder is such a root, `directory` is all that is known to belong together.
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


def default_sources(
    places: Places,
    more: Iterable[Source] = (),
    precedence: Sequence[Scope] = (),
    *,
    conventions: bool = False,
    bounds: ScanBounds = USUAL_BOUNDS,
    may_leave: bool = True,
) -> tuple[Source, ...]:
    """Return the sources by precedence; a folder that several of them name counts once, where it stands highest.

    A folder that is the user's own stands where it does without the project, whichever links of the project lead to it.
    Sources in `more` stand before the others of their scope. The scopes in `precedence` come first, in that order,
    then those that it leaves out. With `conventions`, files such as `AGENTS.md` anywhere in the project are skills.
    None of them is scanned beyond `bounds`. Without `may_leave`, a place of the project that is a link out of it is not
    looked into.
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
        # What is not looked into keeps its own name, and takes that of no other source.
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
        yield source(folder / ".jdai" / "skills", Scope.WORKSPACE, Strictness.STRICT, project=project)
        yield source(folder / ".agents" / "skills", Scope.WORKSPACE, project=project)
        yield source(folder / DOCUMENTS, Scope.WORKSPACE, Strictness.REQUIRED, project=project)
    if conventions and project != home:
        yield source(project, Scope.WORKSPACE, project=project, kinds=frozenset({SkillKind.CONVENTION}))
    yield source(home / ".jdai" / "skills", Scope.MANAGED, Strictness.STRICT)
    yield source(places.config_home / "skillserve" / "skills", Scope.MANAGED)
    yield source(home / ".agents" / "skills", Scope.MANAGED)
    yield source(home / ".jdai" / "plugins", Scope.PLUGIN, Strictness.STRICT, below=("*", "skills"))
    if places.bundled is not None:
        yield source(places.bundled, Scope.BUNDLED)
    yield source(home / ".claude" / "skills", Scope.LEGACY)
    for folder in folders:
        yield source(folder / ".claude" / "skills", Scope.LEGACY, project=project)
