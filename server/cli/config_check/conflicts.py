"""Check settings against one another and against this machine: what has no effect, and what stops a server."""

from __future__ import annotations

import ipaddress
import os
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.auditlog.log_folder import rights_fault
from server.capabilities.auditlog.settings import AuditLogSettings
from server.capabilities.evals.settings import EvalSettings
from server.capabilities.history.settings import HistorySettings
from server.capabilities.improve.settings import ImproveSettings
from server.capabilities.login.settings import LoginSettings
from server.capabilities.operation.settings import OperationSettings
from server.capabilities.replicas.settings import ReplicaSettings
from server.capabilities.runs.settings import RunSettings
from server.capabilities.schedules.settings import ScheduleSettings
from server.cli.config_check.finding import Finding, Level
from server.cli.config_check.places import folder_fault
from server.cli.config_check.start_checks import is_address
from server.config.machine import audit_log_folder
from server.config.settings.named_sources import directories_of
from server.config.settings.names import value_of
from server.config.settings.server import Transport
from server.config.settings.tools import OptionalTool
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from server.capabilities.login.static_tokens import StoredToken
    from server.cli.config_check.settings_check import CheckedSettings

    Check: TypeAlias = Callable[["CheckedSettings"], Iterator[Finding]]

__all__ = ["check_conflicts"]

_LARGEST_4: Final = 8
_LARGEST_6: Final = 7
# The lengths of the prefixes of 10.0.0.0/8 and fc00::/7.

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


def check_conflicts(checked: CheckedSettings, tokens: tuple[StoredToken, ...] | None) -> Iterator[Finding]:
    """Compare settings; sections with a fault of their own are left out."""
    for sections, check in _CHECKS:
        if checked.can_compare(*sections):
            yield from check(checked)
    if tokens is not None and checked.can_compare("login"):
        yield from _tokens(checked, tokens)


def _finding(checked: CheckedSettings, level: Level, key: str, message: str, advice: str) -> Finding:
    return Finding(level, checked.origin(key), key, message, advice)


def _protection(checked: CheckedSettings) -> Iterator[Finding]:
    from server.transport.listening import UnprotectedAddressError, checks_host, require_protection

    settings = checked.settings
    if not is_address(settings.http.host):
        return
    serves = settings.server.transport is Transport.HTTP
    try:
        require_protection(settings)
    except UnprotectedAddressError:
        message = f"{settings.http.host} can be reached from other machines, and clients need no login"
        advice = "set login.tokens or login.issuer, or listen on 127.0.0.1, or set http.insecure behind a firewall"
        yield _finding(checked, Level.ERROR if serves else Level.WARNING, "http.host", message, advice)
    if settings.http.insecure and settings.section(LoginSettings).required:
        message = "it has no effect, because clients need a login"
        yield _finding(checked, Level.WARNING, "http.insecure", message, "remove it")
    if not checks_host(settings.http):
        message = "requests with any Host header are accepted"
        advice = "name the host names of the server in http.allowed_hosts"
        yield _finding(checked, Level.WARNING, "http.host", message, advice)


def _names(checked: CheckedSettings) -> Iterator[Finding]:
    from server.transport.listening import checks_host, name_faults

    http = checked.settings.http
    for key, number, message in name_faults(http):
        found = _finding(checked, Level.WARNING, f"http.{key}", message, "correct it, or remove it")
        yield Finding(found.level, found.file, f"http.{key}.{number}", message, found.advice)
    if http.allowed_origins and not checks_host(http):
        message = "it refuses nobody without http.allowed_hosts: requests with any Origin header are accepted"
        yield _finding(checked, Level.WARNING, "http.allowed_origins", message, "set http.allowed_hosts, or remove it")
    for number, proxy in enumerate(http.trusted_proxies):
        if _is_everybody(proxy):
            message = f"{proxy}: whoever connects from there chooses the address that logs and the audit log have of it"
            found = _finding(checked, Level.WARNING, "http.trusted_proxies", message, "name the proxy, or its network")
            yield Finding(found.level, found.file, f"http.trusted_proxies.{number}", message, found.advice)


def _is_everybody(proxy: str) -> bool:
    """Tell whether a network is larger than any private one."""
    if proxy.startswith("dns:"):
        return False
    network = ipaddress.ip_network(proxy)
    return network.prefixlen < (_LARGEST_4 if network.version == 4 else _LARGEST_6)  # noqa: PLR2004 - of the protocol


def _drain(checked: CheckedSettings) -> Iterator[Finding]:
    operation = checked.settings.section(OperationSettings)
    if operation.drain_notice_seconds > operation.drain_seconds:
        message = (
            f"{operation.drain_seconds:g}: it has no effect, because operation.drain_notice_seconds "
            f"({operation.drain_notice_seconds:g}) is longer, and the longer one counts"
        )
        advice = "set operation.drain_seconds to at least operation.drain_notice_seconds"
        origin = checked.origin("operation.drain_notice_seconds")
        yield Finding(Level.WARNING, origin, "operation.drain_seconds", message, advice)


