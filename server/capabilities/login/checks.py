"""Check the settings of the login, the file of static tokens, and the roles that logins give."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from server.access import METRICS_ROLE
from server.capabilities.login.settings import LoginSettings
from server.capabilities.login.static_tokens import TokenFile, TokenFileError
from server.cli.config_check.finding import CheckedFile, ConfigFinding, Level
from server.config.machine import tokens_file

if TYPE_CHECKING:
    from server.capabilities.login.static_tokens import StoredToken
    from server.cli.config_check.settings_check import CheckedSettings, Configuration

_SHOWN: Final = 80
_MIN_SIMILARITY: Final = 0.75

_OF_PROVIDER: Final = (
    *("audience", "resource", "jwks_url", "introspection_url", "introspection_client_id"),
    *(
        "introspection_client_secret",
        "roles_claim",
        "default_role",
        "required_scopes",
        "advertised_scopes",
        "algorithms",
    ),
)


def check_login(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check the login; sections with a fault of their own are left out."""
    checked = configuration.checked
    path = tokens_file()
    try:
        tokens: tuple[StoredToken, ...] | None = TokenFile(path).tokens()
    except TokenFileError as error:
        message, _, advice = str(error).removeprefix(f"{path}: ").partition("; ")
        yield ConfigFinding(Level.ERROR, str(path), None, message, advice or "make it a file that you can read")
        tokens = None
    if checked.can_compare("login"):
        yield from _provider(checked)
        if tokens is not None:
            yield from _tokens(checked, tokens)
    if checked.can_compare("login", "access"):
        yield from _default_role(checked)
        yield from _roles_of_tokens(checked, tokens or ())
    if checked.can_compare("http") and checked.settings.http.path.rstrip("/").startswith("/.well-known/"):
        message = (
            f"{checked.settings.http.path} is a path of the metadata of the login, which the MCP endpoint would replace"
        )
        yield checked.finding(Level.ERROR, "http.path", message, "choose another path, such as /mcp")


def checked_files() -> Iterable[CheckedFile]:
    """Return the file of static tokens."""
    return (CheckedFile(str(tokens_file()), "static tokens", os.path.lexists(tokens_file())),)


def _provider(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    if checked.settings.section(LoginSettings).issuer is not None:
        return
    for name in _OF_PROVIDER:
        if checked.is_set(f"login.{name}"):
            message = "it has no effect without login.issuer"
            yield checked.finding(Level.WARNING, f"login.{name}", message, "set login.issuer, or remove it")


def _tokens(checked: CheckedSettings, tokens: tuple[StoredToken, ...]) -> Iterator[ConfigFinding]:
    login, now = checked.settings.section(LoginSettings), datetime.now(UTC)
    valid = [each for each in tokens if not each.is_expired(now)]
    if login.tokens and not valid and login.issuer is None:
        message = "there is no valid token, so nobody can log in" if tokens else "there is no token yet"
        advice = "make one: skillserve token add NAME"
        yield checked.finding(Level.WARNING, "login.tokens", message, advice)
    if valid and not login.tokens:
        message = "it is off, so the tokens of `skillserve token list` are not accepted"
        yield checked.finding(Level.WARNING, "login.tokens", message, "set it, or revoke the tokens")


def _default_role(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    login = checked.settings.section(LoginSettings)
    warn = partial(checked.finding, Level.WARNING, "login.default_role")
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
        yield checked.finding(
            Level.WARNING, "login.admin_roles", message, "set login.tokens or login.issuer, or remove it"
        )


def _roles_of_tokens(checked: CheckedSettings, tokens: tuple[StoredToken, ...]) -> Iterator[ConfigFinding]:
    if not checked.settings.section(LoginSettings).tokens:
        return
    for token in tokens:
        for message in filter(None, (_unknown(checked, role) for role in token.roles)):
            advice = "revoke the token and add it with another role, or add the role to [access]"
            yield checked.finding(
                Level.WARNING, "login.tokens", f"token {token.name[:_SHOWN]}: {message}"[:300], advice
            )


def _unknown(checked: CheckedSettings, role: str) -> str | None:
    """Return why a role makes no difference, None if it does, or if no roles are defined."""
    if not checked.settings.access.known_roles or role in _meaningful_roles(checked):
        return None
    return f"{role[:_SHOWN]}: no role has this name{_closest(role, _meaningful_roles(checked))}"


def _meaningful_roles(checked: CheckedSettings) -> frozenset[str]:
    """Return the roles that make a difference."""
    settings = checked.settings
    return settings.access.known_roles | {*settings.section(LoginSettings).admin_roles, METRICS_ROLE}


def _closest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), [*known], 1, _MIN_SIMILARITY)
    return f"; the closest is {near[0]}" if near else ""
