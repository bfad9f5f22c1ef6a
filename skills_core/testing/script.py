"""What a model in a script says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skills_core.format.yaml12 import JsonValue

__all__ = ["Call", "Reply"]


@dataclass(frozen=True, slots=True)
class Call:
    """The model wants a tool called; `arguments` may be a text, as a model writes that gets its JSON wrong."""

    tool: str
    arguments: Mapping[str, JsonValue] | str = field(default_factory=dict)


Reply: TypeAlias = "str | Call | Sequence[Call] | Exception"
