"""Improvement of skills after failed runs: the model's run on a copy, the checks, the measurement, the installation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.improve.settings import SECTION, check_improve
from server.capability import Capability

if TYPE_CHECKING:
    import typer

    from server.capability import AfterRuns, PageParts
    from server.config.settings.model import Settings
    from server.hosting.host import Host


def _add_commands(_: typer.Typer) -> None:
    from server.capabilities.history.commands import history
    from server.capabilities.improve.commands import accept, forget, propose, reject

    for command in (forget, propose, accept, reject):
        history.command()(command)


def _after_runs(settings: Settings, on_change: Callable[[], Awaitable[object]] | None) -> AfterRuns | None:
    from server.capabilities.improve.factory import improvement_after_runs

    return improvement_after_runs(settings, on_change)


def _describe_change(change: Mapping[str, Any]) -> list[str]:
    from server.capabilities.improve.records import change_lines

    return change_lines(change)


def _page(host: Host) -> PageParts:
    from server.capabilities.improve.page import page_parts

    return page_parts(host)


CAPABILITY: Final = Capability(
    name="improve",
    sections=(SECTION,),
    commands=_add_commands,
    checks=check_improve,
    page=_page,
    after_runs=_after_runs,
    describe_change=_describe_change,
)
