"""Which skills are improved after failed runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from server.capabilities.history.settings import RecordedSources
from server.config.settings.section import Section

if TYPE_CHECKING:
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration


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
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    """Dollars that all improvements together may cost within 24 hours, their evals included. None begins if the price
    of the model is unknown: give it in `[runs] prices`."""
    max_requests: Annotated[int, Meta(ge=1)] | None = None
    """Number of requests to models that all improvements together may make within 24 hours."""
    max_seconds: Annotated[int, Meta(ge=1)] | None = None
    """Seconds that all improvements together may work within 24 hours."""
    seconds: Annotated[int, Meta(ge=1, le=3600)] = 120
    """Time limit for the model that improves a skill."""


SECTION: Final = Section(
    name="improve",
    kind=ImproveSettings,
    prefix="improve_",
    options={"sources": "improve"},
    flags={"improve_review": "--review"},
)


def check_improve(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check the settings of improvements for `config check`."""
    from server.capabilities.history.settings import HistorySettings, check_named_sources
    from server.cli.config_check.finding import Level

    checked = configuration.checked
    if not checked.can_compare("history", "improve"):
        return
    history, improve = checked.settings.section(HistorySettings), checked.settings.section(ImproveSettings)
    missing = [each for each in improve.sources if each not in history.sources]
    if missing and not history.automatic:
        message = f"{', '.join(missing)}: without a history, nothing is improved"
        advice = "add them to history.sources, or set history.automatic"
        yield checked.finding(Level.WARNING, "improve.sources", message, advice)
    yield from check_named_sources(checked, "improve.sources", improve.sources)
