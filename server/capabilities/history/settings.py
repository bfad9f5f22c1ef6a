"""Which sources have a history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from server.config.settings.named_sources import check_sources, directories_of, scopes_of
from server.config.settings.section import Section
from skills_core.disk.sources import Scope
from skills_core.installation import extra_advice, missing_modules

if TYPE_CHECKING:
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import CheckedSettings, Configuration
    from server.config.settings.model import Settings

_USUAL: Final = frozenset({Scope.EXPLICIT, Scope.WORKSPACE, Scope.MANAGED, Scope.LEGACY})

SKILL_HISTORY: Final = "skill_history"
ROLLBACK_SKILL: Final = "rollback_skill"


class RecordedSources(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section that names sources whose changes are recorded; those of other capabilities name some too."""

    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_sources(self.sources)

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes among the sources."""
        return scopes_of(self.sources)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories among the sources; `~` stands for the home directory."""
        return directories_of(self.sources)


class HistorySettings(RecordedSources, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Histories of sources, for `skillserve history` and `rollback`."""

    sources: tuple[str, ...] = ()
    """Sources whose changes are recorded whenever a server starts or sees an edit, or a skill is changed: directories,
    or the scopes `explicit`, `workspace`, `managed` and `legacy`. Needs the extra `history`."""
    automatic: bool = True
    """Whether other sources have a history too: those of `improve.sources`, those with the scope `workspace`, `managed`
    or `legacy` from the first change of skillserve on, scheduler skills, and all from when you first ask for a skill's
    history."""
    work_trees: bool = False
    """Whether sources that lie in a git repository of yours are recorded too. Your repository stays as it is in either
    case: the history is kept in the state directory."""

    @property
    def usual_scopes(self) -> frozenset[str]:
        """The scopes whose sources have a history from the first change on."""
        return frozenset(_USUAL) if self.automatic else frozenset()


def recorded_sources(settings: Settings) -> list[RecordedSources]:
    """Return all sections that name sources whose changes are recorded."""
    return [each for each in settings.capabilities if isinstance(each, RecordedSources)]


SECTION: Final = Section(name="history", kind=HistorySettings, prefix="history_", options={"sources": "history"})


def check_history(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check histories; a section with a fault of its own is left out."""
    checked = configuration.checked
    if checked.can_compare("history"):
        yield from check_named_sources(checked, "history.sources", checked.settings.section(HistorySettings).sources)


def check_named_sources(checked: CheckedSettings, key: str, sources: Sequence[str]) -> Iterator[ConfigFinding]:
    """Check sources that are to have a history: the setting `key` names them."""
    from server.cli.config_check.finding import Level
    from server.cli.config_check.places import unreadable

    if sources and missing_modules("history"):
        message = "histories need the extra `history`"
        yield checked.finding(Level.ERROR, key, message, extra_advice("history"))
    for number, source in enumerate(sources):
        for folder in directories_of((source,)):
            if fault := unreadable(folder):
                message = f"{folder}: {fault}"
                yield checked.finding(Level.WARNING, key, message, "create it, or correct the path", f".{number}")
