"""Calls of the tools that skills declare, by clients: through the same gate as in a run, with nobody to ask."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.listing.declared import prefix_of
from server.listing.envelope import text_block, tool_result
from server.rules import guard_of
from server.scripts.setup import script_runner
from skills_core.run.limits import RunLimits
from skills_core.run.outcome import CallDecision
from skills_core.run.ports import Nobody
from skills_core.run.tools.declared import declared_tools
from skills_core.run.tools.gate import ToolGate
from skills_core.run.tools.permits import Permits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.host import Host
    from skills_core.run.scripts.runner import ScriptRunner

__all__ = ["DeclaredCalls"]


class DeclaredCalls:
    """The handler of all of them."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`; scripts run as its settings say."""
        self._host = host
        self._runner: ScriptRunner | None = None

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a tool that the catalog has now, and return its result."""
        snapshot, settings = self._host.snapshot, self._host.settings
        skill, declaration = snapshot.declared[name]
        if self._runner is None:
            # What this machine has is looked for once, and on no event loop.
            self._runner = await anyio.to_thread.run_sync(script_runner, settings)
        found = declared_tools(skill, self._runner, prefix=prefix_of(skill), allows=lambda each: each is declaration)
        gate = ToolGate(
            found.tools,
            Permits(None),
            guard_of(snapshot.catalog.active, settings),
            Nobody(),
            RunLimits(),
            secrets.token_hex(16),
            skill.digest or "",
        )
        call = await gate.call(name, dict(arguments), 1)
        return tool_result([text_block(call.text)], is_error=call.decision is not CallDecision.DONE)
