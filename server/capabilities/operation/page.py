"""The tab of the page that shows what happens at the server now, as `skillserve watch` does at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from server.capability import PageParts, PageTab

if TYPE_CHECKING:
    from server.capability import Visit
    from server.hosting.activity import Activity
    from server.hosting.host import Host

_SHOWN: Final = 200
# Of the events that the server keeps, the latest ones.


def page_parts(host: Host) -> PageParts:
    """Return the tab."""
    return PageParts(tabs=(PageTab("live", "Live", "operation/live.html", partial(_show, host.activity)),))


def _show(activity: Activity, visit: Visit) -> Mapping[str, Any]:
    events = activity.events
    skills = {skill.settings_key: skill for skill in visit.view.catalog.active}
    return {
        "events": [(event, _clock(event.time), skills.get(event.skill)) for event in reversed(events[-_SHOWN:])],
        "began": activity.began,
        "left_out": max(0, len(events) - _SHOWN),
    }


def _clock(moment: float) -> tuple[str, str]:
    """Return a moment in UTC as machines read it, and its time of day."""
    when = datetime.fromtimestamp(moment, UTC)
    return when.isoformat(timespec="milliseconds"), f"{when:%H:%M:%S}"
