"""Find the skills whose patterns apply to a call: those active where it is made, as far as they can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.config.bootstrap import open_catalog
from skills_core.catalog import Catalog
from skills_core.diagnostics import Reason, shortened
from skills_core.disk.files import read_file
from skills_core.errors import FileRefusedError, InvalidSourceError, SkillsError
from skills_core.loading.loader import MAX_MAIN_SIZE
from skills_core.skill import State
from skills_core.sources import explicit_sources

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.config.machine import Machine
    from server.config.settings import Settings
    from server.hook.options import HookOptions
    from skills_core.skill import Skill

__all__ = ["GuardSkills", "load_guard_skills"]

_DELIBERATE = frozenset({Reason.SYMLINK, Reason.SYMLINK_OUTSIDE, Reason.UNTRUSTED})
# Left out on purpose, as the status says: no pattern is lost to an error.

_PATTERN_FIELDS = (b"danger_patterns", b"confirm_patterns")
_MAX_DOUBT = 300


@dataclass(frozen=True, slots=True)
class GuardSkills:
    """Skills whose patterns apply. `doubts` describes what could not be read and may hold more patterns."""

    skills: tuple[Skill, ...] = ()
    doubts: tuple[str, ...] = ()


def load_guard_skills(options: HookOptions, settings: Settings, machine: Machine) -> GuardSkills:
    """Load the skills that the options select; return the active ones and a doubt for all that could not be read."""
    if options.no_skills:
        return GuardSkills()
    catalog, doubts = _load_catalog(options.directories, settings, machine)
    selected = [skill for skill in catalog.skills if not options.skill or _has_name(skill, options.skill)]
    doubts += _unreadable_places(catalog)
    doubts += _lost_patterns(selected)
    doubts += _unknown_names(options.skill, catalog)
    active = tuple(skill for skill in selected if skill.state is State.ACTIVE)
    return GuardSkills(active, tuple(shortened(doubt, _MAX_DOUBT) for doubt in doubts))


def _load_catalog(directories: tuple[Path, ...], settings: Settings, machine: Machine) -> tuple[Catalog, list[str]]:
    readable, doubts = _readable(directories)
    if directories and not readable:
        # Without directories the default sources would load, which the command line did not ask for.
        return Catalog(), doubts
    try:
        return open_catalog(readable, settings, machine), doubts
    except (SkillsError, OSError) as error:
        return Catalog(), [*doubts, str(error)]


def _readable(directories: tuple[Path, ...]) -> tuple[list[Path], list[str]]:
    """Return the directories that can be read, and what is wrong with each of the others."""
    readable, doubts = [], []
    for directory in directories:
        try:
            explicit_sources([directory])
            readable.append(directory)
        except (InvalidSourceError, OSError) as error:
            doubts.append(str(error))
    return readable, doubts


def _has_name(skill: Skill, names: Sequence[str]) -> bool:
    return not {skill.key, skill.name, skill.skill_key}.isdisjoint(names)


def _unreadable_places(catalog: Catalog) -> list[str]:
    return [f"{problem.path}: {problem.message}" for problem in catalog.problems if problem.code not in _DELIBERATE]


def _unknown_names(names: Sequence[str], catalog: Catalog) -> list[str]:
    count = len(catalog.skills)
    return [
        f"--skill: there is no skill {name} among the {count} that were found"
        for name in names
        if not any(_has_name(skill, (name,)) for skill in catalog.skills)
    ]


def _lost_patterns(skills: Sequence[Skill]) -> list[str]:
    return [
        f"the patterns of the skill {skill.name} do not count, as it is invalid ({skill.reason}: {skill.detail})"
        for skill in skills
        if skill.state is State.INVALID and _may_have_patterns(skill)
    ]


def _may_have_patterns(skill: Skill) -> bool:
    """Tell whether an invalid skill may declare patterns; one whose SKILL.md cannot be read may."""
    main = skill.content.main
    if skill.reason in _DELIBERATE:
        return False
    if main is None:
        return True
    try:
        raw, _ = read_file(skill.location(main), MAX_MAIN_SIZE)
    except FileRefusedError:
        return True
    return any(field in raw for field in _PATTERN_FIELDS)
