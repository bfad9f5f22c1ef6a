"""Audits of skills: commands and settings; the rules are in `skills_core.audit`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.audit.settings import SECTION, audit_object, review_of
from server.capability import Capability, StatusSection

if TYPE_CHECKING:
    import typer

    from server.capability import PageParts
    from server.hosting.host import Host


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.audit.commands import audit
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.WRITE)(audit)


def _status_lines(audit: Mapping[str, Any]) -> Iterable[str]:
    return (f"audit accepts {each['finding']}: {each['reason']}" for each in audit["accepted"])


def _page(host: Host) -> PageParts:
    from server.capabilities.audit.page import page_parts

    return page_parts(host)


CAPABILITY: Final = Capability(
    name="audit",
    sections=(SECTION,),
    commands=_add_commands,
    review=review_of,
    status=StatusSection(audit_object, _status_lines),
    page=_page,
)
