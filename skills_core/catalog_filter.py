"""Reduce the skills of a catalog to those that a caller may see, without a trace of the others.

A skill is hidden if the caller may not see it, and also if its files, its state or its reason depend on a hidden one:
if it lies in the folder of a hidden skill, is shadowed by one, or requires one. The skills that remain keep their
state, key and URI, which are therefore the same for all callers; the files of hidden skills are taken out of the
skills around them.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.skill import Skill, State
from skills_core.sources import SkillKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from skills_core.skill import SkillContent, SkillFile

__all__ = ["keeps_name", "visible_skills"]

_OF_REQUIREMENTS = frozenset({Reason.UNMET_REQUIREMENT, Reason.CIRCULAR_REQUIREMENT})


def visible_skills(skills: tuple[Skill, ...], admits: Callable[[Skill], bool]) -> tuple[Skill, ...]:
    """Return the skills that are left where only those that `admits` may be seen; `skills` itself if it admits all.

    `admits` should judge what a skill is (its source, name, frontmatter), never its state.
    """
    more = {id(skill) for skill in skills if not admits(skill)}
    if not more:
        return skills
    named, provided = _by_name(skills), _by_names(skills)
    hidden, places = frozenset[int](), _Places(())
    while more:
        hidden |= more
        places = _Places(skill for skill in skills if id(skill) in hidden)
        left = (skill for skill in skills if id(skill) not in hidden)
        more = {id(skill) for skill in left if places.enclose(skill) or _depends(skill, named, provided, hidden)}
    return tuple(_without_trace(skill, places, named, hidden) for skill in skills if id(skill) not in hidden)


class _Places:
    """The places of hidden skills on the disk: folders with all that is in them, and single documents."""

    def __init__(self, hidden: Iterable[Skill]) -> None:
        self._folders: set[tuple[Path, str]] = set()
        self._documents: set[tuple[Path, str]] = set()
        self._above: set[tuple[Path, str]] = set()
        for skill in hidden:
            root, place = skill.source.root, skill.content.place
            (self._folders if skill.content.kind is SkillKind.FOLDER else self._documents).add((root, place))
            self._above.update((root, folder) for folder in _folders_above(place))

    def hold(self, root: Path, path: str) -> bool:
        """Tell whether a path is that of a hidden skill, or lies in the folder of one."""
        if (root, path) in self._folders or (root, path) in self._documents:
            return True
        return any((root, folder) in self._folders for folder in _folders_above(path))

    def are_below(self, root: Path, folder: str) -> bool:
        """Tell whether a folder is that of a hidden skill, or one is below it."""
        return self.hold(root, folder) or (root, folder) in self._above

    def enclose(self, skill: Skill) -> bool:
        """Tell whether a skill lies in the folder of a hidden one, or its main file does."""
        main = skill.content.main
        linked = main.linked if main is not None else None
        return self.hold(skill.source.root, skill.content.place) or (linked is not None and self.hold(*linked))

    def are_within(self, skill: Skill) -> bool:
        """Tell whether a hidden skill lies in the folder of a skill, or one of its files belongs to a hidden one."""
        files = skill.content.files.values()
        if skill.content.kind is SkillKind.FOLDER:
            is_around = self.are_below(skill.source.root, skill.content.place)
            return is_around or any(file.linked is not None and self.hold(*file.linked) for file in files)
        return any(self.hold_file(skill, file) for file in files)

    def hold_file(self, skill: Skill, file: SkillFile) -> bool:
        """Tell whether a file, or what it is a link to, belongs to a hidden skill."""
        real = file.linked
        is_hidden = self.hold(skill.source.root, skill.within_source(file.path))
        return is_hidden or (real is not None and self.hold(*real))


def _folders_above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _by_name(skills: Iterable[Skill]) -> dict[str, list[Skill]]:
    named: dict[str, list[Skill]] = {}
    for skill in skills:
        named.setdefault(skill.name, []).append(skill)
    return named


def _by_names(skills: Iterable[Skill]) -> dict[str, list[Skill]]:
    """Return the skills by each name that a `requires` may use."""
    provided: dict[str, list[Skill]] = {}
    for skill in skills:
        for name in skill.content.names:
            provided.setdefault(name, []).append(skill)
    return provided


def _depends(
    skill: Skill, named: dict[str, list[Skill]], provided: dict[str, list[Skill]], hidden: frozenset[int]
) -> bool:
    """Tell whether the state of a skill follows from a hidden one."""
    if skill.state is State.SHADOWED:
        return any(id(other) in hidden for other in named[skill.name] if keeps_name(other))
    required = [other for name in skill.frontmatter.requires for other in provided.get(name, ())]
    if skill.reason in _OF_REQUIREMENTS:
        return any(id(other) in hidden for other in required)
    if skill.state is not State.ACTIVE:
        return False
    visible = (other for other in required if other.state is State.ACTIVE and id(other) not in hidden)
    served = {name for other in visible for name in other.content.names}
    return any(name not in served for name in skill.frontmatter.requires)


def keeps_name(skill: Skill) -> bool:
    """Tell whether a skill has won its name: it is served under it, or would be but for a gate or a requirement."""
    return skill.state is State.ACTIVE or (skill.state is State.EXCLUDED and skill.reason is not Reason.UNTRUSTED)


def _without_trace(skill: Skill, places: _Places, named: dict[str, list[Skill]], hidden: frozenset[int]) -> Skill:
    """Return the skill without what it says of hidden ones; the same object if it says nothing."""
    if places.are_within(skill):
        skill = replace(skill, content=_cut(skill, places))
    if not any(note.code is Reason.DUPLICATE_NAME for note in skill.notes):
        return skill
    others = (other for other in named[skill.name] if other.path != skill.path and keeps_name(other))
    if any(id(other) not in hidden for other in others):
        return skill
    return replace(skill, notes=tuple(note for note in skill.notes if note.code is not Reason.DUPLICATE_NAME))


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
    return replace(content, files=MappingProxyType(files), folders=frozenset(folders), notes=())