def _provider(checked: CheckedSettings) -> Iterator[Finding]:
    if checked.settings.section(LoginSettings).issuer is not None:
        return
    for name in _OF_PROVIDER:
        if checked.is_set(f"login.{name}"):
            message = "it has no effect without login.issuer"
            yield _finding(checked, Level.WARNING, f"login.{name}", message, "set login.issuer, or remove it")


def _tokens(checked: CheckedSettings, tokens: tuple[StoredToken, ...]) -> Iterator[Finding]:
    login, now = checked.settings.section(LoginSettings), datetime.now(UTC)
    valid = [each for each in tokens if not each.is_expired(now)]
    if login.tokens and not valid and login.issuer is None:
        message = "there is no valid token, so nobody can log in" if tokens else "there is no token yet"
        advice = "make one: skillserve token add NAME"
        yield _finding(checked, Level.WARNING, "login.tokens", message, advice)
    if valid and not login.tokens:
        message = "it is off, so the tokens of `skillserve token list` are not accepted"
        yield _finding(checked, Level.WARNING, "login.tokens", message, "set it, or revoke the tokens")


def _runs(checked: CheckedSettings) -> Iterator[Finding]:
    from server.capabilities.runs.offered import missing_tool_messages, runs_unavailable_reason

    runs = checked.settings.section(RunSettings)
    reason = runs_unavailable_reason(runs)
    if runs.model is not None and reason is not None:
        yield _finding(checked, Level.WARNING, "runs.model", reason, "correct the model, or set what it needs")
    else:
        for message in missing_tool_messages(checked.settings):
            advice = "set runs.model and runs.workflows, or remove the tool or the workflow"
            yield _finding(checked, Level.WARNING, "tools.enabled", message, advice)
    if runs.tools and runs.workspace is None:
        message = f"{', '.join(runs.tools)}: no folder is named that they may use"
        yield _finding(checked, Level.ERROR, "runs.tools", message, "set runs.workspace, or remove the tools")
    if runs.workspace is not None and not Path(os.path.expanduser(runs.workspace)).is_dir():  # noqa: PTH111
        message = f"{runs.workspace}: there is no such folder"
        level = Level.ERROR if runs.tools else Level.WARNING
        yield _finding(checked, level, "runs.workspace", message, "create the folder, or correct the path")
    if runs.model_key is not None and (runs.model is None or "://" not in runs.model):
        message = "it has no effect: it is for a model that is named by its URL"
        yield _finding(checked, Level.WARNING, "runs.model_key", message, "remove it, or name such a model")


def _evals(checked: CheckedSettings) -> Iterator[Finding]:
    evals = checked.settings.section(EvalSettings)
    if evals.judge_key is not None and "://" not in (evals.judge_model or ""):
        message = "it has no effect: it is for a judge that is named by its URL"
        yield _finding(checked, Level.WARNING, "evals.judge_key", message, "remove it, or set evals.judge_model")


def _schedules(checked: CheckedSettings) -> Iterator[Finding]:
    from server.capabilities.runs.offered import runs_unavailable_reason

    settings = checked.settings
    tools = [each for each in settings.tools.enabled if each.endswith(("_schedule", "_schedules", "schedule_skill"))]
    if tools and settings.access.known_roles:
        message = f"{', '.join(tools)}: schedules are those of the server's user, so no caller with roles has the tools"
        yield _finding(checked, Level.WARNING, "tools.enabled", message, "remove the tools, or the roles")
    enabled = settings.section(ScheduleSettings).enabled
    if enabled and (reason := runs_unavailable_reason(settings.section(RunSettings))):
        message = f"schedules cannot run skills: {reason}"
        yield _finding(checked, Level.WARNING, "schedules.enabled", message, "set runs.model")
    if OptionalTool.SCHEDULE_SKILL in tools and not enabled:
        message = "schedule_skill makes schedules that this server does not fire"
        advice = "set schedules.enabled, or run `skillserve schedule daemon`"
        yield _finding(checked, Level.WARNING, "tools.enabled", message, advice)


def _access(checked: CheckedSettings) -> Iterator[Finding]:
    enabled = checked.settings.tools.enabled
    for role, tools in checked.settings.access.tools.items():
        if missing := [each for each in tools if each in list(OptionalTool) and each not in enabled]:
            message = f"{one_line(role)}: {', '.join(missing)}: no caller has what is not switched on"
            advice = "add it to tools.enabled, or remove it from the role"
            yield _finding(checked, Level.WARNING, "access.tools", message, advice)


