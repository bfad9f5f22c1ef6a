"""The replies of a scripted model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skills_core.format.yaml12 import JsonValue

__all__ = ["Call", "Reply"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool by the model; `arguments` may be a string, to imitate a model that writes invalid JSON."""

    tool: str
    arguments: Mapping[str, JsonValue] | str = field(default_factory=dict)


Reply: TypeAlias = "str | Call | Sequence[Call] | Exception"
