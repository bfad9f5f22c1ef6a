"""The guard as a hook: a host runs this process before each tool call and acts on the answer.

The call is decided by the patterns of the user's settings and of the skills that are active where it is made. The user
is asked where some of these patterns could not be read.

The process is fast because it imports little: nothing here may import the server, a transport or the command line, and
a plain command line is parsed without the command-line library, which takes longer to import than all else together.
`server.__main__` runs the hook and turns every failure, a failed import included, into a refusal.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.guard.guards import guard_of
from server.capabilities.guard.hook_call import (
    BLOCKED,
    MAX_INPUT,
    Answer,
    OtherEventError,
    UnreadableCallError,
    read_call,
    write_error,
)
from server.capabilities.guard.settings import GuardSettings
from server.config.bootstrap import log_to_stderr, open_catalog, settings_in_project, user_settings
from server.config.files import ConfigurationError, own_file
from server.config.machine import Machine, current_places
from server.config.plain_options import PlainOption, parse_plain_words
from server.config.settings.layers import Given, Layer, combine, from_flags, load_settings
from server.config.settings.skills import Conventions
from server.config.values import InvalidValueError, home_path, read
from skills_core.catalog.catalog import Catalog
from skills_core.diagnostics import Reason, one_line, shortened
from skills_core.disk.files import read_bounded, read_file
from skills_core.disk.sources import Strictness, explicit_sources, project_of
from skills_core.errors import FileRefusedError, InvalidSourceError, SkillsError
from skills_core.guard.guard import GuardDecision, Verdict, log_decision
from skills_core.loading.loader import MAX_MAIN_SIZE
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.capabilities.guard.hook_call import HookCall
    from server.config.settings.model import Settings
    from skills_core.skills.skill import Skill

logger = logging.getLogger(__name__)

SECONDS = 10
"""Time limit for the whole decision. A host that loses patience first may let the call pass."""

PLAIN_OPTIONS: Final = {
    "--conventions": PlainOption(Conventions),
    "--follow-symlinks": PlainOption(),
    "--gitignore": PlainOption(),
    "--never-ask": PlainOption(),
    "--no-skills": PlainOption(),
    "--project": PlainOption(home_path),
    "--skill": PlainOption(str, "skill"),
    "--strict": PlainOption(),
    "--trust-workspace": PlainOption(),
}


@dataclass(frozen=True, slots=True)
class HookOptions:
    """The parsed command line. Only the patterns of the skills named in `skill`, if any, apply beside the settings'."""

    directories: tuple[Path, ...] = ()
    skill: tuple[str, ...] = ()
    no_skills: bool = False
    never_ask: bool = False
    project: Path | None = None
    strict: bool = False
    follow_symlinks: bool = False
    trust_workspace: bool = False
    conventions: Conventions | None = None
    gitignore: bool = False

    @property
    def contradiction(self) -> str | None:
        """What is contradictory about the options; None if nothing is."""
        if self.no_skills and (self.skill or self.directories):
            return "--no-skills ignores all skills; do not combine it with directories or --skill"
        return None


def parse_plain_options(words: Sequence[str]) -> HookOptions | None:
    """Return the options of a plain command line; None if the command-line library has to parse it."""
    parsed = parse_plain_words(words, PLAIN_OPTIONS)
    if parsed is None:
        return None
    directories, values = parsed
    options = HookOptions(tuple(directories), tuple(values.pop("skill", ())), **values)
    return None if options.contradiction else options


def settings_for_call(directory: Path | None, options: HookOptions) -> tuple[Settings, Machine, list[str]]:
    """Return the settings for a call in `directory`, the machine as seen from there, and which settings are unusable.

    Without a directory, the call is made in the working directory.

    An untrusted project has no influence, not even on which of the user's own skills load: the call is treated as if
    made in the home directory. The same holds if the project cannot be found. If a trusted project's settings are
    invalid, only the user's settings apply, but the project's skills still load.
    """
    places, flags = current_places(), _flags(options)
    machine = Machine(replace(places, working_directory=places.home))
    settings, doubts = _settings_of_user(machine, flags)
    try:
        there = _project_directory(options.project, directory or places.working_directory)
        if settings.discovery.trust_workspace or machine.environment().trusts(project_of(there, places.home)):
            machine = Machine(replace(places, working_directory=there))
            settings, project_file = settings_in_project(machine, settings, flags)
            # A project may not set patterns, but its author relies on those it has; other ignored settings hide none.
            if any(name.partition(".")[0] == "guard" for name in project_file.ignored):
                doubts += project_file.notices
    except (ConfigurationError, OSError) as error:
        doubts.append(str(error))
    # A fault in the user's settings shows up again when the project's are merged into them.
    return settings, machine, [*dict.fromkeys(doubts)]


def _project_directory(project: Path | None, directory: Path) -> Path:
    """Return the directory whose project applies: the one named by --project, or that of the call.

    Raises:
        ConfigurationError: the named project is not a directory.
        OSError: the directory cannot be resolved.
    """
    if project is not None and not project.is_dir():
        raise ConfigurationError(f"--project: {one_line(str(project))} is not a directory")
    # Resolve links and `..`: trust depends on where a directory really is.
    return (project or directory).resolve()


def _flags(options: HookOptions) -> dict[str, object]:
    """Return the settings that the command line gives, None for those that it does not."""
    return {
        "strictness": Strictness.STRICT if options.strict else None,
        "follow_symlinks": options.follow_symlinks or None,
        "trust_workspace": options.trust_workspace or None,
        "conventions": options.conventions,
        "gitignore": options.gitignore or None,
    }


