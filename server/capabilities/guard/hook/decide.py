"""Decide on a call: by the patterns of the skills that are active where it is made, or by asking the user.

The user is asked where some patterns could not be read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from server.capabilities.guard.factory import guard_of
from server.capabilities.guard.hook.settings import settings_for_call
from server.capabilities.guard.settings import GuardSettings
from server.config.bootstrap import log_to_stderr, open_catalog
from skills_core.catalog.catalog import Catalog
from skills_core.diagnostics import Reason, one_line, shortened
from skills_core.disk.files import read_file
from skills_core.disk.sources import explicit_sources
from skills_core.errors import FileRefusedError, InvalidSourceError, SkillsError
from skills_core.guard.guard import Decision, Verdict, log_decision
from skills_core.loading.loader import MAX_MAIN_SIZE
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.capabilities.guard.hook.call import HookCall
    from server.capabilities.guard.hook.options import HookOptions
    from server.config.machine import Machine
    from server.config.settings.model import Settings
    from skills_core.skills.skill import Skill

logger = logging.getLogger(__name__)

_DELIBERATE = frozenset({Reason.SYMLINK, Reason.SYMLINK_OUTSIDE, Reason.UNTRUSTED})
# Left out on purpose, as the status says: no pattern is lost to an error.

_PATTERN_FIELDS = (b"danger_patterns", b"confirm_patterns")
_MAX_SKILL_DOUBT = 300


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
    return GuardSkills(active, tuple(shortened(doubt, _MAX_SKILL_DOUBT) for doubt in doubts))


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


_MODES_THAT_ASK: Final = frozenset({None, "default", "acceptEdits", "plan"})
# In other modes Claude Code was seen to treat "ask" as consent or not to ask at all: its issues 77212, 89561, 95726.

_MAX_DOUBT: Final = 500


def decide_call(call: HookCall, options: HookOptions) -> Decision:
    """Return the decision on a call, and log every decision but an undoubted "allow"."""
    context = settings_for_call(call.directory, options)
    log_to_stderr(context.settings.logging)
    found = load_guard_skills(options, context.settings, context.machine)
    decision = guard_of(found.skills, context.settings.section(GuardSettings)).decide(call.tool, call.arguments)
    log_decision(call.tool, decision)
    doubts = [*(shortened(doubt, _MAX_DOUBT) for doubt in context.doubts), *found.doubts]
    if decision.verdict is Verdict.ALLOW and doubts:
        decision = _confirm(call, doubts)
    if decision.verdict is Verdict.CONFIRM and (options.never_ask or call.mode not in _MODES_THAT_ASK):
        return _deny_unasked(call, decision, options)
    return decision


def _confirm(call: HookCall, doubts: list[str]) -> Decision:
    """Ask the user about a call that the known patterns allow, because some patterns could not be read."""
    more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
    tool = one_line(call.tool)[:100]
    reason = f"skillserve cannot tell whether the call of {tool} is allowed: {doubts[0]}{more}."
    logger.warning("guard: %s", reason)
    return Decision(Verdict.CONFIRM, reason)


def _deny_unasked(call: HookCall, decision: Decision, options: HookOptions) -> Decision:
    """Deny a call that needs consent where the host would not ask for it."""
    why = "--never-ask" if options.never_ask else f"the permission mode {one_line(str(call.mode))[:40]}"
    logger.info("guard: deny, because the user cannot be asked with %s", why)
    return Decision(Verdict.DENY, f"{decision.reason} The user cannot be asked ({why}), so the call is denied.")
