"""Check the settings of runs, their database, the collector of spans, and the file of MCP servers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.capabilities.replicas.settings import ReplicaSettings
from server.capabilities.runs.mcp_config import MAX_SERVERS, file_secrets, parse_servers, read_servers
from server.capabilities.runs.offered import missing_tool_messages, runs_unavailable_reason
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.telemetry import endpoint_fault
from server.cli.config_check.finding import CheckedFile, ConfigFinding, Level
from server.cli.config_check.places import exposed, folder_fault
from server.config.files import ConfigurationError
from server.config.values import home_path
from skills_core.disk.files import read_bounded
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.runs.durable.store import SqliteStore, require_private, store_of

if TYPE_CHECKING:
    from server.capabilities.runs.mcp_config import ServerSpec
    from server.cli.config_check.settings_check import CheckedSettings, Configuration
    from server.config.settings.model import Settings


def check_runs(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check runs; sections with a fault of their own are left out."""
    checked = configuration.checked
    findings, specs = _check_mcp_servers(checked.settings, configuration.environment)
    yield from findings
    if (servers := _servers_file(checked.settings)) is not None:
        yield from exposed(servers, ", ".join(file_secrets(specs)), changes=True)
    if checked.can_compare("runs", "tools"):
        yield from _runs(checked)
    if checked.can_compare("runs"):
        yield from _store(checked)
    if checked.settings.section(RunSettings).model is not None:
        yield from check_shared_store(checked)
    if fault := endpoint_fault(configuration.environment):
        name, message = fault
        advice = "correct it, or unset it to export no spans"
        yield ConfigFinding(Level.WARNING, f"the environment variable {name}", None, message, advice)


def checked_files(settings: Settings) -> Iterable[CheckedFile]:
    """Return the file of MCP servers, if the settings name one."""
    servers = _servers_file(settings)
    return () if servers is None else (CheckedFile(str(servers), "MCP servers of runs", os.path.lexists(servers)),)


def _servers_file(settings: Settings) -> Path | None:
    named = settings.section(RunSettings).mcp_servers
    return None if named is None else home_path(named)


def _runs(checked: CheckedSettings) -> Iterator[ConfigFinding]:

    runs = checked.settings.section(RunSettings)
    reason = runs_unavailable_reason(runs)
    if runs.model is not None and reason is not None:
        yield checked.finding(Level.WARNING, "runs.model", reason, "correct the model, or set what it needs")
    else:
        for message in missing_tool_messages(checked.settings):
            advice = "set runs.model and runs.workflows, or remove the tool or the workflow"
            yield checked.finding(Level.WARNING, "tools.enabled", message, advice)
    if runs.tools and runs.workspace is None:
        message = f"{', '.join(runs.tools)}: no folder is named that they may use"
        yield checked.finding(Level.ERROR, "runs.tools", message, "set runs.workspace, or remove the tools")
    if runs.workspace is not None and not home_path(runs.workspace).is_dir():
        message = f"{runs.workspace}: there is no such folder"
        level = Level.ERROR if runs.tools else Level.WARNING
        yield checked.finding(level, "runs.workspace", message, "create the folder, or correct the path")
    if runs.model_key is not None and (runs.model is None or "://" not in runs.model):
        message = "it has no effect: it is for a model that is named by its URL"
        yield checked.finding(Level.WARNING, "runs.model_key", message, "remove it, or name such a model")


def _store(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    named = checked.settings.section(RunSettings).store
    if named is None:
        return
    try:
        store = store_of(named.get_secret_value())
        if isinstance(store, SqliteStore):
            require_private(store.path, creates=False)
            if fault := folder_fault(store.path.parent):
                message = f"{store.path}: runs cannot be recorded here: {fault}"
                yield checked.finding(Level.ERROR, "runs.store", message, "choose a folder of your own")
        elif find_spec("psycopg") is not None:
            from skills_core.runs.durable.postgres import require_valid_url

            require_valid_url(store.url)
    except SkillsError as error:
        advice = "name a file of your own, or a database as postgresql://user@host/database"
        yield checked.finding(Level.ERROR, "runs.store", str(error).rstrip("."), advice)


def check_shared_store(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    """Check that replicas record runs in one database."""
    replicas, runs = checked.settings.section(ReplicaSettings), checked.settings.section(RunSettings)
    if not checked.can_compare("replicas", "runs", "schedules") or not replicas.enabled:
        return
    with suppress(SkillsError):  # which another check reports
        if runs.store is None or isinstance(store_of(runs.store.get_secret_value()), SqliteStore):
            message = "each replica records runs in a file of its own (SQLite), which no other one shows or continues"
            origin = checked.origin("replicas.redis_url" if runs.store is None else "runs.store")
            advice = "set it to a database that all replicas reach, as postgresql://user@host/database"
            yield ConfigFinding(Level.WARNING, origin, "runs.store", message, advice)


def _check_mcp_servers(
    settings: Settings, environment: Mapping[str, str]
) -> tuple[list[ConfigFinding], tuple[ServerSpec, ...]]:
    """Check the file of MCP servers, each server on its own; return those that can be used too."""
    named = settings.section(RunSettings).mcp_servers
    if named is None:
        return [], ()
    path = Path(named)
    try:
        return [], read_servers(path, environment)
    except ConfigurationError as error:
        first = str(error)
    path = home_path(path)
    findings: list[ConfigFinding] = []
    specs: list[ServerSpec] = []
    for name, entry in _servers_in(path).items():
        try:
            specs += parse_servers(path, json.dumps({"mcpServers": {name: entry}}), environment)
        except ConfigurationError as error:
            where, _, message = str(error).removeprefix(f"{path}: ").partition(": ")
            findings.append(ConfigFinding(Level.ERROR, str(path), where, message, "correct the entry, or disable it"))
    if not findings:
        message = first.removeprefix(f"{path}: ")
        findings.append(ConfigFinding(Level.ERROR, str(path), None, message, "correct the file, or runs.mcp_servers"))
    return findings, tuple(specs)


def _servers_in(path: Path) -> dict[str, Any]:
    """Return the entries of a file of MCP servers, nothing if it has none that can be told apart."""
    try:
        found = json.loads((read_bounded(path) or b"").decode("utf-8-sig"))
    except (FileRefusedError, ValueError, RecursionError):
        return {}
    keys = ("mcpServers", "servers") if isinstance(found, dict) else ()
    servers = next((found[key] for key in keys if found.get(key) is not None), None)
    return servers if isinstance(servers, dict) and len(servers) <= MAX_SERVERS else {}
