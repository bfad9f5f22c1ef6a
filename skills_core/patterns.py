"""Regular expressions from untrusted authors, matched in linear time by RE2.

They match as in JavaScript, within the limits of RE2: a pattern with lookaround or backreferences is refused.
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
"""Maximum length of a pattern in characters."""

MAX_PATTERNS = 200
"""Maximum number of patterns of one kind in a skill."""

_MEMORY = 1 << 20
# Bytes of one compiled pattern; there may be a thousand.

_REMEMBERED = 4096

_ESCAPED_IN_JSON = re.compile(
    r"""\\\\(?P<json>[tnrfbu]?)        # an escaped backslash: what JSON writes
      | (?P<part> \\[sntrfva]         # whitespace, and control characters by letter or number
        | \\x(?:[01][0-9a-fA-F] | \{0*[01]?[0-9a-fA-F]\})
        | \[:(?:space|cntrl|blank):\]
        | [\x00-\x1f] )""",
    re.VERBOSE,
)


def pattern_fault(pattern: str) -> str | None:
    """Return why a pattern cannot be used, None if it can."""
    try:
        _compiled(pattern, across_lines=False)
    except InvalidPatternError as error:
        return str(error)
    return None


def decoding_part(pattern: str) -> str | None:
    """Return the first part of a pattern that matches tabs, line ends or control characters; None if there is none.

    JSON writes these characters as a backslash and a letter, so in JSON text such a part matches only a space, or
    nothing. A pattern that also matches the escapes of JSON is written for both.
    """
    found = list(_ESCAPED_IN_JSON.finditer(pattern))
    if any(match["json"] for match in found):
        return None
    return next((match["part"] for match in found if match["part"]), None)


def searcher(pattern: str, *, across_lines: bool = False) -> Callable[[str], bool]:
    """Return a function that tells whether a text contains a match; with `across_lines`, a dot matches line ends.

    Raises:
        InvalidPatternError: the pattern cannot be used.
    """
    # Without a dot, both compile to the same.
    compiled = _compiled(pattern, across_lines=across_lines and "." in pattern)

    def matches(text: str) -> bool:
        try:
            return compiled.search(text) is not None
        except UnicodeEncodeError:
            # Lone surrogates are rare, and many patterns are searched in each text.
            return compiled.search(without_halves(text)) is not None

    return matches


@cache
def _options(*, across_lines: bool) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - few skills have patterns; at the top, every start would pay for it

    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    options.dot_nl = across_lines
    return options


@lru_cache(_REMEMBERED)
def _compiled(pattern: str, *, across_lines: bool) -> Any:  # noqa: ANN401 - likewise
    import re2  # noqa: PLC0415 - likewise

    if len(pattern) > MAX_PATTERN:
        raise InvalidPatternError(pattern, f"it has {len(pattern)} characters; at most {MAX_PATTERN} are allowed")
    try:
        return re2.compile(pattern, _options(across_lines=across_lines))
    except UnicodeEncodeError:
        raise InvalidPatternError(pattern, "it contains a lone surrogate") from None
    except re2.error as error:
        why = error.args[0] if error.args else error
        shown = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise InvalidPatternError(pattern, shown) from None
