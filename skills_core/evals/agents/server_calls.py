"""Calls of this server's own tools, by which an agent loads a skill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skills_core.disk.folders import MAIN_FILE
from skills_core.evals.agents.transcript import skill_name
from skills_core.rendering import ACTIVATION_TOOL

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["READ_TOOL", "server_tool", "skill_of_server_call"]

READ_TOOL = "read_skill_file"


def server_tool(tool: str) -> str:
    """Return which of the server's tools a prefixed name such as `skills_activate_skill` means; empty for others."""
    for name in (ACTIVATION_TOOL, READ_TOOL):
        if tool.endswith(f"_{name}"):
            return name
    return ""


def skill_of_server_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the skill that a call of this server's tool loads, otherwise an empty text."""
    if tool == ACTIVATION_TOOL:
        return skill_name(arguments.get("name"))
    whole = arguments.get("path") == MAIN_FILE and arguments.get("first_line") in (None, 1)
    return skill_name(arguments.get("skill")) if tool == READ_TOOL and whole else ""
