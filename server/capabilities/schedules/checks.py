"""Check the settings of schedules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from server.capabilities.runs.checks import check_shared_store
from server.capabilities.runs.offered import runs_unavailable_reason
from server.capabilities.runs.settings import RunSettings
from server.capabilities.schedules.settings import SCHEDULE_SKILL, SCHEDULE_TOOLS, ScheduleSettings
from server.cli.config_check.finding import ConfigFinding, Level

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import Configuration


def check_schedules(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check schedules; sections with a fault of their own are left out."""
    checked = configuration.checked
    if not checked.can_compare("schedules", "runs", "tools", "access"):
        return
    settings = checked.settings
    tools = [each for each in settings.tools.enabled if each in SCHEDULE_TOOLS]
    if tools and settings.access.known_roles:
        message = f"{', '.join(tools)}: schedules are those of the server's user, so no caller with roles has the tools"
        yield checked.finding(Level.WARNING, "tools.enabled", message, "remove the tools, or the roles")
    enabled = settings.section(ScheduleSettings).enabled
    if enabled and (reason := runs_unavailable_reason(settings.section(RunSettings))):
        message = f"schedules cannot run skills: {reason}"
        yield checked.finding(Level.WARNING, "schedules.enabled", message, "set runs.model")
    if enabled:
        yield from check_shared_store(checked)
    if SCHEDULE_SKILL in tools and not enabled:
        message = "schedule_skill makes schedules that this server does not fire"
        advice = "set schedules.enabled, or run `skillserve schedule daemon`"
        yield checked.finding(Level.WARNING, "tools.enabled", message, advice)
