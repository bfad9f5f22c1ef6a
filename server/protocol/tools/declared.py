"""Calls of the tools that skills declare, by clients: through the same gate as in a run."""

from __future__ import annotations

import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.config.guard_factory import guard_of
from server.exchange.elicitation import ClientUser
from server.listing.declared import prefix_of
from server.listing.envelope import text_block, tool_result
from server.wire.errors import InvalidRequestError
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from server.exchange.client_exchange import ClientExchange
    from server.exchange.registry import ExchangeRegistry
    from server.hosting.host import Host
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.run.ports import User
    from skills_core.run.scripts.runner import ScriptRunner
    from skills_core.skill import Skill

__all__ = ["DeclaredCalls"]

logger = logging.getLogger(__name__)


class DeclaredCalls:
    """The handler of all of them. What carries them out is imported when the first one is called."""

    def __init__(self, host: Host, exchanges: ExchangeRegistry) -> None:
        """Answer from `host`; scripts run as its settings say, and users are asked by `exchanges`."""
        self._host = host
        self._exchanges = exchanges
        self._runner: ScriptRunner | None = None

    def calls(
        self, ctx: ServerRequestContext[Any, Any]
    ) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
        """Return the tools that active skills declare and settings switch on, as they answer this request."""
        return {name: partial(self._call, ctx, name) for name in self._host.snapshot.declared}

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        async def work(exchange: ClientExchange) -> dict[str, Any]:
            return await self._carried_out(name, arguments, ClientUser(exchange, key, in_run=False))

        key = self._declared(name)[0].key
        # The arguments are the tool's own: none of them goes on with anything.
        return await self._exchanges.handle_call(ctx, {}, work)

    async def _carried_out(self, name: str, arguments: Mapping[str, Any], user: User) -> dict[str, Any]:
        # What this machine has is looked for once, and on no event loop.
        runner = await anyio.to_thread.run_sync(self._opened)
        from server.scripts.factory import variables_of
        from skills_core.run.limits import DEFAULT_LIMITS
        from skills_core.run.outcome import CallDecision
        from skills_core.run.secrets import Secrets
        from skills_core.run.tools.allowed_tools import AllowedTools
        from skills_core.run.tools.declared import declared_tools
        from skills_core.run.tools.gate import ToolGate

        snapshot, settings = self._host.snapshot, self._host.settings
        skill, declaration = self._declared(name)
        variables = await anyio.to_thread.run_sync(variables_of, skill)
        found = declared_tools(
            skill, runner, variables, prefix=prefix_of(skill), allows=lambda each: each is declaration
        )
        gate = ToolGate(
            found.tools,
            AllowedTools(None),
            guard_of(snapshot.catalog.active, settings.guard),
            user,
            DEFAULT_LIMITS,
            run_id=secrets.token_hex(16),
            digest=skill.digest or "",
            secrets=Secrets(variables),
        )
        call = await gate.call(name, dict(arguments), 1)
        if warning := runner.setup.isolation.warning:
            logger.warning("tool %s of %s: %s", one_line(name), one_line(skill.key), warning)
        return tool_result([text_block(call.text)], is_error=call.decision is not CallDecision.DONE)

    def _declared(self, name: str) -> tuple[Skill, ToolDeclaration]:
        """Return the tool as it is now.

        Raises:
            InvalidRequestError: its skill was removed, or declares it no longer, since the client listed it.
        """
        found = self._host.snapshot.declared.get(name)
        if found is None:
            gone = "its skill was removed or has changed since it was listed; list the tools again"
            raise InvalidRequestError(f"Unknown tool: {name[:200]}: {gone}")
        return found

    def _opened(self) -> ScriptRunner:
        from server.scripts.factory import script_runner

        self._runner = self._runner or script_runner(self._host.settings)
        return self._runner
