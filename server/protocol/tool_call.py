"""What every tool is given, and what the dispatcher knows of a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from server.clients.layout import is_structured
from server.clients.results import room_of
from server.protocol.news import MAX_NEWS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from server.clients import ClientProfile
    from server.clients.results import ResultRoom
    from server.hosting.views import View
    from server.protocol.conversations import Conversation

__all__ = ["Tool", "ToolCall", "has_skills", "is_always_there"]


_NEWS = MAX_NEWS + 200
# Room for news and for the marks of their blocks.

_LATE_NEWS = 300
# Room for news of what changes during the call: a line or two.


class ToolCall(NamedTuple):
    """One call of a tool: the request, its client, what its sender sees, their conversation, and the arguments."""

    ctx: ServerRequestContext[Any, Any]
    client: ClientProfile
    view: View
    conversation: Conversation
    name: str
    arguments: Mapping[str, Any]

    @property
    def structured(self) -> bool:
        """Whether the result has `structuredContent` beside its text, as the list of tools says to this client."""
        return is_structured(self.client)

    @property
    def room(self) -> ResultRoom | None:
        """The room for a result that this client passes on to its model; None if no limit is known.

        Read it before the call changes the conversation: pending news need room too.
        """
        room = room_of(self.ctx, self.client, self.name)
        if room is None:
            return None
        changes = None if self.client.refreshes else self.view.changes
        pending = self.conversation.has_news(self.view.catalog, changes)
        return room._replace(news=_NEWS if pending else _LATE_NEWS)


class Tool(NamedTuple):
    """The handler of a tool, and whether callers with a view have the tool."""

    handle: Callable[[ToolCall], Awaitable[dict[str, Any]]]
    is_there: Callable[[View], bool]


def has_skills(view: View) -> bool:
    """Tell whether a view shows any active skill."""
    return bool(view.catalog.active)


def is_always_there(_: View) -> bool:
    """Offer a tool whatever skills there are."""
    return True
