"""Which skills have a say: those that are active where the call is made, as far as they can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.config.bootstrap import open_catalog
from skills_core.catalog import Catalog
from skills_core.diagnostics import Reason, shortened
from skills_core.disk.files import read_file
from skills_core.errors import FileRefusedError, InvalidSourceError, SkillsError
from skills_core.loading.reading import MAX_MAIN_SIZE
from skills_core.skill import State
from skills_core.sources import explicit_sources

if TYPE_CHECKING:
    from pathlib import Path

    from server.config.machine import Machine
    from server.config.settings import Settings
    from server.hook.options import HookOptions
    from skills_core.skill import Skill

__all__ = ["GuardingSkills", "find_skills"]

_KNOWN = frozenset({Reason.SYMLINK, Reason.SYMLINK_OUTSIDE, Reason.UNTRUSTED})
# What is left out on purpose, and said in the status: no pattern is lost by an error.

_FIELDS = (b"danger_patterns", b"confirm_patterns")
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class GuardingSkills:
    """Skills whose patterns count, and in words what may hold others that could not be read."""

    skills: tuple[Skill, ...] = ()
    doubts: tuple[str, ...] = ()


def find_skills(options: HookOptions, settings: Settings, machine: Machine) -> GuardingSkills:
    """Load the skills and return those whose patterns count; a directory that cannot be looked into is a doubt."""
    if options.no_skills:
        return GuardingSkills()
    directories, doubts = _usable(options.directories)
    catalog = Catalog()
    try:
        # Without a directory the usual places would count, and these are not what was named.
        if directories or not options.directories:
            catalog = open_catalog(directories, settings, machine)
    except (SkillsError, OSError) as error:
        doubts.append(str(error))
    doubts += [f"{problem.path}: {problem.message}" for problem in catalog.problems if problem.code not in _KNOWN]
    meant = [skill for skill in catalog.skills if not options.skill or _is_named(skill, options.skill)]
    doubts += [_lost(skill) for skill in meant if skill.state is State.INVALID and _may_have_patterns(skill)]
    doubts += [
        _missing(name, catalog) for name in options.skill if not any(_is_named(skill, (name,)) for skill in meant)
    ]
    active = tuple(skill for skill in meant if skill.state is State.ACTIVE)
    return GuardingSkills(active, tuple(shortened(doubt, _SHOWN) for doubt in doubts))


def _usable(directories: tuple[Path, ...]) -> tuple[list[Path], list[str]]:
    """Return the directories that can be looked into, and what is wrong with the others."""
    usable, doubts = [], []
    for directory in directories:
        try:
            explicit_sources([directory])
            usable.append(directory)
        except (InvalidSourceError, OSError) as error:
            doubts.append(str(error))
    return usable, doubts


def _is_named(skill: Skill, names: tuple[str, ...]) -> bool:
    return not {skill.key, skill.name, skill.skill_key}.isdisjoint(names)


def _missing(name: str, catalog: Catalog) -> str:
    return f"--skill: there is no skill {name} among the {len(catalog.skills)} that were found"


def _lost(skill: Skill) -> str:
    return f"the patterns of the skill {skill.name} do not count, as it is invalid ({skill.reason}: {skill.detail})"


def _may_have_patterns(skill: Skill) -> bool:
    """Tell whether an invalid skill would have a say in calls if it was valid, as far as its file can be read."""
    if skill.reason in _KNOWN:
        return False
    try:
        raw, _ = read_file(skill.location(skill.content.main), MAX_MAIN_SIZE) if skill.content.main else (b"", None)
    except FileRefusedError:
        return True
    return not skill.content.main or any(field in raw for field in _FIELDS)
