"""The recipient of an activation: what the model that reads it can do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.toolboxes import Toolbox

__all__ = ["UNKNOWN_RECIPIENT", "Recipient"]


@dataclass(frozen=True, slots=True)
class Recipient:
    """What is known of the recipient of a text.

    - `local`: the skill's folder is on the recipient's disk.
    - `toolbox`: the names of the recipient's own tools; None if unknown.
    - `reads_resources`: the model can read MCP resources by itself.
    - `own`: configured names of the recipient's tools by the names that skills use; they override the toolbox.
    - `file_tool`, `script_tool`: this server's tools that read a skill's file and run its script; None if not offered.
    - `adapt`: whether the text explains the body's names for tools and files.
    - `listed`: the maximum number of files, and of names that are explained, in one list.
    """

    local: bool = False
    toolbox: Toolbox | None = None
    reads_resources: bool = False
    own: Mapping[str, str] = field(hash=False, default_factory=dict)
    file_tool: str | None = "read_skill_file"
    script_tool: str | None = None
    adapt: bool = True
    listed: int = 100


UNKNOWN_RECIPIENT = Recipient()
"""A recipient that is only known to have this server's tools."""
