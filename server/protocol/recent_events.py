"""What was published lately, each event once: what a client that could not be told then has missed since.

One record serves all clients. A client that cannot be reached costs nothing while events come: it keeps the number of
the last event that it was told of, and asks for those after it when it can be reached again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from mcp.server.subscriptions import ServerEvent

__all__ = ["RecentEvents"]

MAX_EVENTS = 20_000
"""Most events that are remembered; a client that missed more is told of everything that it listens to."""


class RecentEvents:
    """The events of one server in the order in which each happened last."""

    def __init__(self, limit: int = MAX_EVENTS) -> None:
        """Remember `limit` events."""
        self._limit = limit
        self._numbers: OrderedDict[ServerEvent, int] = OrderedDict()
        self._forgotten = 0
        self.last = 0

    def add(self, event: ServerEvent) -> None:
        """Take note that an event has happened; its number is `last`."""
        self.last += 1
        self._numbers[event] = self.last
        self._numbers.move_to_end(event)
        if len(self._numbers) > self._limit:
            _, self._forgotten = self._numbers.popitem(last=False)

    def since(self, number: int, subscriptions: AbstractSet[str]) -> list[ServerEvent]:
        """Return what has happened after the event `number`, of resources only those in `subscriptions`."""
        if number < self._forgotten:
            lists = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
            return [*lists, *map(ResourceUpdated, sorted(subscriptions))]
        missed: list[ServerEvent] = []
        for event, happened in reversed(self._numbers.items()):
            if happened <= number:
                break
            if not isinstance(event, ResourceUpdated) or event.uri in subscriptions:
                missed.append(event)
        return missed[::-1]
