"""Patterns over paths, as in `Read(src/**)`, matched as a line of .gitignore is against paths in the workspace.

A leading `/` or `./` means the workspace itself. What leads out of it (`~/`, `//`, `..`), and what gitignore(5) knows
beyond `*`, `**` and `?`, is not understood.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.patterns import pattern_fault, searcher

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["path_matcher"]

_NOT_UNDERSTOOD = re.compile(r"[\\\[\]!{}\n\r\0]")

_TOKENS = re.compile(r"/\*\*/|/\*\*$|^\*\*/|\*+|\?|[^*?/]+|/")


def path_matcher(pattern: str) -> Callable[[str], bool] | None:
    """Return what tells whether a plain relative path has the pattern, None where the pattern is not understood.

    A pattern that has a folder has all that is in it.
    """
    if _NOT_UNDERSTOOD.search(pattern) or pattern.startswith(("~", "//")) or not pattern.strip("/"):
        return None
    if ".." in pattern.split("/"):
        return None
    body = pattern.removeprefix("./").strip("/")
    anchored = pattern.startswith(("/", "./")) or "/" in body
    expression = "".join(_expression(token) for token in _TOKENS.findall(body))
    whole = f"^{'' if anchored else '(?:.*/)?'}{expression}(?:/.*)?$"
    if pattern_fault(f"(?s){whole}"):
        return None
    return searcher(f"(?s){whole}")


def _expression(part: str) -> str:
    if part in {"/**/", "**/"}:
        return "/(?:.*/)?" if part.startswith("/") else "(?:.*/)?"
    if part == "/**":
        return "/.+"
    if part.startswith("*"):
        return "[^/]*"
    return "[^/]" if part == "?" else re.escape(part)
