"""Recent events, each once, for clients that were unreachable when the events were published.

One record serves all clients of a view. An unreachable client costs nothing while events come: its connection keeps
the number of the last event that was sent, and takes the events after it when the client is reachable again.
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
"""Most events that are remembered; a client that missed more is notified of everything that it listens to."""


class RecentEvents:
    """Events in the order of their last occurrence."""

    def __init__(self, limit: int = MAX_EVENTS) -> None:
        """Remember `limit` events."""
        self._limit = limit
        self._numbers: OrderedDict[ServerEvent, int] = OrderedDict()
        self._forgotten = 0
        self.last = 0

    def add(self, event: ServerEvent) -> None:
        """Record an event; its number is `last`."""
        self.last += 1
        self._numbers[event] = self.last
        self._numbers.move_to_end(event)
        if len(self._numbers) > self._limit:
            _, self._forgotten = self._numbers.popitem(last=False)

    def since(self, number: int, subscriptions: AbstractSet[str]) -> list[ServerEvent]:
        """Return the events after event `number`; those of resources only if they are in `subscriptions`."""
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
