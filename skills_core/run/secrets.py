"""Values that must not be told: taken out of whatever a model is given, and out of everything that is recorded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.format.yaml12 import JsonValue

__all__ = ["Secrets"]

SHORTEST = 6
"""Characters; what is shorter stands in ordinary text too often to be taken out."""


class Secrets:
    """Named secret values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Know `values` by their names."""
        named = {value: name for name, value in values.items() if len(value) >= SHORTEST}
        self._names = named
        # Of two that begin alike, the longer one is meant.
        longest_first = sorted(named, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if named else None

    def hidden(self, text: str) -> str:
        """Return `text` with the name of each secret in its place."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[secret {self._names[found[0]]}]", text)

    def hidden_in(self, value: JsonValue) -> JsonValue:
        """Return a JSON value with the same done to all of its texts, keys too."""
        if isinstance(value, str):
            return self.hidden(value)
        if isinstance(value, list):
            return [self.hidden_in(item) for item in value]
        if isinstance(value, dict):
            return {self.hidden(key): self.hidden_in(item) for key, item in value.items()}
        return value
