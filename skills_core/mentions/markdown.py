"""Separate prose from fenced code in a Markdown text."""

from __future__ import annotations

import re

__all__ = ["without_fences"]

_MARKS = ("```", "~~~")
_FENCE = re.compile(r"[ \t>]{0,64}(`{3,}|~{3,})")


def without_fences(text: str) -> str:
    """Return `text` with fenced code replaced by spaces, so that all other text keeps its position.

    An unclosed fence extends to the end of the text.
    """
    if not any(mark in text for mark in _MARKS):
        return text
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line) if _MARKS[0] in line or _MARKS[1] in line else None
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
            kept.append(" " * len(line))
        elif mark and "`" not in line[mark.end() :]:
            fence = mark[1]
            kept.append(" " * len(line))
        else:
            kept.append(line)
    return "\n".join(kept)
