"""Check who may do what: roles that nobody has or everybody gets, and entries of roles that select nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.access import Roles
from server.cli.config_check.finding import ConfigFinding, Level
from server.config.bootstrap import open_catalog
from server.config.settings.tools import OptionalTool
from server.transport.listening import requires_login
from skills_core.diagnostics import counted, one_line
from skills_core.disk.sources import Scope, real_path
from skills_core.errors import SkillsError
from skills_core.skills.choices import fits
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import CheckedSettings
    from server.config.machine import Machine
    from skills_core.skills.skill import Skill

_SHOWN: Final = 80
_KINDS: Final = ("tag", "source")
_MIN_SIMILARITY: Final = 0.75
_MAX_NAMED: Final = 3


def check_access(checked: CheckedSettings, machine: Machine) -> Iterator[ConfigFinding]:
    """Check roles, those who have them, and what they select; sections with a fault of their own are left out."""
    if checked.can_compare("login", "access"):
        yield from _roles_that_nobody_has(checked)
    if checked.can_compare("access"):
        yield from _tools(checked)
    if checked.can_compare("access", "catalog", "discovery"):
        yield from _selectors(checked, machine)


def _roles_that_nobody_has(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    access = checked.settings.access
    missing = [role for role in access.roles or access.tools if role not in access.default_roles]
    if missing and not requires_login(checked.settings):
        key = "access.roles" if access.roles else "access.tools"
        names = ", ".join(role[:_SHOWN] for role in missing)
        message = (
            f"{names}: no caller has this role, because without a login callers have only those of access.default_roles"
        )
        yield checked.finding(Level.WARNING, key, message, "set login.tokens or login.issuer, or access.default_roles")


def _tools(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    for role, entries in checked.settings.access.tools.items():
        for number, entry in enumerate(entries):
            # Other patterns may be meant for tools that skills declare.
            stem = entry.strip("*")
            beginnings = {tool.value[: len(stem)]: tool.value for tool in OptionalTool}
            near = difflib.get_close_matches(stem, beginnings, 1, _MIN_SIMILARITY)
            if "*" in entry and near and not any(fits(entry, tool) for tool in OptionalTool):
                message = (
                    f"{entry[:_SHOWN]}: no tool of the server has such a name; the closest is {beginnings[near[0]]}"
                )
                yield checked.finding(Level.WARNING, "access.tools", message, "correct it", f".{role}.{number}")


def _selectors(checked: CheckedSettings, machine: Machine) -> Iterator[ConfigFinding]:
    """Check what names skills: in roles, and in the settings of the catalog."""
    settings = checked.settings
    given = [(f"catalog.{name}", "", getattr(settings.catalog, name)) for name in ("enabled", "disabled")]
    given += [("access.roles", f".{role}", entries) for role, entries in settings.access.roles.items()]
    skills = _skills(checked, machine) if any(entries for _, _, entries in given) else ()
    known = _names_and_tags(skills)
    served = [skill for skill in skills if skill.state is State.ACTIVE]
    for key, place, entries in given:
        faults = {number: fault for number, entry in enumerate(entries) if (fault := _selector_fault(entry, known))}
        for number, fault in faults.items():
            message = f"{entries[number][:_SHOWN]}: {fault}"
            yield checked.finding(Level.WARNING, key, message, "correct it, or remove it", f"{place}.{number}")
        if place and entries and served and not faults:
            yield from _role_without_skills(checked, place.removeprefix("."), entries, served)


def _role_without_skills(
    checked: CheckedSettings, role: str, entries: Sequence[str], served: Sequence[Skill]
) -> Iterator[ConfigFinding]:
    """Yield a finding if a role selects none of the skills that are served."""
    roles = Roles({role: entries}, (), {})
    if any(roles.show(frozenset({role}), skill) for skill in served):
        return
    known = _names_and_tags(served)
    selectors = ", ".join(f"{entry[:_SHOWN]}{_near(entry, known)}" for entry in entries[:_MAX_NAMED])
    message = (
        f"the role {role[:_SHOWN]} selects none of the {counted(len(served), 'skill')} in the configured and standard "
        f"folders: {selectors}"
    )
    advice = f"correct it, or serve such skills; `skillserve list --as {role[:_SHOWN]}` lists what callers with it see"
    yield checked.finding(Level.WARNING, "access.roles", message, advice, f".{role}")


def _near(entry: str, known: Iterable[str]) -> str:
    """Return the names or tags that are close to a selector, in brackets."""
    is_tag = entry.startswith("tag:")
    alike = sorted(each for each in known if each.startswith("tag:") == is_tag)
    wanted = entry.replace("*", "").strip(" -_").lower()
    near = difflib.get_close_matches(wanted, alike, _MAX_NAMED) or [each for each in alike if wanted and wanted in each]
    return f" (close: {', '.join(one_line(each)[:_SHOWN] for each in near[:_MAX_NAMED])})" if near else ""


def _skills(checked: CheckedSettings, machine: Machine) -> tuple[Skill, ...]:
    """Return the skills in the configured and standard folders.

    A server may get others on its command line, so findings say where was looked.
    """
    try:
        return open_catalog(None, checked.settings, machine).skills
    except (SkillsError, OSError):
        # Another check tells.
        return ()


def _names_and_tags(skills: Iterable[Skill]) -> frozenset[str]:
    """Return the names and the tags of skills, as selectors."""
    tags = {f"tag:{tag.lower()}" for skill in skills for tag in skill.content.instructions.frontmatter.tags}
    return frozenset(tags | {skill.content.name for skill in skills})


def _selector_fault(entry: str, known: frozenset[str]) -> str | None:
    """Return why an entry cannot be meant, None if it can."""
    kind, colon, value = entry.partition(":")
    value = value.strip()
    if colon and kind == "source":
        return _source_fault(value)
    if colon and kind == "tag" and not value:
        return "it names no tag"
    if colon and kind not in _KINDS and (near := difflib.get_close_matches(kind.strip().lower(), _KINDS, 1)):
        return f"it is taken for the name of a skill; expected {near[0]}:{value[:_SHOWN]}"
    wanted = f"tag:{value.lower()}" if colon and kind == "tag" else entry
    if "*" in entry or wanted in known:
        return None
    # Prefixes alone would make short tags alike.
    alike = {each for each in known if each.startswith("tag:") == wanted.startswith("tag:")}
    near_names = difflib.get_close_matches(wanted, alike, 1, 0.85)
    return f"no skill here has it; the closest is {near_names[0]}" if near_names else None


def _source_fault(value: str) -> str | None:
    if value in set(Scope):
        return None
    if not Path(value).is_absolute():
        near = difflib.get_close_matches(value.lower(), [*Scope], 1)
        hint = f"the closest is {near[0]}" if near else f"expected a scope ({', '.join(Scope)}) or an absolute path"
        return f"no source has this name; {hint}"
    expected = str(real_path(Path(value)))
    return None if value == expected else f"sources are compared by their real path; expected the path {expected[:300]}"
