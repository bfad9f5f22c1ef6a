"""Assemble the MCP server: the SDK's low-level server with a handler for each method.

This is the only module that knows all handlers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import NotificationOptions, Server

from server.capabilities import CAPABILITIES
from server.capability import SealingKeys
from server.conversation.client_exchange import ExchangeLimits
from server.conversation.client_requests import SealedState
from server.conversation.registry import ExchangeRegistry
from server.hosting.views import COMMON_VIEW
from server.limits.descriptors import most_connections
from server.listing.envelope import IDENTITY
from server.protocol.boundary import Boundary
from server.protocol.client_roots import ClientRoots
from server.protocol.deliveries import EventRecords
from server.protocol.prompts import CompletionHandlers, PromptHandlers
from server.protocol.recipients import Recipients
from server.protocol.resources import ResourceHandlers, SkillsExtension
from server.protocol.subscriptions import HandshakeClients, ModernClients
from server.protocol.tools.dispatch import ToolHandlers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions

    from server.config.settings.model import Settings
    from server.hosting.host import Host

_EVERYTHING_CHANGES = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


class SkillServer(Server[Any]):
    """A server of the host's skills, for both protocol eras.

    `listening` holds the event streams of the modern era, `handshake` the connections of the handshake era, `exchanges`
    the calls that converse with clients, `records` passes on what was asked. `tool_names` are the tools that the
    server answers calls of, beside those that skills declare. `session_counts` returns how many sessions over HTTP are
    awake and asleep.
    """

    def __init__(self, host: Host, *, local: bool) -> None:
        """Build the server; `local` tells that clients share its disk."""
        self._host, self.records = host, host.records
        self.session_counts: Callable[[], Mapping[str, int]] = dict
        streams = host.settings.limits.event_streams
        # Over HTTP each stream keeps a connection; without descriptors the server could answer nobody.
        records = EventRecords(host)
        self.listening = ModernClients(host, records, streams if local else min(streams, most_connections()))
        self.exchanges = ExchangeRegistry(ExchangeLimits(concurrent_per_principal=host.settings.limits.runs))
        self._roots = roots = ClientRoots(local=local, named=host.settings.clients.skill_folder)
        recipients = Recipients(host.settings, roots)
        tools = ToolHandlers(host, self.exchanges, recipients, local=local)
        self.tool_names = tools.names
        handshake = self.handshake = HandshakeClients(host, records, tools.conversations.forget)
        prompts = PromptHandlers(host, recipients, handshake.on_prompts_listed)
        resources, completions = ResourceHandlers(host), CompletionHandlers(host)
        # The SDK types handlers by their result models; a dict of the same shape is documented and saves a dump.
        handlers: dict[str, Any] = {
            "on_list_tools": tools.list,
            "on_call_tool": tools.call,
            "on_list_resources": resources.list,
            "on_list_resource_templates": resources.list_templates,
            "on_read_resource": resources.read,
            "on_subscribe_resource": handshake.on_subscribe,
            "on_unsubscribe_resource": handshake.on_unsubscribe,
            "on_subscriptions_listen": self.listening,
            "on_list_prompts": prompts.list,
            "on_get_prompt": prompts.get,
            "on_completion": completions.complete,
        }
        super().__init__(
            IDENTITY["name"],
            version=IDENTITY["version"],
            title=IDENTITY["title"],
            description=IDENTITY["description"],
            # The SDK compares headers of a modern tools/call over HTTP with the tool's schema, which it looks up here
            # without the request. Where views differ it asks for the caller's tools instead: see schema_lookup.
            get_tool_input_schema=None if host.views_differ else self._input_schema,
            **handlers,
        )
        self.add_notification_handler("notifications/initialized", types.NotificationParams, self._on_initialized)
        self.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, roots.ask)
        SkillsExtension(host).register(self)
        sealed = _sealed_state(host.settings, self.exchanges.limits)
        # This replaces the SDK's own entry, which traces every message with OpenTelemetry.
        self.middleware[:] = [Boundary(host, sealed, self._is_method)]

    def close_parts(self) -> None:
        """Let what capabilities do prepare for the end of the server."""
        for part in self._host.parts:
            part.close()

    async def _on_initialized(self, ctx: ServerRequestContext[Any, Any], params: types.NotificationParams) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._roots.ask, ctx, params)
            await self.handshake.on_initialized(ctx, params)

    def _is_method(self, name: str) -> bool:
        return name == "initialize" or self.get_request_handler(name) is not None

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        """Return the schema of a tool that may ask for headers; those of our own tools ask for none."""
        view = self._host.view_called(COMMON_VIEW)
        return view.tool_schemas.get(name) if name in view.declared else None

    @property
    def server_info_stamp(self) -> dict[str, Any]:
        """The server's identity for the `_meta` of modern answers; it is flat, so a shallow copy suffices."""
        return dict(self._server_info_stamp_source)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Declare on every transport that lists change; the SDK's HTTP transport passes no options of its own."""
        options = notification_options or _EVERYTHING_CHANGES
        return super().create_initialization_options(options, experimental_capabilities, extensions)


def sealing_keys(settings: Settings) -> SealingKeys:
    """Return the keys that servers share which answer for each other; without any, each has a key of its own."""
    found = (each.sealing_keys(settings) for each in CAPABILITIES if each.sealing_keys is not None)
    return next(found, SealingKeys("", ()))


def _sealed_state(settings: Settings, limits: ExchangeLimits) -> SealedState:
    group, keys = sealing_keys(settings)
    return SealedState(group, limits.resume_seconds, keys)
