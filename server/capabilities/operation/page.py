"""The tab of the page that shows what happens at the server now, as `skillserve watch` does at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from server.capability import Visit
    from server.hosting.host import Host

_SHOWN: Final = 200
# Of the events that the server keeps, the latest ones.


class LiveTab:
    """The latest events of one server."""

    def __init__(self, host: Host) -> None:
        """Show the activity of `host`."""
        self._host = host

    def show(self, visit: Visit) -> Mapping[str, Any]:
        """Return the values for the template."""
        events = self._host.activity.events
        skills = {skill.settings_key: skill for skill in visit.view.catalog.active}
        return {
            "events": [(event, _clock(event.time), skills.get(event.skill)) for event in reversed(events[-_SHOWN:])],
            "began": self._host.activity.began,
            "left_out": max(0, len(events) - _SHOWN),
        }


def _clock(moment: float) -> tuple[str, str]:
    """Return a moment in UTC as machines read it, and its time of day."""
    when = datetime.fromtimestamp(moment, UTC)
    return when.isoformat(timespec="milliseconds"), f"{when:%H:%M:%S}"
