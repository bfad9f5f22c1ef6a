"""For whom an activation is rendered: what the one who reads it can do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.toolboxes import Toolbox

__all__ = ["ANYBODY", "Recipient"]


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who gets a text.

    `local` tells that the skill's folder is on the same disk, `toolbox` what the recipient's own tools are called,
    None where that is not known, and `reads_resources` that its model can read resources by itself. `own` are tools
    that skills name and what each is called here, before all that a toolbox says. `file_tool` is the tool of this
    server that reads a skill's file, and `script_tool` the one that runs its script; None where there is none. `adapt`
    tells whether a text says what the body's names for tools and files mean here.
    """

    local: bool = False
    toolbox: Toolbox | None = None
    reads_resources: bool = False
    own: Mapping[str, str] = field(hash=False, default_factory=dict)
    file_tool: str | None = "read_skill_file"
    script_tool: str | None = None
    adapt: bool = True


ANYBODY = Recipient()
"""Who is only known to have the tools of this server."""
