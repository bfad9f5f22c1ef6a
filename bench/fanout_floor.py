"""A server that tells its clients of an edit with what the SDK has: the floor of `fanout.py`.

It answers activations with a fixed text, and reads no skill.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.subscriptions import event_to_notification

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.session import ServerSession

DEBOUNCE_SECONDS = 0.25
POLL_SECONDS = 0.01
TEXT = "x" * 6000


class _Floor(Server[Any]):
    def __init__(self, uri: str) -> None:
        self._events = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged(), ResourceUpdated(uri))
        self._bus = InMemorySubscriptionBus()
        self._sessions: list[ServerSession] = []
        super().__init__(
            "floor",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscribe_resource=self._subscribe,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self.middleware.clear()

    def create_initialization_options(self, *_: object, **__: object) -> InitializationOptions:
        return super().create_initialization_options(NotificationOptions(tools_changed=True))

    async def _list(self, *_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="activate_skill", input_schema={"type": "object"})])

    async def _call(self, *_: object) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=TEXT)])

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], _: object) -> types.EmptyResult:
        self._sessions.append(ctx.session)
        return types.EmptyResult()

    async def tell(self, path: anyio.Path) -> None:
        """Tell all clients of each change of a file, after the time for which servers wait for more changes."""
        seen = 0
        while True:
            await anyio.sleep(POLL_SECONDS)
            if (now := (await path.stat()).st_mtime_ns) == seen:
                continue
            await anyio.sleep(DEBOUNCE_SECONDS if seen else 0)
            seen = now
            async with anyio.create_task_group() as tasks:
                for session in self._sessions:
                    tasks.start_soon(self._notify, session)
                for event in self._events:
                    await self._bus.publish(event)

    async def _notify(self, session: ServerSession) -> None:
        for event in self._events:
            await session.send_notification(event_to_notification(event, {}))


async def main(path: str, uri: str, port: int) -> None:
    """Serve until the process ends."""
    floor = _Floor(uri)
    app = floor.streamable_http_app(json_response=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(floor.tell, anyio.Path(path))
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", access_log=False)).serve()
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
