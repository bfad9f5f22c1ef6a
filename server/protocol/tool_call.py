"""What defines a tool, and what its handler is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from server.clients.layout import ResultRoom, is_structured, room_of
from server.listing.envelope import text_block, tool_result
from server.protocol.conversations import MAX_NEWS, Conversation
from skills_core.rendering.escaping import escape_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from server.capabilities.runs.supervisor import RunSupervisor
    from server.clients.profile import ClientProfile
    from server.config.settings.model import Settings
    from server.conversation.registry import ExchangeRegistry
    from server.hosting.host import Host
    from server.hosting.views import View
    from server.listing.tools import ToolListing
    from server.protocol.recipients import Recipients
    from skills_core.catalog.catalog import Catalog
    from skills_core.scripts.runner import ScriptSetup

    Handler: TypeAlias = "Callable[[ToolCall], Awaitable[dict[str, Any]]]"


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


class ToolServices(NamedTuple):
    """What handlers work with.

    `exchanges` converses with clients during a call, `runs` has the service that runs skills, and `recipients` knows
    for whom a request's text is rendered.
    """

    host: Host
    exchanges: ExchangeRegistry
    runs: RunSupervisor
    recipients: Recipients


def always(_: Catalog) -> bool:
    """Offer a tool whatever skills there are."""
    return True


def has_active(catalog: Catalog) -> bool:
    """Tell whether there is any active skill."""
    return bool(catalog.active)


def has_offered(catalog: Catalog) -> bool:
    """Tell whether models may use any skill."""
    return bool(catalog.offered)


def _on_each_server(_: Settings, __: ScriptSetup | None) -> bool:
    return True


class Tool(NamedTuple):
    """The definition of a tool: its entry in `tools/list`, and the handler of its calls.

    A server has the tool if settings switch it on and it `is_offered`. It is listed while the catalog `is_listed`, and
    called while the catalog `is_callable`: what was listed before a skill changed may still be called.
    """

    name: str
    entry: Callable[[ToolListing], dict[str, Any]]
    handler: Callable[[ToolServices], Handler]
    is_offered: Callable[[Settings, ScriptSetup | None], bool] = _on_each_server
    is_listed: Callable[[Catalog], bool] = always
    is_callable: Callable[[Catalog], bool] = always


def structured_result(structured: dict[str, Any]) -> dict[str, Any]:
    """Return a result whose text is its structure as JSON."""
    return {**tool_result([text_block(escape_json(structured))]), "structuredContent": structured}
