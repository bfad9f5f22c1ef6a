"""Run scripts of skills for clients and the command line: `factory` sets it up, `report` describes the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.scripts.settings import RUN_SKILL_SCRIPT, SECTION
from server.capability import Capability, StatusSection, ToolModule, ToolsOfSkills

if TYPE_CHECKING:
    import typer

    from server.config.settings.model import Settings


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.scripts.commands import script
    from server.cli.help_pages import CommandGroup

    # Options after the script's path belong to the script.
    interspersed = {"allow_interspersed_args": False}
    app.command(rich_help_panel=CommandGroup.RUN, context_settings=interspersed)(script)


def _tools_of_skills() -> ToolsOfSkills:
    from server.capabilities.scripts.declared_listing import served
    from server.capabilities.scripts.declared_tools import DeclaredToolHandler, entries

    return ToolsOfSkills(served, entries, lambda services: DeclaredToolHandler(services).call)


def _script_tool(settings: Settings) -> str | None:
    if RUN_SKILL_SCRIPT not in settings.tools.enabled:
        return None
    from server.capabilities.scripts.factory import offers_scripts

    return RUN_SKILL_SCRIPT if offers_scripts(settings) else None


def _asks_clients(settings: Settings) -> bool:
    return RUN_SKILL_SCRIPT in settings.tools.enabled or bool(settings.tools.declared)


def _status(settings: Settings) -> dict[str, Any]:
    from server.capabilities.scripts.factory import script_status

    return script_status(settings)


def _status_lines(scripts: Mapping[str, Any]) -> Iterable[str]:
    offered = "clients can run them" if scripts["offered"] else "clients cannot run them"
    return (f"scripts: {offered}. {scripts['statement']}",)


def _log_start(settings: Settings) -> None:
    if RUN_SKILL_SCRIPT in settings.tools.enabled:
        from server.capabilities.scripts.factory import log_script_setup

        log_script_setup(settings)


CAPABILITY: Final = Capability(
    name="scripts",
    sections=(SECTION,),
    commands=_add_commands,
    tools=(ToolModule("server.capabilities.scripts.tools", (RUN_SKILL_SCRIPT,), run=True),),
    tools_of_skills=_tools_of_skills,
    script_tool=_script_tool,
    asks_clients=_asks_clients,
    status=StatusSection(_status, _status_lines),
    log_start=_log_start,
)
