"""Redacts secret values from everything that a model receives and everything that is recorded."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skills_core.format.yaml12 import JsonValue

__all__ = ["Secrets"]

MIN_SECRET = 6
"""Characters; a shorter value occurs in ordinary text too often to be redacted."""


MIN_SECRET_LINE = 12
"""Characters; a line of this length in a multi-line secret is redacted by itself."""

_MARK = "[secret "


class Secrets:
    """Named secret values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Redact `values`, given by name: as they are, as JSON escapes them, and line by line."""
        named = {form: name for name, value in values.items() for form in _forms(value) if len(form) >= MIN_SECRET}
        self._names = named
        # Of two values with a common prefix, the longer one matches first.
        longest_first = sorted(named, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if named else None

    def redact(self, text: str) -> str:
        """Return `text` with each secret replaced by its name."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"{_MARK}{self._names[found[0]]}]", text)

    def redact_json(self, value: JsonValue) -> JsonValue:
        """Return a JSON value with secrets redacted in all strings; keys of objects are not secret."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self.redact_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.redact_json(item) for key, item in value.items()}
        return value

    def has_placeholder(self, value: JsonValue) -> bool:
        """Tell whether a string within `value` contains a placeholder of a secret.

        Writing that back would replace the secret by its name.
        """
        if isinstance(value, str):
            return any(f"{_MARK}{name}]" in value for name in set(self._names.values()))
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(map(self.has_placeholder, items))


def _forms(value: str) -> Iterator[str]:
    yield value
    yield value.strip()
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= MIN_SECRET_LINE)
