"""Which tools a skill may use in a run: what its `allowed-tools` means here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skills_core.run.ports import JsonObject
    from skills_core.run.tools.tool import Tool

__all__ = ["Permits"]


class Permits:
    """What `allowed-tools` permits."""

    def __init__(self, entries: Iterable[str] | None) -> None:
        """Take the entries in; None permits every tool that is there, no entries none."""
        self._names = None if entries is None else frozenset(entries)

    def offers(self, tool: Tool) -> bool:
        """Tell whether some call of the tool is permitted, so that a model is told of it."""
        return self._names is None or not self._names.isdisjoint({tool.name, *tool.role.aliases})

    def refusal(self, tool: Tool, arguments: JsonObject) -> str:
        """Say why a call is not permitted; empty where it is."""
        del arguments
        return "" if self.offers(tool) else "the skill's allowed-tools do not name it"
