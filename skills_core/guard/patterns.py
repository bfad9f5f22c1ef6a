"""Patterns that strangers wrote, by an engine that needs linear time for any of them (RE2).

They are matched as JavaScript's would be, as far as RE2 goes: what it lacks (lookaround, backreferences) makes a
pattern unusable, which is said instead of guessed at.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import without_halves
from skills_core.errors import InvalidPatternError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_PATTERN", "MAX_PATTERNS", "pattern_fault", "searcher"]

MAX_PATTERN = 2000
"""Longest pattern in characters."""

MAX_PATTERNS = 200
"""Most patterns of one kind that a skill may have."""

_MEMORY = 1 << 20
# Bytes of one compiled pattern: a thousand of them must not be a burden.

_REMEMBERED = 4096


def pattern_fault(pattern: str) -> str | None:
    """Return that a pattern cannot be used, and why; None where it can."""
    try:
        _compiled(pattern)
    except InvalidPatternError as error:
        return str(error)
    return None


def searcher(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a text has a match of the pattern anywhere.

    Raises:
        InvalidPatternError: the pattern cannot be used.
    """
    compiled = _compiled(pattern)

    def matches(text: str) -> bool:
        try:
            return compiled.search(text) is not None
        except UnicodeEncodeError:
            # Few texts hold half of a character, and many patterns are looked for in each.
            return compiled.search(without_halves(text)) is not None

    return matches


@cache
def _options() -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - few skills have patterns, and each start would pay for it

    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    return options


@lru_cache(_REMEMBERED)
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - likewise
    import re2  # noqa: PLC0415 - likewise

    if len(pattern) > MAX_PATTERN:
        raise InvalidPatternError(pattern, f"it has {len(pattern)} characters; at most {MAX_PATTERN}")
    try:
        return re2.compile(pattern, _options())
    except UnicodeEncodeError:
        raise InvalidPatternError(pattern, "it holds half of a character") from None
    except re2.error as error:
        why = error.args[0] if error.args else error
        shown = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise InvalidPatternError(pattern, shown) from None
