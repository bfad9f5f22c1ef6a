"""Check the settings of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from server.capabilities.login.settings import LoginSettings
from server.capabilities.web.settings import WebSettings
from server.cli.config_check.finding import ConfigFinding, Level
from server.transport.listening import is_loopback

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import CheckedSettings, Configuration


def check_web(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check the page; sections with a fault of their own are left out."""
    checked = configuration.checked
    if not checked.can_compare("web"):
        return
    web = checked.settings.section(WebSettings)
    if not web.enabled:
        for name in ("changes", "client_id", "client_secret"):
            if checked.is_set(f"web.{name}"):
                message = "it has no effect without a page"
                yield checked.finding(Level.WARNING, f"web.{name}", message, "set web.enabled, or remove it")
        return
    if web.client_secret is not None and web.client_id is None:
        message = "the client that it belongs to is not named"
        yield checked.finding(Level.ERROR, "web.client_secret", message, "set web.client_id too, or remove it")
    if checked.can_compare("login"):
        yield from _login(checked, web)
    if checked.can_compare("login", "http"):
        yield from _changes(checked, web)


def _login(checked: CheckedSettings, web: WebSettings) -> Iterator[ConfigFinding]:
    if web.client_id is not None and checked.settings.section(LoginSettings).issuer is None:
        message = "there is no identity provider to log in at"
        yield checked.finding(Level.ERROR, "web.client_id", message, "set login.issuer, or remove it")


def _changes(checked: CheckedSettings, web: WebSettings) -> Iterator[ConfigFinding]:
    login = checked.settings.section(LoginSettings)
    if not web.changes:
        return
    if login.required and not login.admin_roles:
        message = "nobody can change anything, because login.admin_roles names no role"
        yield checked.finding(Level.WARNING, "web.changes", message, "name one, or remove it")
    elif not login.required and not is_loopback(checked.settings.http.host):
        message = "without a login, the session of an operator is for whoever can read the traffic of this network"
        yield checked.finding(Level.WARNING, "web.changes", message, "set login.tokens or login.issuer, or remove it")
