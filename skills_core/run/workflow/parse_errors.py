"""The syntax error of conditions and templates, with its position in the text."""

from __future__ import annotations

from typing import Final

__all__ = ["ParseError", "excerpt_at"]

_CONTEXT_BEFORE: Final = 60
_CONTEXT_AFTER: Final = 40
"""Characters of a line that are shown before and after the position; a line may have thousands."""


class ParseError(Exception):
    """A text of a workflow has a syntax error; `position` counts its characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def excerpt_at(text: str, position: int) -> str:
    """Return the line of a text around a position, and a second line with a caret at it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    first = max(start, position - _CONTEXT_BEFORE)
    before = ("…" if first > start else "") + text[first:position]
    after = text[position : min(end, position + _CONTEXT_AFTER)] + ("…" if end > position + _CONTEXT_AFTER else "")
    shown = "".join(char if char.isprintable() else " " for char in before + after)
    return f"{shown.rstrip()}\n{' ' * len(before)}^"
