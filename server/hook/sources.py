"""Whose patterns count: the project that a call is made in, its settings, and the skills that are active there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from server.commands.opening import open_catalog, settings_of
from server.config import ConfigurationError
from server.environment import Machine, current_places
from skills_core.diagnostics import Reason, one_line
from skills_core.disk.files import read_file
from skills_core.errors import FileRefusedError
from skills_core.loading.reading import MAX_MAIN_SIZE
from skills_core.locations import project_of
from skills_core.skill import State

if TYPE_CHECKING:
    from pathlib import Path

    from server.config import Settings
    from server.hook.options import HookOptions
    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["GuardingSkills", "find_skills", "settings_there"]

_KNOWN = frozenset({Reason.SYMLINK, Reason.SYMLINK_OUTSIDE})
# What is left out on purpose, and said in the status: no pattern is lost by an error.

_FIELDS = (b"danger_patterns", b"confirm_patterns")
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class GuardingSkills:
    """Skills whose patterns count, and in words what may hold others that could not be read."""

    skills: tuple[Skill, ...] = ()
    doubts: tuple[str, ...] = ()


def settings_there(directory: Path | None, options: HookOptions) -> tuple[Machine, Settings]:
    """Return the settings in the project of `directory`, the working directory where it is None.

    A project that is not trusted has no say, not even in which of the user's own skills count: then all is as if the
    call was made in the home directory.

    Raises:
        ConfigurationError: a setting cannot be used, or the project that was named is not there.
        OSError: the directory cannot be looked at.
    """
    places = current_places()
    if options.project is not None and not options.project.is_dir():
        raise ConfigurationError(f"--project: {one_line(str(options.project))} is no directory")
    # Without links and steps upwards: trust is a matter of where a directory really is.
    there = (options.project or directory or places.working_directory).resolve()
    flags = {
        "strict": options.strict,
        "follow_symlinks": options.follow_symlinks,
        "trust_workspace": options.trust_workspace,
        "conventions": options.conventions,
        "gitignore": options.gitignore,
    }
    machine = Machine(replace(places, working_directory=places.home))
    settings = settings_of(machine, flags)
    if not settings.trust_workspace and not machine.environment().trusts(project_of(there, places.home)):
        return machine, settings
    machine = Machine(replace(places, working_directory=there))
    return machine, settings_of(machine, flags)


def find_skills(options: HookOptions, settings: Settings, machine: Machine) -> GuardingSkills:
    """Load the skills and return those whose patterns count.

    Raises:
        InvalidSourceError: a directory is missing, or is a file.
    """
    if options.no_skills:
        return GuardingSkills()
    catalog = open_catalog(options.directories, settings, machine)
    doubts = [f"{problem.path}: {problem.message}" for problem in catalog.problems if problem.code not in _KNOWN]
    meant = [skill for skill in catalog.skills if not options.skill or _is_named(skill, options.skill)]
    doubts += [_lost(skill) for skill in meant if skill.state is State.INVALID and _may_have_patterns(skill)]
    doubts += [
        _missing(name, catalog) for name in options.skill if not any(_is_named(skill, (name,)) for skill in meant)
    ]
    active = tuple(skill for skill in meant if skill.state is State.ACTIVE)
    return GuardingSkills(active, tuple(one_line(doubt)[:_SHOWN] for doubt in doubts))


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
