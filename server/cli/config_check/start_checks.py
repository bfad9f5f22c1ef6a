"""Check what the start of a server checks, by the same functions: what these refuse, no server starts with."""

from __future__ import annotations

import ipaddress
import re
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from server.capabilities.operation.admin_sockets import STATUS_PATH
from server.capabilities.operation.settings import OperationSettings
from server.capabilities.replicas.settings import ReplicaSettings
from server.capabilities.runs.settings import RunSettings
from server.cli.config_check.finding import Finding, Level
from server.cli.config_check.places import folder_fault
from server.config.files import ConfigurationError
from server.config.settings.server import Transport
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from server.cli.config_check.settings_check import CheckedSettings

__all__ = ["check_collector", "check_start", "is_address"]

_ADMIN: Final = f"{STATUS_PATH.rpartition('/')[0]}/"
# Where all admin routes are.

_HOST_NAME: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


def check_start(checked: CheckedSettings) -> Iterator[Finding]:
    """Check what the server reads and opens when it starts; sections with a fault of their own are left out."""
    for section, check in (
        ("http", _address),
        ("replicas", _replicas),
        ("runs", _store),
        ("search", _reranker),
        ("operation", _metrics),
    ):
        if checked.can_compare(section):
            yield from check(checked)


def check_collector(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Check the address of the collector of OpenTelemetry spans."""
    from server.capabilities.runs.telemetry import endpoint_fault

    if fault := endpoint_fault(environment):
        name, message = fault
        advice = "correct it, or unset it to export no spans"
        yield Finding(Level.WARNING, f"the environment variable {name}", None, message, advice)


def is_address(host: str) -> bool:
    """Tell whether a text is an IP address, or could be a host name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _HOST_NAME.fullmatch(host) is not None
    return True


def _finding(checked: CheckedSettings, level: Level, key: str, message: str, advice: str) -> Finding:
    return Finding(level, checked.origin(key), key, message, advice)


def _address(checked: CheckedSettings) -> Iterator[Finding]:
    from server.transport.listening import AddressInUseError, require_own_address

    http = checked.settings.http
    serves = checked.settings.server.transport is Transport.HTTP
    if not is_address(http.host):
        message = f"{http.host!r:.80}: expected an IP address or a host name, without a port and without brackets"
        level = Level.ERROR if serves else Level.WARNING
        yield _finding(checked, level, "http.host", message, "correct it; the port is http.port")
    elif serves:
        try:
            require_own_address(http)
        except AddressInUseError as error:
            message = str(error).partition("; ")[0]
            advice = "choose an address of this machine, such as 0.0.0.0, and a port that this user may use"
            yield _finding(checked, Level.ERROR, "http.host", message, advice)
    if what := _taken_by(http.path):
        message = f"{http.path} is a path {what}, which the MCP endpoint would replace"
        yield _finding(checked, Level.ERROR, "http.path", message, "choose another path, such as /mcp")


def _taken_by(path: str) -> str | None:
    """Return what a path of the server is for already, None if it is free."""
    from server.capabilities.operation.routes import HEALTH_PATH, METRICS_PATH, READY_PATH

    bare = path.rstrip("/")
    if bare in {HEALTH_PATH, READY_PATH, METRICS_PATH}:
        return "for probes or figures"
    # The proxies of `deploy/` deny clients whatever is there.
    if f"{bare}/".startswith(_ADMIN):
        return "of the admin routes"
    return "of the metadata of the login" if bare.startswith("/.well-known/") else None


def _replicas(checked: CheckedSettings) -> Iterator[Finding]:
    from server.capabilities.replicas.errors import NO_CLIENT
    from server.capabilities.replicas.keys import shared_keys

    replicas = checked.settings.section(ReplicaSettings)
    if not replicas.enabled:
        return
    name = "secret" if replicas.secret is not None else "secret_file"
    try:
        keys = shared_keys(replicas)
    except SkillsError as error:
        message, _, advice = str(error).removeprefix("replicas.secret: ").partition("; ")
        advice = advice or "name a file that the server's user can read"
        yield _finding(checked, Level.ERROR, f"replicas.{name}", message, advice)
        return
    try:
        from server.capabilities.replicas.link import RedisLink
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        message, _, advice = NO_CLIENT.partition(": ")
        yield _finding(checked, Level.ERROR, "replicas.redis_url", message, advice)
        return
    try:
        # It connects only when it runs.
        RedisLink(replicas, keys)
    except SkillsError as error:
        message, _, advice = str(error).removeprefix("replicas.redis_url: ").partition("; ")
        yield _finding(checked, Level.ERROR, "replicas.redis_url", message, advice or "correct the address")


def _store(checked: CheckedSettings) -> Iterator[Finding]:
    from skills_core.runs.durable.store import SqliteStore, require_private, store_of

    named = checked.settings.section(RunSettings).store
    if named is None:
        return
    try:
        store = store_of(named.get_secret_value())
        if isinstance(store, SqliteStore):
            require_private(store.path, creates=False)
            if fault := folder_fault(store.path.parent):
                message = f"{store.path}: runs cannot be recorded here: {fault}"
                yield _finding(checked, Level.ERROR, "runs.store", message, "choose a folder of your own")
        elif find_spec("psycopg") is not None:
            from skills_core.runs.durable.postgres import require_valid_url

            require_valid_url(store.url)
    except SkillsError as error:
        advice = "name a file of your own, or a database as postgresql://user@host/database"
        yield _finding(checked, Level.ERROR, "runs.store", str(error).rstrip("."), advice)


def _reranker(checked: CheckedSettings) -> Iterator[Finding]:
    from server.hosting.searches import load_reranker

    try:
        # What the module prints must not mix with the results of the check.
        with redirect_stdout(sys.stderr):
            load_reranker(checked.settings.search.reranker)
    except ConfigurationError as error:
        message = str(error).removeprefix("reranker: ")
        advice = "correct the name, or install its package where skillserve is installed"
        yield _finding(checked, Level.ERROR, "search.reranker", message, advice)


def _metrics(checked: CheckedSettings) -> Iterator[Finding]:
    if checked.settings.section(OperationSettings).metrics and find_spec("prometheus_client") is None:
        message = "metrics need the extra `team`"
        yield _finding(checked, Level.ERROR, "operation.metrics", message, "run: pip install 'skillserve[team]'")
