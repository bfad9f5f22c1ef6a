"""Write a unified diff that `git apply` and `patch -p1` accept, also of texts that look like a diff themselves.

A program that applies a diff counts the lines of each hunk, so a removed line `-- a/x` (`--- a/x` in the diff) is no
header. Only line feeds end a line here: a carriage return or a line separator of Unicode is part of its line.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["split_lines", "unified_diff"]

_CONTEXT = 3
_NO_NEWLINE = "\\ No newline at end of file\n"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def unified_diff(path: str, before: str | None, after: str) -> str:
    """Return the diff of one file; `before` is None for a new file. Equal texts have an empty diff.

    `path` is relative, with `/`, and consists of characters that need no quotes in a diff.
    """
    old, new = split_lines(before or ""), split_lines(after)
    if old == new:
        return ""
    source = "/dev/null" if before is None else f"a/{path}"
    return "".join([f"--- {source}\n+++ b/{path}\n", *_hunks(old, new)])


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` with their line feeds; `str.splitlines` also splits at other characters."""
    return _LINE.findall(text)


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    # Without `autojunk=False`, lines that are frequent in a long file would make the diff larger.
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, first_old, _, first_new, _), (_, _, last_old, _, last_new) = group[0], group[-1]
        yield f"@@ -{_range(first_old, last_old)} +{_range(first_new, last_new)} @@\n"
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from _marked(" ", old[old_from:old_to])
                continue
            yield from _marked("-", old[old_from:old_to])
            yield from _marked("+", new[new_from:new_to])


def _range(first: int, end: int) -> str:
    """Return the range of a hunk; an empty one names the line before it."""
    count = end - first
    start = first + 1 if count else first
    return f"{start}" if count == 1 else f"{start},{count}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}"
