"""Which tools clients get in addition to those for skills, and which tool calls the guard stops."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from server.capabilities import CAPABILITIES
from server.config.values import InvalidValueError

SKILL_CONTEXT: Final = "skill_context"
"""The optional tool of the core."""

SHARED_ONLY_TOOLS: Final = frozenset(
    name for each in CAPABILITIES for module in each.tools if module.shared_only for name in module.names
)
"""Optional tools that callers who see skills by their roles do not have."""

if TYPE_CHECKING:

    class OptionalTool(StrEnum):
        """Tools that are offered only if the settings name them."""
else:
    _NAMES = (SKILL_CONTEXT, *(name for each in CAPABILITIES for module in each.tools for name in module.names))
    OptionalTool = StrEnum("OptionalTool", [(name.upper(), name) for name in _NAMES])


class ToolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that are off by default."""

    enabled: tuple[OptionalTool, ...] = ()
    """Optional tools to offer. `run_skill` and `run_workflow` also need a model, `run_workflow` workflows as well."""
    declared: tuple[str, ...] = ()
    """Tools declared by skills that runs and clients may call: `SKILL/TOOL`, or `SKILL/*` for all tools of a skill.
    Each starts a program of the skill, so name only what you trust."""

    def __post_init__(self) -> None:
        for number, entry in enumerate(self.declared):
            if not all(entry.partition("/")):
                message = f"{entry[:80]!r}: expected SKILL/TOOL, or SKILL/* for all tools of the skill"
                raise InvalidValueError(message, ("declared", str(number)))
