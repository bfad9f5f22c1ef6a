"""Command patterns, as in `Bash(git log *)`, matched word by word against a list of arguments.

No shell reads the command, so the program gets each word as it is. Rules: `*` as the last word, or `:*` after it,
matches any number of further words; `*` as another word matches one or more words; `*` within a word matches any
characters of that word, and at the very end further words as well.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from skills_core.patterns import compile_matcher, pattern_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OPERATORS", "command_matcher"]

OPERATORS = frozenset({"&&", "||", ";", "|", "|&", "&", ">", ">>", "<", "<<", "2>", "2>>", "&>", "2>&1"})
"""Words with a meaning only for a shell; a command that contains one was written for a shell."""

_FOR_SHELLS = re.compile(r"[;&|<>$`\n\r\0]")

_END = "\0"
# Terminates each word: no argument of a program can contain it.


def command_matcher(pattern: str) -> Callable[[Sequence[str]], bool] | None:
    """Return a function that tells whether a command matches the pattern, None if the pattern is not understood."""
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
    matches = compile_matcher(expression)

    def has_pattern(command: Sequence[str]) -> bool:
        if not command or not OPERATORS.isdisjoint(command) or any(_END in word for word in command):
            return False
        return matches("".join(word + _END for word in command))

    return has_pattern


_X = r"\x00"
_REST = f"(?:[^{_X}]*{_X})*"


def _expression(word: str) -> str:
    """Return the expression for one word of a pattern, with its terminator."""
    if word == "*":
        return f"(?:[^{_X}]*{_X})+"
    return f"[^{_X}]*".join(map(re.escape, word.split("*"))) + _X
