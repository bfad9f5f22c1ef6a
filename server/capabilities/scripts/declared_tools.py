"""The tools that skills declare: their entries, and calls by clients, which pass the same gate as in a run."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.capabilities.scripts.declared_listing import prefix_of
from server.listing.envelope import text_block, tool_result
from server.listing.schemas import UNKNOWN_EFFECTS
from server.requests import RequestReason, Use, note_denied, note_skill
from server.wire.params import InvalidRequestError
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.conversation.client_exchange import ClientExchange
    from server.hosting.views import View
    from server.protocol.tool_call import ToolCall, ToolServices
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.interaction import User
    from skills_core.scripts.runner import ScriptRunner
    from skills_core.skills.skill import Skill

logger = logging.getLogger(__name__)


def entries(found: Mapping[str, tuple[Skill, ToolDeclaration]]) -> list[dict[str, Any]]:
    """Return the entries of the tools in `tools/list`."""
    return [_entry(name, *tool) for name, tool in found.items()]


def _entry(name: str, skill: Skill, declaration: ToolDeclaration) -> dict[str, Any]:
    title = f"{declaration.name} ({one_line(skill.key)})"
    return {
        "name": name,
        "title": title,
        "description": declaration.description or f"A tool of the skill {one_line(skill.key)}.",
        "inputSchema": {"type": "object", **declaration.parameters},
        "annotations": {"title": title, **UNKNOWN_EFFECTS},
    }


class DeclaredToolHandler:
    """The handler of all declared tools. The modules that execute them are imported at the first call."""

    def __init__(self, services: ToolServices) -> None:
        """Answer from the host of `services`, whose exchanges ask users for consent."""
        self._host = services.host
        self._exchanges = services.exchanges
        self._runner: ScriptRunner | None = None

    async def call(self, call: ToolCall) -> dict[str, Any]:
        """Handle a call."""
        # Imported here, as it needs the SDK, which the list of tools does not wait for.
        from server.conversation.elicitation import ClientUser

        async def work(exchange: ClientExchange) -> dict[str, Any]:
            return await self._execute(call, ClientUser(exchange, key, in_run=False))

        key = _declared(call.view, call.name)[0].key
        # The arguments are the tool's own: none of them continues an exchange.
        return await self._exchanges.handle_call(call.ctx, {}, work)

    async def _execute(self, call: ToolCall, user: User) -> dict[str, Any]:
        # The sandbox is probed once, in a worker thread.
        runner = await anyio.to_thread.run_sync(self._opened)
        from server.capabilities.guard.guards import ServerGuard
        from server.capabilities.scripts.factory import variables_of
        from skills_core.guard.allowed_tools import AllowedTools
        from skills_core.guard.tool import CallDecision, CallLimits, Secrets
        from skills_core.guard.tool_gate import ToolGate
        from skills_core.scripts.tools import declared_tools

        # The call may have waited for its turn, and its skill may have changed meanwhile.
        view, name = self._host.view(call.ctx), call.name
        skill, declaration = _declared(view, name)
        note_skill(skill, Use.RAN)
        guard = await anyio.to_thread.run_sync(self._host.service(ServerGuard).for_view, view)
        variables = await anyio.to_thread.run_sync(variables_of, skill)
        found = declared_tools(
            skill, runner, variables, prefix=prefix_of(skill), allows=lambda each: each is declaration
        )
        gate = ToolGate(
            found.tools,
            AllowedTools(None),
            guard,
            user,
            CallLimits(),
            run_id=secrets.token_hex(16),
            digest=skill.digest or "",
            secrets=Secrets(variables),
        )
        result = await gate.call(name, dict(call.arguments), 1)
        if result.decision is CallDecision.DENIED:
            note_denied(RequestReason.GUARD)
        elif result.decision in {CallDecision.DECLINED, CallDecision.NOBODY_TO_ASK}:
            note_denied(RequestReason.DECLINED)
        if warning := runner.setup.isolation.warning:
            logger.warning("tool %s of %s: %s", one_line(name), one_line(skill.key), warning)
        return tool_result([text_block(result.text)], is_error=result.decision is not CallDecision.DONE)

    def _opened(self) -> ScriptRunner:
        from server.capabilities.scripts.factory import script_runner

        self._runner = self._runner or script_runner(self._host.settings)
        return self._runner


def _declared(view: View, name: str) -> tuple[Skill, ToolDeclaration]:
    """Return a tool with the skill that declares it.

    Raises:
        InvalidRequestError: the skill was removed, or declares no such tool, since the client listed it.
    """
    found = view.declared.get(name)
    if found is None:
        gone = "its skill was removed or has changed since it was listed; list the tools again"
        raise InvalidRequestError(f"Unknown tool: {name[:200]}: {gone}")
    return found
