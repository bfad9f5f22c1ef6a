"""Reduce the skills of a catalog to those that a caller may see, without a trace of the others.

A skill is hidden if the caller may not see it, and also if its files, its state or its reason depend on a hidden one:
if it lies in the folder of a hidden skill, is shadowed by one, or requires one. The skills that remain keep their
state; the files of hidden skills are taken out of the skills around them. Keys and paths are settled among those that
remain: a name that a skill shares with hidden ones alone is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.catalog.conflicts import Candidate, settle
from skills_core.diagnostics import Reason
from skills_core.disk.sources import SkillKind
from skills_core.skills.skill import Skill, SkillFiles, State

if TYPE_CHECKING:
    from skills_core.catalog.conflicts import Placement
    from skills_core.skills.skill import SkillContent, SkillFile


_OF_REQUIREMENTS = frozenset({Reason.UNMET_REQUIREMENT, Reason.CIRCULAR_REQUIREMENT})


class Relations:
    """How the skills of a catalog may depend on each other: by their places, and by names.

    All views of a catalog share it, so that a view costs about what it shows.
    """

    def __init__(self, skills: tuple[Skill, ...]) -> None:
        """Look at the places of `skills`, all those of a catalog; names are looked at when a skill depends on them."""
        self._skills = skills
        self.at: dict[tuple[Path, str], Skill] = {}
        self.below: dict[tuple[Path, str], list[Skill]] = {}
        for skill in skills:
            root, place = skill.identity
            self.at[root, place] = skill
            for folder in _folders_above(place):
                self.below.setdefault((root, folder), []).append(skill)

    @cached_property
    def named(self) -> Mapping[str, Sequence[Skill]]:
        """The skills by name."""
        return _by_names(self._skills, lambda skill: (skill.name,))

    @cached_property
    def provided(self) -> Mapping[str, Sequence[Skill]]:
        """The skills by the names that a `requires` may use."""
        return _by_names(self._skills, lambda skill: skill.content.names)


def visible_skills(
    skills: tuple[Skill, ...],
    admitted: Sequence[Skill],
    roots: Iterable[Path],
    relations: Callable[[], Relations],
) -> tuple[Skill, ...]:
    """Return the skills that are left where only those `admitted` may be seen; `skills` itself if these are all.

    `roots` are those of the sources, in order of precedence; `relations` returns those of `skills`.
    """
    rest = [*admitted]
    if len(rest) == len(skills):
        return skills
    related = relations()
    while True:
        visible = frozenset(map(id, rest))
        places = _Places(related, visible)
        left = [skill for skill in rest if not places.enclose(skill) and not _depends(skill, related, visible)]
        if len(left) == len(rest):
            break
        rest = left
    left = [replace(skill, content=_cut(skill, places)) if places.are_within(skill) else skill for skill in rest]
    # A source without a skill that is left does not count for the rank of the others.
    used = {skill.source.root for skill in left}
    rank_of = {root: rank for rank, root in enumerate(root for root in dict.fromkeys(roots) if root in used)}
    return tuple(_placed_anew(left, rank_of))


def edits_of_visible(
    gone: Sequence[Skill], come: Sequence[Skill], admits: Callable[[Skill], bool], shown: Callable[[Skill], bool]
) -> list[tuple[Skill, Skill]] | None:
    """Return how the skills that `visible_skills` leaves differ after some skills went and others came: old and new.

    That is known if each skill that came stands for one that went, and nothing differs on which others depend, or it
    itself depends on others; otherwise None is returned. `shown` tells whether the very object is among those left.
    """
    after = {skill.identity: skill for skill in come}
    if not gone or len(gone) != len(after):
        return None
    edits: list[tuple[Skill, Skill]] = []
    for old in gone:
        new = after.get(old.identity)
        if new is None or _touches(old) != _touches(new):
            return None
        is_seen = admits(old)
        if is_seen is not admits(new) or (is_seen and not (shown(old) and _rests_on(old) == _rests_on(new))):
            return None
        if is_seen:
            edits.append((old, new))
    return edits


def _touches(skill: Skill) -> tuple[object, ...]:
    """Return what decides, beside the place of a skill, how others are served and seen."""
    return skill.name, skill.content.names, skill.content.kind, skill.state, skill.reason


def _rests_on(skill: Skill) -> tuple[object, ...]:
    """Return what decides, beside that, whether and as what a skill itself is seen."""
    named = [note for note in skill.notes if note.code is Reason.DUPLICATE_NAME]
    folder, files = skill.content.kind is SkillKind.FOLDER, skill.content.files
    # Of a document, each file counts.
    files_that_count = files.linked if folder else frozenset(files)
    return skill.key, skill.path, named, skill.frontmatter.requires, skill.content.main_path, files_that_count


class _Places:
    """The places of hidden skills on the disk: folders with all that is in them, and single documents."""

    def __init__(self, relations: Relations, visible: frozenset[int]) -> None:
        """Take the skills of `relations` that are not `visible`, which has the ids of objects."""
        self._relations = relations
        self._visible = visible

    def hold(self, root: Path, path: str) -> bool:
        """Tell whether a path is that of a hidden skill, or lies in the folder of one."""
        at = self._relations.at
        if (found := at.get((root, path))) is not None and self._hides(found):
            return True
        above = (at.get((root, folder)) for folder in _folders_above(path))
        return any(each is not None and each.content.kind is SkillKind.FOLDER and self._hides(each) for each in above)

    def are_below(self, root: Path, folder: str) -> bool:
        """Tell whether a folder is that of a hidden skill, or one is below it."""
        return self.hold(root, folder) or any(map(self._hides, self._relations.below.get((root, folder), ())))

    def _hides(self, skill: Skill) -> bool:
        return id(skill) not in self._visible

    def enclose(self, skill: Skill) -> bool:
        """Tell whether a skill lies in the folder of a hidden one, or its main file does."""
        main = skill.content.main_path
        linked = None if main is None else skill.content.files.linked.get(main)
        return self.hold(*skill.identity) or (linked is not None and self.hold(*linked))

    def are_within(self, skill: Skill) -> bool:
        """Tell whether a hidden skill lies in the folder of a skill, or one of its files belongs to a hidden one."""
        files = skill.content.files
        if skill.content.kind is SkillKind.FOLDER:
            is_around = self.are_below(*skill.identity)
            return is_around or any(self.hold(*location) for location in files.linked.values())
        return any(self.hold_file(skill, file) for file in files.values())

    def hold_file(self, skill: Skill, file: SkillFile) -> bool:
        """Tell whether a file, or what it is a link to, belongs to a hidden skill."""
        real = file.linked
        is_hidden = self.hold(skill.source.root, skill.within_source(file.path))
        return is_hidden or (real is not None and self.hold(*real))


def _folders_above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _by_names(skills: Iterable[Skill], names_of: Callable[[Skill], Iterable[str]]) -> dict[str, list[Skill]]:
    named: dict[str, list[Skill]] = {}
    for skill in skills:
        for name in names_of(skill):
            named.setdefault(name, []).append(skill)
    return named


def _depends(skill: Skill, relations: Relations, visible: frozenset[int]) -> bool:
    """Tell whether the state of a skill follows from a hidden one."""
    if skill.state is State.SHADOWED:
        return any(id(other) not in visible for other in relations.named[skill.name] if keeps_name(other))
    requires = skill.frontmatter.requires
    if not requires:
        return False
    required = [other for name in requires for other in relations.provided.get(name, ())]
    if skill.reason in _OF_REQUIREMENTS:
        return any(id(other) not in visible for other in required)
    if skill.state is not State.ACTIVE:
        return False
    seen = (other for other in required if other.state is State.ACTIVE and id(other) in visible)
    served = {name for other in seen for name in other.content.names}
    return any(name not in served for name in requires)


def keeps_name(skill: Skill) -> bool:
    """Tell whether a skill has won its name: it is served under it, or would be but for a gate or a requirement."""
    return skill.state is State.ACTIVE or (skill.state is State.EXCLUDED and skill.reason is not Reason.UNTRUSTED)


def _placed_anew(skills: list[Skill], rank_of: Mapping[Path, int]) -> Iterator[Skill]:
    """Yield the skills with the keys, paths and notes on names that they have among themselves."""
    if not any(map(_depends_on_names, skills)):
        yield from skills
        return
    candidates = {
        id(skill): Candidate(rank_of[skill.source.root], skill.source, skill.content)
        for skill in skills
        if keeps_name(skill)
    }
    placements = settle([*candidates.values()]).placements
    for skill in skills:
        candidate = candidates.get(id(skill))
        yield skill if candidate is None else _placed(skill, candidate, placements[candidate.position])


def _depends_on_names(skill: Skill) -> bool:
    """Tell whether a skill may have its key, its path or a note because of the names or paths of others."""
    is_natural = skill.key == skill.name and skill.path == (skill.content.place or skill.name)
    return not is_natural or any(note.code is Reason.DUPLICATE_NAME for note in skill.notes)


def _placed(skill: Skill, candidate: Candidate, placement: Placement) -> Skill:
    notes = tuple(note for note in skill.notes if note.code is not Reason.DUPLICATE_NAME)
    notes = candidate.name_notes(placement) + notes
    if (skill.key, skill.path, skill.notes) == (placement.key, placement.path, notes):
        return skill
    return replace(skill, key=placement.key, path=placement.path, notes=notes, server_key=skill.settings_key)


def _cut(skill: Skill, places: _Places) -> SkillContent:
    """Return the content without what belongs to hidden skills, and without notes: they may name or count it."""
    content = skill.content
    files = {path: file for path, file in content.files.items() if not places.hold_file(skill, file)}
    lost = {folder for path in content.files.keys() - files.keys() for folder in _folders_above(path)}
    used = {folder for path in files for folder in _folders_above(path)}
    folders: set[str] = set()
    for folder in sorted(content.folders, reverse=True):
        # Those within a folder come before it. One that held only what is hidden would tell that this was there.
        is_emptied = folder in lost or places.are_below(skill.source.root, skill.within_source(folder))
        if folder in used or not is_emptied:
            folders.add(folder)
            used.update(_folders_above(folder))
    return replace(content, files=SkillFiles.of(files.values()), folders=frozenset(folders), notes=())
