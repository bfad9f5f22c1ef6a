"""What audits of skills lead to, and which of their findings are accepted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from server.config.settings.section import Section
from skills_core.audit.findings import AuditMode
from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.live.library import Review


class AcceptedFinding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding of the audit that the user accepts, and why."""

    finding: Annotated[
        str, Meta(max_length=200, pattern=r"^(?:[^/]+/(?:[a-z]+(?:-[a-z]+)+|[0-9a-f]{32})|[0-9a-f]{32})$")
    ]
    """`SKILL/RULE`, `SKILL/FINGERPRINT`, or a fingerprint alone, as `skillserve audit --json` prints them."""
    reason: Annotated[str, Meta(min_length=1, max_length=500)]
    """Why the finding is accepted."""


class AuditSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Static checks of what the server is about to serve, as `skillserve audit` makes them."""

    mode: AuditMode = AuditMode.OFF
    """Whether skills are audited when they are loaded or change: `warn` adds the findings to the diagnostics of a
    skill, `block` also excludes a skill that has an error. Switch it on if you serve skills that others wrote."""
    accept: tuple[AcceptedFinding, ...] = ()
    """Findings that are accepted: they exclude no skill, and become diagnostics of the level `info`. Each is a table of
    `finding` and `reason`, where `finding` is `SKILL/RULE`, `SKILL/FINGERPRINT` or the fingerprint alone, as
    `skillserve audit --json` prints it. `SKILL/RULE` does not accept findings in the skills of a project, which choose
    their own names. Use it if the audit is wrong about a skill that you trust."""


SECTION: Final = Section(
    name="audit", kind=AuditSettings, prefix="audit_", options={"mode": "audit"}, file_only=frozenset({"accept"})
)


def review_of(settings: Settings) -> Review | None:
    """Return what audits skills when they are loaded, None if the settings switch that off."""
    audit = settings.section(AuditSettings)
    if audit.mode is AuditMode.OFF:
        return None
    from skills_core.audit.review import AuditReview

    return AuditReview(audit.mode is AuditMode.BLOCK, accepted_findings(settings))


def accepted_findings(settings: Settings) -> Mapping[str, str]:
    """Return the user's reasons to accept findings, by what the settings name."""
    return MappingProxyType({each.finding: each.reason for each in settings.section(AuditSettings).accept})


def audit_object(settings: Settings) -> dict[str, Any]:
    """Return what the status says of the audit: its mode, and the findings that the user's settings accept."""
    audit = settings.section(AuditSettings)
    return {
        "mode": audit.mode.value,
        "accepted": [{"finding": printable(each.finding), "reason": printable(each.reason)} for each in audit.accept],
    }
