"""Path patterns, as in `Read(src/**)`, matched against paths in the workspace like a line of .gitignore.

A leading `/` or `./` means the workspace itself. Patterns that lead out of it (`~/`, `//`, `..`) and syntax of
gitignore(5) beyond `*`, `**` and `?` are not understood.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.patterns import compile_matcher, pattern_fault

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["path_matcher"]

_NOT_UNDERSTOOD = re.compile(r"[\\\[\]!{}\n\r\0]")

_TOKENS = re.compile(r"/\*\*/|/\*\*$|^\*\*/|\*+|\?|[^*?/]+|/")


def path_matcher(pattern: str) -> Callable[[str], bool] | None:
    """Return a function that tells whether a relative path matches the pattern, None if it is not understood.

    A pattern that matches a folder matches everything in it.
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
    return compile_matcher(f"(?s){whole}")


def _expression(part: str) -> str:
    if part in {"/**/", "**/"}:
        return "/(?:.*/)?" if part.startswith("/") else "(?:.*/)?"
    if part == "/**":
        return "/.+"
    if part.startswith("*"):
        return "[^/]*"
    return "[^/]" if part == "?" else re.escape(part)
