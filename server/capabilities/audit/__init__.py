"""Audits of skills: commands and settings; the rules are in `skills_core.audit`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.audit.settings import SECTION, AuditSettings
from server.capability import Capability, StatusSection

if TYPE_CHECKING:
    import typer

    from server.config.settings.model import Settings
    from skills_core.live.library import Review


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.audit.commands import audit

    app.command()(audit)


def _review(settings: Settings) -> Review | None:
    from server.capabilities.audit.loading import review_of

    return review_of(settings.section(AuditSettings))


def _status(settings: Settings) -> dict[str, Any]:
    from server.capabilities.audit.loading import audit_object

    return audit_object(settings.section(AuditSettings))


def _status_lines(audit: Mapping[str, Any]) -> Iterable[str]:
    return (f"audit accepts {each['finding']}: {each['reason']}" for each in audit["accepted"])


CAPABILITY: Final = Capability(
    name="audit",
    sections=(SECTION,),
    commands=_add_commands,
    review=_review,
    status=StatusSection(_status, _status_lines),
)
