"""How sources are to be watched: values that settings hold also where nothing is watched."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["WatchMode", "WatchOptions"]


class WatchMode(StrEnum):
    """How changes are noticed: `auto` asks the system and polls on network file systems."""

    AUTO = "auto"
    NATIVE = "native"
    POLL = "poll"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """`debounce` and `poll_interval` (which is also the interval of the check on the roots) are in seconds."""

    mode: WatchMode = WatchMode.AUTO
    debounce: float = 0.25
    poll_interval: float = 1.0
