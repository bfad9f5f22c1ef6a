"""Which skills are improved after failed runs."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from server.capabilities.history.settings import RecordedSources
from server.config.settings.section import Section


class ImproveSettings(RecordedSources, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Improvement of skills after runs with a failed tool call; off by default."""

    sources: tuple[str, ...] = ()
    """Sources whose skills are improved: directories, or the scopes `explicit`, `workspace`, `managed` and `legacy`.
    Each needs a history, which `history.automatic` begins, except in a git repository of yours."""
    review: bool = False
    """Whether corrections of names of tools, targets of links and typing errors are left as proposals for `skillserve
    history propose`, `accept` and `reject`, instead of being made. Every other change is a proposal in any case."""
    per_day: Annotated[int, Meta(ge=1, le=1000)] = 3
    """Most improvements of one skill that are begun within 24 hours."""
    seconds: Annotated[int, Meta(ge=1, le=3600)] = 120
    """Time limit for the model that improves a skill."""


SECTION: Final = Section(
    name="improve",
    kind=ImproveSettings,
    prefix="improve_",
    options={"sources": "improve"},
    flags={"improve_review": "--review"},
)
