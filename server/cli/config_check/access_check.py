"""Check who may do what: roles that nobody has or everybody gets, and entries of roles that select nothing."""

from __future__ import annotations

import difflib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.access import METRICS_ROLE
from server.capabilities.login.settings import LoginSettings
from server.cli.config_check.finding import Finding, Level
from server.config.bootstrap import open_catalog
from server.config.settings.tools import OptionalTool
from skills_core.diagnostics import one_line
from skills_core.disk.sources import Scope, real_path
from skills_core.errors import SkillsError
from skills_core.skills.skill import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from server.capabilities.login.static_tokens import StoredToken
    from server.cli.config_check.settings_check import CheckedSettings
    from server.config.machine import Machine

__all__ = ["check_access"]

_SHOWN: Final = 80
_KINDS: Final = ("tag", "source")
_MIN_SIMILARITY: Final = 0.75


def check_access(
    checked: CheckedSettings, machine: Machine, tokens: tuple[StoredToken, ...] | None
) -> Iterator[Finding]:
    """Check roles, those who have them, and what they select; sections with a fault of their own are left out."""
    if checked.can_compare("login", "access"):
        yield from _default_role(checked)
        yield from _roles_that_nobody_has(checked)
        yield from _roles_of_tokens(checked, tokens or ())
    if checked.can_compare("access"):
        yield from _tools(checked)
    if checked.can_compare("access", "catalog", "discovery"):
        yield from _selectors(checked, machine)


def _warning(checked: CheckedSettings, key: str, message: str, advice: str, place: str = "") -> Finding:
    return Finding(Level.WARNING, checked.origin(key), f"{key}{place}", one_line(message), advice)


def _meaningful_roles(checked: CheckedSettings) -> frozenset[str]:
    """Return the roles that make a difference."""
    settings = checked.settings
    return settings.access.known_roles | {*settings.section(LoginSettings).admin_roles, METRICS_ROLE}


def _unknown(checked: CheckedSettings, role: str) -> str | None:
    """Return why a role makes no difference, None if it does, or if no roles are defined."""
    if not checked.settings.access.known_roles or role in _meaningful_roles(checked):
        return None
    return f"{role[:_SHOWN]}: no role has this name{_closest(role, _meaningful_roles(checked))}"


def _closest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), [*known], 1, _MIN_SIMILARITY)
    return f"; the closest is {near[0]}" if near else ""


def _default_role(checked: CheckedSettings) -> Iterator[Finding]:
    login = checked.settings.section(LoginSettings)
    warn = partial(_warning, checked, "login.default_role")
    if login.issuer is not None and login.default_role is not None:
        if login.default_role in login.admin_roles:
            message = (
                f"{login.default_role[:_SHOWN]}: it opens the admin routes to every user of the provider without a role"
            )
            yield warn(message, "choose another role, and give this one to administrators at the provider")
        elif login.default_role == METRICS_ROLE:
            yield warn(f"{METRICS_ROLE}: it lets every user read the metrics", "choose another role")
        elif message := _unknown(checked, login.default_role) or "":
            yield warn(message, "correct it, or add the role to [access]")
    if checked.is_set("login.admin_roles") and not login.required:
        message = "it has no effect without a login"
        yield _warning(checked, "login.admin_roles", message, "set login.tokens or login.issuer, or remove it")


def _roles_that_nobody_has(checked: CheckedSettings) -> Iterator[Finding]:
    access = checked.settings.access
    missing = [role for role in access.roles or access.tools if role not in access.default_roles]
    if missing and not checked.settings.section(LoginSettings).required:
        key = "access.roles" if access.roles else "access.tools"
        names = ", ".join(role[:_SHOWN] for role in missing)
        message = (
            f"{names}: no caller has this role, because without a login callers have only those of access.default_roles"
        )
        yield _warning(checked, key, message, "set login.tokens or login.issuer, or access.default_roles")


def _roles_of_tokens(checked: CheckedSettings, tokens: tuple[StoredToken, ...]) -> Iterator[Finding]:
    if not checked.settings.section(LoginSettings).tokens:
        return
    for token in tokens:
        for message in filter(None, (_unknown(checked, role) for role in token.roles)):
            advice = "revoke the token and add it with another role, or add the role to [access]"
            yield _warning(checked, "login.tokens", f"token {token.name[:_SHOWN]}: {message}"[:300], advice)


def _tools(checked: CheckedSettings) -> Iterator[Finding]:
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
                yield _warning(checked, "access.tools", message, "correct it", f".{role}.{number}")


def _selectors(checked: CheckedSettings, machine: Machine) -> Iterator[Finding]:
    """Check what names skills: in roles, and in the settings of the catalog."""
    settings = checked.settings
    given = [("access.roles", f".{role}", entries) for role, entries in settings.access.roles.items()]
    given += [(f"catalog.{name}", "", getattr(settings.catalog, name)) for name in ("enabled", "disabled")]
    plain = [entry for _, _, entries in given for entry in entries if "*" not in entry]
    known = _names_and_tags(checked, machine) if plain else frozenset()
    for key, place, entries in given:
        for number, entry in enumerate(entries):
            if fault := _selector_fault(entry, known):
                message = f"{entry[:_SHOWN]}: {fault}"
                yield _warning(checked, key, message, "correct it, or remove it", f"{place}.{number}")


def _names_and_tags(checked: CheckedSettings, machine: Machine) -> frozenset[str]:
    """Return the names and the tags of the skills in the configured and standard folders, as selectors.

    A server may get others on its command line, so only what nearly fits one of these is told.
    """
    try:
        skills = open_catalog(None, checked.settings, machine).skills
    except (SkillsError, OSError):
        # Another check tells.
        return frozenset()
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
