"""Runs of skills and workflows, for servers and for the command line.

`supervisor` holds the `service` of a server, which `factory` builds from the library and the settings. `skill_runner`
runs one skill with its tools. `run_list` lists recorded runs and their traces. A server imports only
`supervisor` and `telemetry` when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.runs.settings import RUN_SKILL, RUN_WORKFLOW, SECTION, RunSettings
from server.capability import Capability, StatusSection, ToolModule
from server.config.values import home_path

if TYPE_CHECKING:
    import typer

    from server.capability import PageParts, ServerPart
    from server.cli.config_check.finding import CheckedFile, ConfigFinding
    from server.cli.config_check.settings_check import Configuration
    from server.config.settings.model import Settings
    from server.hosting.host import Host


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.runs.commands import run, runs, workflow
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.RUN)(run)
    app.add_typer(runs, name="runs", rich_help_panel=CommandGroup.RUN)
    app.add_typer(workflow, name="workflow", rich_help_panel=CommandGroup.RUN)


def _asks_clients(settings: Settings) -> bool:
    from server.capabilities.runs.offered import offers_runs

    return offers_runs(settings)


def _private_places(settings: Settings) -> Iterable[Path]:
    named = settings.section(RunSettings).mcp_servers
    return () if named is None else (home_path(named),)


def _status(settings: Settings) -> dict[str, Any]:
    from server.capabilities.runs.offered import runs_object

    return runs_object(settings)


def _status_lines(runs: Mapping[str, Any]) -> Iterable[str]:
    from server.capabilities.runs.offered import runs_statement

    return (f"runs: {runs_statement(runs)}",)


def _log_start(settings: Settings) -> None:
    from server.capabilities.runs.offered import log_missing_tools

    log_missing_tools(settings)


def _part(host: Host) -> ServerPart:
    from server.capabilities.runs.supervisor import RunSupervisor

    return host.service(RunSupervisor)


def _checks(configuration: Configuration) -> Iterator[ConfigFinding]:
    from server.capabilities.runs.checks import check_runs

    return check_runs(configuration)


def _files(settings: Settings) -> Iterable[CheckedFile]:
    from server.capabilities.runs.checks import checked_files

    return checked_files(settings)


def _page(host: Host) -> PageParts:
    from server.capabilities.runs.page import page_parts

    return page_parts(host)


CAPABILITY: Final = Capability(
    name="runs",
    sections=(SECTION,),
    commands=_add_commands,
    checks=_checks,
    files=_files,
    tools=(ToolModule("server.capabilities.runs.tools", (RUN_SKILL, RUN_WORKFLOW), run=True),),
    asks_clients=_asks_clients,
    private_places=_private_places,
    status=StatusSection(_status, _status_lines),
    log_start=_log_start,
    part=_part,
    page=_page,
)
