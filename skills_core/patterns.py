"""Patterns that strangers wrote, by an engine that needs linear time for any of them (RE2).

They are matched as JavaScript's would be, as far as RE2 goes: what it lacks (lookaround, backreferences) makes a
pattern unusable, which is said instead of guessed at.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import without_halves
from skills_core.errors import InvalidPatternError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_PATTERN", "MAX_PATTERNS", "decoding_part", "pattern_fault", "searcher"]

MAX_PATTERN = 2000
"""Longest pattern in characters."""

MAX_PATTERNS = 200
"""Most patterns of one kind that a skill may have."""

_MEMORY = 1 << 20
# Bytes of one compiled pattern: a thousand of them must not be a burden.

_REMEMBERED = 4096

_ESCAPED_IN_JSON = re.compile(
    r"""\\\\(?P<json>[tnrfbu]?)        # one backslash that is meant: what JSON writes
      | (?P<part> \\[sntrfva]         # the class of blanks, and controls by their letters or numbers
        | \\x(?:[01][0-9a-fA-F] | \{0*[01]?[0-9a-fA-F]\})
        | \[:(?:space|cntrl|blank):\]
        | [\x00-\x1f] )""",
    re.VERBOSE,
)


def pattern_fault(pattern: str) -> str | None:
    """Return that a pattern cannot be used, and why; None where it can."""
    try:
        _compiled(pattern, across_lines=False)
    except InvalidPatternError as error:
        return str(error)
    return None


def decoding_part(pattern: str) -> str | None:
    """Return the first part of a pattern that is meant for tabs, line ends or controls; None where there is none.

    JSON writes these as a backslash and a letter, so that such a part matches a space there, or nothing at all. A
    pattern that has what JSON writes as well is meant for both.
    """
    found = list(_ESCAPED_IN_JSON.finditer(pattern))
    if any(match["json"] for match in found):
        return None
    return next((match["part"] for match in found if match["part"]), None)


def searcher(pattern: str, *, across_lines: bool = False) -> Callable[[str], bool]:
    """Return what tells whether a text has a match of the pattern anywhere; `across_lines`, a dot is a line end too.

    Raises:
        InvalidPatternError: the pattern cannot be used.
    """
    # Most have no dot: one compiled pattern does for both.
    compiled = _compiled(pattern, across_lines=across_lines and "." in pattern)

    def matches(text: str) -> bool:
        try:
            return compiled.search(text) is not None
        except UnicodeEncodeError:
            # Few texts hold half of a character, and many patterns are looked for in each.
            return compiled.search(without_halves(text)) is not None

    return matches


@cache
def _options(*, across_lines: bool) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - few skills have patterns, and each start would pay for it

    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    options.dot_nl = across_lines
    return options


@lru_cache(_REMEMBERED)
def _compiled(pattern: str, *, across_lines: bool) -> Any:  # noqa: ANN401 - likewise
    import re2  # noqa: PLC0415 - likewise

    if len(pattern) > MAX_PATTERN:
        raise InvalidPatternError(pattern, f"it has {len(pattern)} characters; at most {MAX_PATTERN}")
    try:
        return re2.compile(pattern, _options(across_lines=across_lines))
    except UnicodeEncodeError:
        raise InvalidPatternError(pattern, "it holds half of a character") from None
    except re2.error as error:
        why = error.args[0] if error.args else error
        shown = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise InvalidPatternError(pattern, shown) from None
