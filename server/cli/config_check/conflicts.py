"""Check settings against one another and against this machine: what has no effect, and what stops a server."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from server.cli.config_check.finding import ConfigFinding, Level
from server.cli.config_check.places import unreadable
from server.cli.config_check.start_checks import is_address
from server.config.settings.server import Transport
from server.config.settings.tools import OptionalTool
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import CheckedSettings

    Check: TypeAlias = Callable[["CheckedSettings"], Iterator[ConfigFinding]]

_LARGEST_4: Final = 8
_LARGEST_6: Final = 7
# The lengths of the prefixes of 10.0.0.0/8 and fc00::/7.


def check_conflicts(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    """Compare settings; sections with a fault of their own are left out."""
    for sections, check in _CHECKS:
        if checked.can_compare(*sections):
            yield from check(checked)


def _protection(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    from server.transport.listening import UnprotectedAddressError, checks_host, require_protection, requires_login

    settings = checked.settings
    if not is_address(settings.http.host):
        return
    serves = settings.server.transport is Transport.HTTP
    try:
        require_protection(settings)
    except UnprotectedAddressError:
        message = f"{settings.http.host} can be reached from other machines, and clients need no login"
        advice = "set login.tokens or login.issuer, or listen on 127.0.0.1, or set http.insecure behind a firewall"
        yield checked.finding(Level.ERROR if serves else Level.WARNING, "http.host", message, advice)
    if settings.http.insecure and requires_login(settings):
        message = "it has no effect, because clients need a login"
        yield checked.finding(Level.WARNING, "http.insecure", message, "remove it")
    if not checks_host(settings.http):
        message = "requests with any Host header are accepted"
        advice = "name the host names of the server in http.allowed_hosts"
        yield checked.finding(Level.WARNING, "http.host", message, advice)


def _names(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    from server.transport.listening import checks_host, name_faults

    http = checked.settings.http
    for key, number, message in name_faults(http):
        yield checked.finding(Level.WARNING, f"http.{key}", message, "correct it, or remove it", f".{number}")
    if http.allowed_origins and not checks_host(http):
        message = "it refuses nobody without http.allowed_hosts: requests with any Origin header are accepted"
        yield checked.finding(Level.WARNING, "http.allowed_origins", message, "set http.allowed_hosts, or remove it")
    for number, proxy in enumerate(http.trusted_proxies):
        if _is_everybody(proxy):
            message = f"{proxy}: whoever connects from there chooses the address that logs and the audit log have of it"
            yield checked.finding(
                Level.WARNING, "http.trusted_proxies", message, "name the proxy, or its network", f".{number}"
            )


def _is_everybody(proxy: str) -> bool:
    """Tell whether a network is larger than any private one."""
    if proxy.startswith("dns:"):
        return False
    network = ipaddress.ip_network(proxy)
    return network.prefixlen < (_LARGEST_4 if network.version == 4 else _LARGEST_6)  # noqa: PLR2004 - of the protocol


def _drain(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    operation = checked.settings.operation
    if operation.drain_notice_seconds > operation.drain_seconds:
        message = (
            f"{operation.drain_seconds:g}: it has no effect, because operation.drain_notice_seconds "
            f"({operation.drain_notice_seconds:g}) is longer, and the longer one counts"
        )
        advice = "set operation.drain_seconds to at least operation.drain_notice_seconds"
        origin = checked.origin("operation.drain_notice_seconds")
        yield ConfigFinding(Level.WARNING, origin, "operation.drain_seconds", message, advice)


def _access(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    enabled = checked.settings.tools.enabled
    for role, tools in checked.settings.access.tools.items():
        if missing := [each for each in tools if each in list(OptionalTool) and each not in enabled]:
            message = f"{one_line(role)}: {', '.join(missing)}: no caller has what is not switched on"
            advice = "add it to tools.enabled, or remove it from the role"
            yield checked.finding(Level.WARNING, "access.tools", message, advice)


def _catalog(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    catalog = checked.settings.catalog
    for name in sorted({*catalog.enabled} & {*catalog.disabled}):
        message = f"{name}: it is in catalog.disabled too, which wins"
        yield checked.finding(Level.WARNING, "catalog.enabled", message, "remove it from one of the two")
    for name in catalog.pinned:
        if name in catalog.disabled:
            message = f"{name}: it is in catalog.disabled, so it is not listed"
            yield checked.finding(Level.WARNING, "catalog.pinned", message, "remove it from one of the two")


def _sources(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    for number, source in enumerate(checked.settings.discovery.sources):
        path = Path(source.path)
        if fault := unreadable(path):
            message = f"{path}: {fault}"
            yield checked.finding(
                Level.WARNING, "discovery.sources", message, "create it, or correct the path", f".{number}.path"
            )


_CHECKS: Final[tuple[tuple[tuple[str, ...], Check], ...]] = (
    (("http", "login", "server"), _protection),
    (("http",), _names),
    (("operation",), _drain),
    (("access", "tools"), _access),
    (("catalog",), _catalog),
    (("discovery",), _sources),
)
"""Each check with the sections that it compares."""
