"""Patterns over commands, as in `Bash(git log *)`, matched word by word against a list of arguments.

No shell is between a pattern and what is started, so a word is what the program gets, whatever it looks like. Rules:
the last word `*`, or `:*` behind it, stands for any further words or none; `*` alone elsewhere for one word or more;
`*` within a word for any characters of that one word, and at the very end for further words as well.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from skills_core.patterns import pattern_fault, searcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OPERATORS", "command_matcher"]

OPERATORS = frozenset({"&&", "||", ";", "|", "|&", "&", ">", ">>", "<", "<<", "2>", "2>>", "&>", "2>&1"})
"""Words that mean something to a shell, and that no program is given on purpose."""

_FOR_SHELLS = re.compile(r"[;&|<>$`\n\r\0]")

_END = "\0"
# Stands behind each word: no argument of a program can hold it.


def command_matcher(pattern: str) -> Callable[[Sequence[str]], bool] | None:
    """Return what tells whether a command has the pattern, None where the pattern is not understood."""
    if _FOR_SHELLS.search(pattern):
        return None
    prefix = pattern.removesuffix(":*")
    try:
        words = shlex.split(prefix)
    except ValueError:
        return None
    if not words or ":*" in prefix:
        return None
    if prefix != pattern:
        words.append("*")
    *first, last = words
    expression = "^" + "".join(_expression(word) for word in first)
    expression += (
        f"(?:[^{_X}]*{_X})*$" if last == "*" else _expression(last) + (_REST if last.endswith("*") else "") + "$"
    )
    if pattern_fault(expression):
        return None
    matches = searcher(expression)

    def has_pattern(command: Sequence[str]) -> bool:
        if not command or not OPERATORS.isdisjoint(command) or any(_END in word for word in command):
            return False
        return matches("".join(word + _END for word in command))

    return has_pattern


_X = r"\x00"
_REST = f"(?:[^{_X}]*{_X})*"


def _expression(word: str) -> str:
    """Return the expression for one word of a pattern, with the mark of its end."""
    if word == "*":
        return f"(?:[^{_X}]*{_X})+"
    return f"[^{_X}]*".join(map(re.escape, word.split("*"))) + _X
