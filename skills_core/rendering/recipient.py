"""The recipient of an activation: what the model that reads it can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.rendering.catalog import ACTIVATION_TOOL

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill
    from skills_core.toolboxes import Toolbox


@dataclass(frozen=True, slots=True)
class Recipient:
    """What is known of the recipient of a text.

    - `local`: the recipient's own tools read every file of this disk; `roots`: the folders that they read otherwise,
      absolute and free of symbolic links.
    - `toolbox`: the names of the recipient's own tools; None if unknown.
    - `reads_resources`: the model can read MCP resources by itself.
    - `link_reader`: the recipient's tool that reads MCP resources, if its model ignores instructions in results of
      other tools; then a link hands over the instructions.
    - `own`: configured names of the recipient's tools by the names that skills use; they override the toolbox.
    - `activation_tool`: what the recipient calls the tool that activates a skill.
    - `file_tool`, `script_tool`: this server's tools that read a skill's file and run its script; None if not offered.
    - `adapt`: whether the text explains the body's names for tools and files.
    - `listed`: the maximum number of files, and of names that are explained, in one list.
    """

    local: bool = False
    roots: frozenset[Path] = frozenset()
    toolbox: Toolbox | None = None
    reads_resources: bool = False
    link_reader: str | None = None
    own: Mapping[str, str] = field(hash=False, default_factory=dict)
    activation_tool: str = ACTIVATION_TOOL
    file_tool: str | None = "read_skill_file"
    script_tool: str | None = None
    adapt: bool = True
    listed: int = 100

    def reads(self, path: Path) -> bool:
        """Tell whether the recipient's own tools read what lies at `path`, which is free of symbolic links."""
        return self.local or path in self.roots or not self.roots.isdisjoint(path.parents)

    def folder_of(self, skill: Skill) -> Path | None:
        """Return the folder of a skill if the recipient's own tools read it, else None."""
        if not self.local and not self.roots:
            return None
        main = skill.content.main
        folder = skill.source.root.joinpath(skill.content.folder)
        # The main file may be reached through a link; clients check where it really lies.
        real = folder if main is None else skill.location(main).path.parent
        return folder if self.reads(real) else None


UNKNOWN_RECIPIENT = Recipient()
"""A recipient that is only known to have this server's tools."""
