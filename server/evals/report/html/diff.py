"""The difference of two descriptions, word by word."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from server.evals.report.html.markup import Html, join, tag

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["description_diff"]

_WORD = re.compile(r"\s+|\w+|[^\w\s]")

MAX_COMPARED: Final = 8000
"""Characters of a description that are compared; the specification allows 1,024."""


def description_diff(before: str, after: str) -> Html:
    """Return the new text with what was added and removed, in words for screen readers too."""
    if max(len(before), len(after)) > MAX_COMPARED:
        words = f"(longer than {MAX_COMPARED:,} characters, so only its beginning is shown) {after[:MAX_COMPARED]}"
        return tag("p", words, class_="diff", dir="auto")
    old, new = _WORD.findall(before), _WORD.findall(after)
    return tag("p", *_pieces(old, new), class_="diff", dir="auto")


def _pieces(old: list[str], new: list[str]) -> Iterator[Html]:
    for kind, low, high, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        removed, added = "".join(old[low:high]), "".join(new[start:end])
        if kind == "equal":
            yield join(added)
            continue
        if removed:
            yield tag("del", _spoken("[removed: "), removed, _spoken("]"))
        if added:
            yield tag("ins", _spoken("[added: "), added, _spoken("]"))


def _spoken(words: str) -> Html:
    return tag("span", words, class_="hidden")
