"""Markdown texts: prose without fenced code, and plain searches for parts and their lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

_MARKS = ("```", "~~~")
_FENCE = re.compile(r"[ \t>]{0,64}(`{3,}|~{3,})")


def without_fences(text: str, languages: Collection[str] | None = None) -> str:
    """Return `text` with fenced code replaced by spaces, so that all other text keeps its position.

    With `languages`, in lower case, only code that is marked as one of them is replaced. An unclosed fence extends to
    the end of the text.
    """
    if not any(mark in text for mark in _MARKS):
        return text
    kept: list[str] = []
    fence, hides = "", True
    for line in text.split("\n"):
        mark = _FENCE.match(line) if _MARKS[0] in line or _MARKS[1] in line else None
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
            kept.append(" " * len(line) if hides else line)
        elif mark and "`" not in line[mark.end() :]:
            fence = mark[1]
            language = line[mark.end() :].strip().partition(" ")[0].lower()
            hides = languages is None or language in languages
            kept.append(" " * len(line) if hides else line)
        else:
            kept.append(line)
    return "\n".join(kept)


def in_ascii(text: str) -> str:
    """Return `text` with `?` for each character outside ASCII: a search through narrow text is several times faster."""
    return text if text.isascii() else text.encode("ascii", "replace").decode("ascii")


def positions_of(part: str, text: str) -> Iterator[int]:
    """Yield where `part` begins in `text`."""
    position = text.find(part)
    while position >= 0:
        yield position
        position = text.find(part, position + 1)


def lines_at(positions: Iterable[int], text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that has one of the positions, which ascend; with each line, yield where it begins."""
    end = -1
    for position in positions:
        if position > end:
            start, end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
            end = len(text) if end < 0 else end
            yield start, text[start:end]