def _settings_of_user(machine: Machine, flags: dict[str, object]) -> tuple[Settings, list[str]]:
    """Return the user's settings, or the usable part of them, and what is wrong with the rest."""
    places = machine.places
    try:
        return user_settings(machine, flags), []
    except ConfigurationError as error:
        doubts = [str(error)]
    try:
        # If only an environment variable is invalid, the files still apply.
        return load_settings(flags, {}, places.config_home), doubts
    except ConfigurationError:
        patterns = _valid_patterns(own_file(places.config_home))
        usable: Layer = {("guard", name): Given(value, "patterns") for name, value in patterns.items()}
        return combine(usable, from_flags(flags)), doubts


def _valid_patterns(file: Path) -> dict[str, list[Any]]:
    """Return the valid patterns of a settings file, even if other settings in it are invalid."""
    import tomllib  # only where the settings are invalid

    try:
        found = tomllib.loads((read_bounded(file) or b"").decode("utf-8"))
    except (FileRefusedError, ValueError, RecursionError):
        return {}
    guard = found.get("guard")
    # Patterns outside of their section are an error, but they still apply.
    found |= guard if isinstance(guard, dict) else {}
    lists = {name: value for name in GuardSettings.__struct_fields__ if isinstance(value := found.get(name), list)}
    return {name: [each for each in value if _is_valid(name, each)] for name, value in lists.items()}


def _is_valid(name: str, pattern: object) -> bool:
    try:
        read(GuardSettings, {name: [pattern]})
    except InvalidValueError:
        return False
    return True


_DELIBERATE = frozenset({Reason.SYMLINK, Reason.SYMLINK_OUTSIDE, Reason.UNTRUSTED})
# Left out on purpose, as the status says: no pattern is lost to an error.

_PATTERN_FIELDS = (b"danger_patterns", b"confirm_patterns")
_MAX_SKILL_DOUBT = 300


def load_guard_skills(options: HookOptions, settings: Settings, machine: Machine) -> tuple[list[Skill], list[str]]:
    """Return the active skills that the options select, and what could not be read and may hold more patterns."""
    if options.no_skills:
        return [], []
    catalog, doubts = _load_catalog(options.directories, settings, machine)
    selected = [skill for skill in catalog.skills if not options.skill or _has_name(skill, options.skill)]
    doubts += _unreadable_places(catalog)
    doubts += _lost_patterns(selected)
    doubts += _unknown_names(options.skill, catalog)
    active = [skill for skill in selected if skill.state is State.ACTIVE]
    return active, [shortened(doubt, _MAX_SKILL_DOUBT) for doubt in doubts]


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


def decide_call(call: HookCall, options: HookOptions) -> GuardDecision:
    """Return the decision on a call, and log every decision but an undoubted "allow"."""
    settings, machine, faults = settings_for_call(call.directory, options)
    log_to_stderr(settings.logging)
    skills, unread = load_guard_skills(options, settings, machine)
    decision = guard_of(skills, settings.section(GuardSettings)).decide(call.tool, call.arguments)
    log_decision(call.tool, decision)
    doubts = [*(shortened(fault, _MAX_DOUBT) for fault in faults), *unread]
    if decision.verdict is Verdict.ALLOW and doubts:
        decision = _confirm(call, doubts)
    if decision.verdict is Verdict.CONFIRM and (options.never_ask or call.mode not in _MODES_THAT_ASK):
        return _deny_unasked(call, decision, options)
    return decision


def _confirm(call: HookCall, doubts: list[str]) -> GuardDecision:
    """Ask the user about a call that the known patterns allow, because some patterns could not be read."""
    more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
    tool = one_line(call.tool)[:100]
    reason = f"skillserve cannot tell whether the call of {tool} is allowed: {doubts[0]}{more}."
    logger.warning("guard: %s", reason)
    return GuardDecision(Verdict.CONFIRM, reason)


def _deny_unasked(call: HookCall, decision: GuardDecision, options: HookOptions) -> GuardDecision:
    """Deny a call that needs consent where the host would not ask for it."""
    why = "--never-ask" if options.never_ask else f"the permission mode {one_line(str(call.mode))[:40]}"
    logger.info("guard: deny, because the user cannot be asked with %s", why)
    return GuardDecision(Verdict.DENY, f"{decision.reason} The user cannot be asked ({why}), so the call is denied.")


def answer_call(options: HookOptions) -> int:
    """Read a call from stdin, answer it, and return the exit code that the module `call` documents."""
    answer = Answer()
    try:
        with answer.deadline(SECONDS):
            decision = _decide(options)
            return answer.give(decision.verdict, decision.reason)
    except OtherEventError as error:
        write_error(str(error))
    return BLOCKED


def _decide(options: HookOptions) -> GuardDecision:
    try:
        raw = sys.stdin.buffer.read(MAX_INPUT + 1) if sys.stdin else b""
        return decide_call(read_call(raw), options)
    except UnreadableCallError as error:
        reason = f"The call is denied, because the guard cannot read the hook's input: {error}."
    except OtherEventError:
        raise
    except Exception as error:  # noqa: BLE001 - a call without a decision must not pass
        reason = f"The call is denied, because the guard failed ({type(error).__name__}: {one_line(str(error))[:200]})."
    write_error(reason)
    return GuardDecision(Verdict.DENY, reason)