def _histories(checked: CheckedSettings) -> Iterator[Finding]:
    history, improve = checked.settings.section(HistorySettings), checked.settings.section(ImproveSettings)
    missing = [each for each in improve.sources if each not in history.sources]
    if missing and not history.automatic:
        message = f"{', '.join(missing)}: without a history, nothing is improved"
        advice = "add them to history.sources, or set history.automatic"
        yield _finding(checked, Level.WARNING, "improve.sources", message, advice)
    if (history.sources or improve.sources) and find_spec("dulwich") is None:
        key = "history.sources" if history.sources else "improve.sources"
        message = "histories need the extra `history`"
        yield _finding(checked, Level.ERROR, key, message, "run: pip install 'skillserve[history]'")


def _catalog(checked: CheckedSettings) -> Iterator[Finding]:
    catalog = checked.settings.catalog
    for name in sorted({*catalog.enabled} & {*catalog.disabled}):
        message = f"{name}: it is in catalog.disabled too, which wins"
        yield _finding(checked, Level.WARNING, "catalog.enabled", message, "remove it from one of the two")
    for name in catalog.pinned:
        if name in catalog.disabled:
            message = f"{name}: it is in catalog.disabled, so it is not listed"
            yield _finding(checked, Level.WARNING, "catalog.pinned", message, "remove it from one of the two")


def _sources(checked: CheckedSettings) -> Iterator[Finding]:
    for number, source in enumerate(checked.settings.discovery.sources):
        path = Path(source.path)
        if fault := _unreadable(path):
            message = f"{path}: {fault}"
            found = _finding(checked, Level.WARNING, "discovery.sources", message, "create it, or correct the path")
            yield Finding(found.level, found.file, f"discovery.sources.{number}.path", message, found.advice)


def _unreadable(path: Path) -> str | None:
    """Return why skills cannot be read from a folder, None if they can."""
    if not path.is_dir():
        return "this is not a folder" if os.path.lexists(path) else "there is no such folder"
    return None if os.access(path, os.R_OK | os.X_OK) else "this folder cannot be read"


def _named_sources(checked: CheckedSettings) -> Iterator[Finding]:
    """Check the folders of sources that other settings name."""
    for section in ("history", "improve"):
        for number, source in enumerate(value_of(checked.settings, (section, "sources"))):
            for folder in directories_of((source,)):
                if fault := _unreadable(Path(folder)):
                    key, message = f"{section}.sources", f"{folder}: {fault}"
                    found = _finding(checked, Level.WARNING, key, message, "create it, or correct the path")
                    yield Finding(found.level, found.file, f"{key}.{number}", message, found.advice)


def _shared_runs(checked: CheckedSettings) -> Iterator[Finding]:
    from skills_core.runs.durable.store import SqliteStore, store_of

    runs = checked.settings.section(RunSettings)
    if not checked.settings.section(ReplicaSettings).enabled or (
        runs.model is None and not checked.settings.section(ScheduleSettings).enabled
    ):
        return
    with suppress(SkillsError):  # which another check reports
        if runs.store is None or isinstance(store_of(runs.store.get_secret_value()), SqliteStore):
            message = "each replica records runs in a file of its own (SQLite), which no other one shows or continues"
            origin = checked.origin("replicas.redis_url" if runs.store is None else "runs.store")
            advice = "set it to a database that all replicas reach, as postgresql://user@host/database"
            yield Finding(Level.WARNING, origin, "runs.store", message, advice)


def _audit_log(checked: CheckedSettings) -> Iterator[Finding]:
    log, login = checked.settings.section(AuditLogSettings), checked.settings.section(LoginSettings)
    if log.enabled is False and login.required:
        message = "clients log in, but nothing is recorded of what they do"
        yield _finding(checked, Level.WARNING, "audit_log.enabled", message, "remove it, unless that is meant")
    if log.enabled or (log.enabled is None and login.required):
        folder = audit_log_folder(log)
        if fault := folder_fault(folder, rights_fault):
            level = Level.ERROR if log.enabled else Level.WARNING
            message = f"{folder}: {fault}"
            yield _finding(checked, level, "audit_log.folder", message, "restrict or choose a folder of your own")


_CHECKS: Final[tuple[tuple[tuple[str, ...], Check], ...]] = (
    (("http", "login", "server"), _protection),
    (("http",), _names),
    (("operation",), _drain),
    (("login",), _provider),
    (("runs", "tools"), _runs),
    (("evals",), _evals),
    (("schedules", "runs", "tools", "access"), _schedules),
    (("access", "tools"), _access),
    (("history", "improve"), _histories),
    (("catalog",), _catalog),
    (("discovery",), _sources),
    (("history", "improve"), _named_sources),
    (("replicas", "runs", "schedules"), _shared_runs),
    (("audit_log", "login"), _audit_log),
)
"""Each check with the sections that it compares."""
