"""Options of the watcher, which settings hold without importing the watcher itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class WatchMode(StrEnum):
    """How changes are detected: `auto` uses system notifications, and polls network file systems."""

    AUTO = "auto"
    NATIVE = "native"
    POLL = "poll"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """`debounce` and `poll_interval` are in seconds; the roots are checked at the poll interval in every mode."""

    mode: WatchMode = WatchMode.AUTO
    debounce: float = 0.25
    poll_interval: float = 1.0
