"""Describes the model of a run to the renderer of activations, by the tools that the run offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.rendering.recipient import Recipient
from skills_core.toolboxes import Capability, Toolbox

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skills_core.guard.tool import Tool

__all__ = ["recipient_for"]

_TOOL_CAPABILITIES = {
    "read_file": Capability.READ_FILE,
    "write_file": Capability.WRITE_FILE,
    "list_directory": Capability.LIST_FOLDER,
    "grep": Capability.SEARCH_TEXT,
    "run_command": Capability.RUN_COMMAND,
    "ask_user": Capability.ASK_USER,
    "activate_skill": Capability.LOAD_SKILL,
}


def recipient_for(tools: Iterable[Tool]) -> Recipient:
    """Return the recipient that has exactly `tools`."""
    names = {tool.name for tool in tools}
    toolbox = Toolbox(
        key="run",
        title="a run of skillserve",
        source="this product",
        date="2026-11-21",
        tools={capability: (name,) for name, capability in _TOOL_CAPABILITIES.items() if name in names},
    )
    return Recipient(
        toolbox=toolbox,
        file_tool="read_skill_file" if "read_skill_file" in names else None,
        script_tool="run_skill_script" if "run_skill_script" in names else None,
    )
