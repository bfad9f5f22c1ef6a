"""Check the settings of histories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from server.capabilities.history.settings import HistorySettings
from server.cli.config_check.finding import ConfigFinding, Level
from server.cli.config_check.places import unreadable
from server.config.settings.named_sources import directories_of

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import CheckedSettings, Configuration


def check_history(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check histories; a section with a fault of its own is left out."""
    checked = configuration.checked
    if checked.can_compare("history"):
        yield from check_named_sources(checked, "history.sources", checked.settings.section(HistorySettings).sources)


def check_named_sources(checked: CheckedSettings, key: str, sources: Sequence[str]) -> Iterator[ConfigFinding]:
    """Check sources that are to have a history: the setting `key` names them."""
    if sources and find_spec("dulwich") is None:
        message = "histories need the extra `history`"
        yield checked.finding(Level.ERROR, key, message, "run: pip install 'skillserve[history]'")
    for number, source in enumerate(sources):
        for folder in directories_of((source,)):
            if fault := unreadable(folder):
                message = f"{folder}: {fault}"
                yield checked.finding(Level.WARNING, key, message, "create it, or correct the path", f".{number}")
