"""What differs between two texts, word by word, and the lines of a unified diff."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Final

_WORD = re.compile(r"\s+|\w+|[^\w\s]")

MAX_COMPARED: Final = 8000
"""Characters of a description that are compared; the specification allows 1,024."""

_MIN_EQUAL: Final = 3
# Fewer words that stay between two changes make a difference hard to read.

_KINDS: Final = {"+": "added", "-": "removed"}
_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def description_diff(before: str, after: str) -> list[tuple[str, str]]:
    """Return the new text in pieces, each `kept`, `added` or `removed`."""
    if max(len(before), len(after)) > MAX_COMPARED:
        words = f"(longer than {MAX_COMPARED:,} characters, so only its beginning is shown) {after[:MAX_COMPARED]}"
        return [("kept", words)]
    old, new = _WORD.findall(before), _WORD.findall(after)
    return list(_pieces(old, new))


def _pieces(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    for is_equal, of_old, of_new in _stretches(old, new):
        removed, added = "".join(old[of_old]), "".join(new[of_new])
        if is_equal:
            yield "kept", added
            continue
        if removed:
            yield "removed", removed
        if added:
            yield "added", added


def _stretches(old: list[str], new: list[str]) -> Iterator[tuple[bool, slice, slice]]:
    """Yield what is equal and what is changed; a word or two between changes belong to one change."""
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed: tuple[int, int] | None = None
    for place, (kind, low, _, start, end) in enumerate(codes):
        inner = changed is not None and place < len(codes) - 1
        if kind != "equal" or (inner and sum(map(str.isalnum, new[start:end])) < _MIN_EQUAL):
            changed = changed or (low, start)
            continue
        if changed:
            yield False, slice(changed[0], low), slice(changed[1], start)
            changed = None
        yield True, slice(low, low + end - start), slice(start, end)
    if changed:
        yield False, slice(changed[0], len(old)), slice(changed[1], len(new))


def diff_lines(diff: str) -> list[tuple[str, str]]:
    """Return the lines of a unified diff, each `kept`, `added` or `removed`."""
    # Other ends of lines, such as U+2028, could show a line of a text as one of the diff.
    return list(_marked(diff.removesuffix("\n").split("\n"))) if diff else []


def _marked(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    old = new = 0  # lines that the hunk still has of each text
    for line in lines:
        sign = line[:1]
        # The removed line `-- x` looks like the name of a file, so what is a name depends on where it stands.
        is_name = not old and not new and line.startswith(("--- ", "+++ "))
        if old or new:
            old -= sign in {" ", "-"}
            new -= sign in {" ", "+"}
        elif found := _HUNK.match(line):
            old, new = (int(count or 1) for count in found.groups())
        yield "kept" if is_name else _KINDS.get(sign, "kept"), line
