"""The skills that a branch adds, changes, moves and removes, each with its version before and after."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from server.capabilities.review.revisions import write_base
from server.config.machine import current_environment
from skills_core.catalog.catalog import Catalog
from skills_core.disk.folders import EVALS, MAIN_FILE
from skills_core.disk.sources import SkillKind, explicit_sources, real_path
from skills_core.live.library import Library
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.capabilities.review.revisions import Branch
    from server.config.settings.model import Settings
    from skills_core.skills.skill import Skill


class ChangeState(StrEnum):
    """What a branch does to a skill."""

    ADDED = "added"
    CHANGED = "changed"
    MOVED = "moved"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Version:
    """All skills of a repository at one time, by their places from its `top`: folders, or files that are skills."""

    top: Path
    catalog: Catalog
    skills: Mapping[str, Skill]

    def place_of(self, skill: Skill) -> str:
        """Return the place of a skill from the top."""
        return _place(skill, self.top)

    def folder_of(self, skill: Skill) -> Path:
        """Return the folder of a skill on the disk."""
        return skill.source.root / skill.content.folder


@dataclass(frozen=True, slots=True)
class SkillChange:
    """One skill that differs: its versions, the places of both from the top, and the files that differ."""

    state: ChangeState
    place: str
    before: Skill | None
    after: Skill | None
    files: tuple[str, ...]
    old_place: str | None = None

    @property
    def name(self) -> str:
        """The name that the skill has now, or had."""
        skill = self.after or self.before
        return skill.name if skill is not None else self.place

    @property
    def old_name(self) -> str | None:
        """The name that the skill had, if it has another one now."""
        had = self.before.name if self.before is not None else None
        return had if self.after is not None and had != self.name else None

    @property
    def only_evals(self) -> bool:
        """Whether nothing differs but the skill's evals, which no model sees."""
        prefix = f"{self.place}/" if self.place else ""
        return all(each.removeprefix(prefix).startswith(f"{EVALS}/") for each in self.files)


def read_versions(branch: Branch, settings: Settings, scratch: Path) -> tuple[Version, Version]:
    """Return the skills as they were at the base, which is written below `scratch`, and as they are.

    Raises:
        ReviewError: git cannot read the base, or it is too large.
    """
    after = _load(branch.top, branch, settings, branch.listed)
    # Of a skill that stays as it is, the main file is enough: it counts among the others of the catalog.
    folders = {*map(posixpath.dirname, branch.mains), *after.skills}
    touched = {_owner(path, folders) for path in branch.differing}
    wanted = {*touched, *(posixpath.dirname(old) for old in branch.moved.values())} - {None}

    def is_wanted(path: str) -> bool:
        return _owner(path, folders) in wanted

    top = write_base(branch, is_wanted, real_path(scratch))
    return _load(top, branch, settings, None), after


def _load(top: Path, branch: Branch, settings: Settings, listed: Collection[str] | None) -> Version:
    folders = [folder for place in branch.places if (folder := top / place).is_dir()]
    sources = explicit_sources(folders, settings.discovery.strictness, conventions=False)
    catalog = Library(sources, current_environment).catalog if sources else None
    found: dict[str, Skill] = {}
    for skill in catalog.skills if catalog is not None else ():
        main = skill.content.main.path if skill.content.main is not None else MAIN_FILE
        # What git ignores is not part of the change, such as skills in an installed package.
        if listed is None or posixpath.join(_folder(skill, top), main) in listed:
            found.setdefault(_place(skill, top), skill)
    return Version(top, catalog or Catalog(), found)


def _place(skill: Skill, top: Path) -> str:
    return _from_top(skill, top, skill.content.place)


def _folder(skill: Skill, top: Path) -> str:
    return _from_top(skill, top, skill.content.folder)


def _from_top(skill: Skill, top: Path, below: str) -> str:
    root = skill.source.root.relative_to(top).as_posix()
    path = posixpath.normpath(posixpath.join(root, below))
    return "" if path == "." else path


def find_changes(branch: Branch, before: Version, after: Version) -> tuple[SkillChange, ...]:
    """Return the skills that differ, by place; a skill that was moved counts once."""
    # A file that comes with a skill in the folder of another one was never the other one's.
    old = _differing(branch.differing & branch.paths, before)
    new = _differing((each for each in branch.differing if os.path.lexists(branch.top / each)), after)
    gone = {place: before.skills[place] for place in before.skills if place not in after.skills}
    come = {place: after.skills[place] for place in after.skills if place not in before.skills}
    sources = _moves(branch, gone, come)
    found = [
        SkillChange(ChangeState.REMOVED, place, skill, None, tuple(old.get(place, ())))
        for place, skill in gone.items()
        if place not in sources.values()
    ]
    for place, skill in come.items():
        origin = sources.get(place)
        files = (*old.get(origin or "", ()), *new.get(place, ())) if origin is not None else (*new.get(place, ()),)
        state = ChangeState.ADDED if origin is None else ChangeState.MOVED
        found.append(
            SkillChange(state, place, gone.get(origin or "") if origin is not None else None, skill, files, origin)
        )
    for place in before.skills.keys() & after.skills.keys():
        files = tuple(dict.fromkeys([*old.get(place, ()), *new.get(place, ())]))
        if files:
            found.append(SkillChange(ChangeState.CHANGED, place, before.skills[place], after.skills[place], files))
    return tuple(sorted(found, key=lambda each: each.place))


def _differing(paths: Iterable[str], version: Version) -> dict[str, list[str]]:
    """Return the files that differ by the skill that they belong to."""
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        place = _owner(path, version.skills)
        if place is not None:
            found.setdefault(place, []).append(path)
    return found


def _owner(path: str, places: Collection[str]) -> str | None:
    """Return the innermost of the places that a path belongs to."""
    each = path
    while each:
        if each in places:
            return each
        each = posixpath.dirname(each)
    return "" if "" in places else None


def _moves(branch: Branch, gone: Mapping[str, Skill], come: Mapping[str, Skill]) -> dict[str, str]:
    """Return the old places of skills that were moved, by the new ones: git finds them alike, or they have one name."""
    moved = {_folder_of_main(new, come): _folder_of_main(old, gone) for new, old in branch.moved.items()}
    found = {new: old for new, old in moved.items() if new in come and old in gone}
    for place, skill in come.items():
        same = [other for other, was in gone.items() if was.name == skill.name and other not in found.values()]
        if place not in found and len(same) == 1:
            found[place] = same[0]
    return found


def _folder_of_main(path: str, places: Collection[str]) -> str:
    return path if path in places else posixpath.dirname(path)


def nested_in(place: str, version: Version) -> Iterable[str]:
    """Return the places of the skills in a skill's folder, relative to it."""
    prefix = f"{place}/" if place else ""
    return [each.removeprefix(prefix) for each in version.skills if each != place and each.startswith(prefix)]


def siblings_of(place: str, version: Version) -> frozenset[str]:
    """Return the names of the other skills' folders beside a skill's folder."""
    above = posixpath.dirname(place)
    return frozenset(
        posixpath.basename(each)
        for each, skill in version.skills.items()
        if each != place and posixpath.dirname(each) == above and skill.content.kind is SkillKind.FOLDER
    )


def fault_of(skill: Skill) -> str:
    """Return why a skill is not served here; empty if it is."""
    if skill.state is State.ACTIVE:
        return ""
    return f"{skill.state.value}: {skill.detail}" if skill.detail else skill.state.value
