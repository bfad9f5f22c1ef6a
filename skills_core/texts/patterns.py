"""Compile untrusted patterns with RE2, which matches any of them in linear time.

They match as in JavaScript, as far as RE2 supports it: a pattern that needs lookaround or backreferences is reported as
invalid rather than approximated.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import without_lone_surrogates
from skills_core.errors import InvalidPatternError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_PATTERN", "MAX_PATTERNS", "compile_matcher", "decoded_part", "pattern_fault"]

MAX_PATTERN = 2000
"""Maximum length of a pattern in characters."""

MAX_PATTERNS = 200
"""Maximum number of patterns of one kind in a skill."""

_MAX_MEMORY = 1 << 20
# Bytes for one compiled pattern; small enough for a thousand patterns.

_CACHE_SIZE = 4096

_ESCAPED_IN_JSON = re.compile(
    r"""\\\\(?P<json>[tnrfbu]?)        # an escaped backslash, with the letter of a JSON escape: `\\t`
      | (?P<part> \\[sntrfva]         # a class or control by its letter: `\s`, `\t`
        | \\x(?:[01][0-9a-fA-F] | \{0*[01]?[0-9a-fA-F]\})  # a control by its number: `\x09`, `\x{9}`
        | \[:(?:space|cntrl|blank):\]  # a named class
        | [\x00-\x1f] )               # a literal control""",
    re.VERBOSE,
)


def pattern_fault(pattern: str) -> str | None:
    """Return why a pattern is invalid; None if it is valid."""
    try:
        _compiled(pattern, across_lines=False)
    except InvalidPatternError as error:
        return str(error)
    return None


def decoded_part(pattern: str) -> str | None:
    r"""Return the first part of a pattern that matches tabs, line ends or other controls; None if there is none.

    JSON writes these characters as escapes such as `\t`, which such a part does not match. A pattern that also contains
    an escape of JSON covers both forms, so the result is None.
    """
    found = list(_ESCAPED_IN_JSON.finditer(pattern))
    if any(match["json"] for match in found):
        return None
    return next((match["part"] for match in found if match["part"]), None)


def compile_matcher(pattern: str, *, across_lines: bool = False) -> Callable[[str], bool]:
    """Return a function that tells whether the pattern matches anywhere in a text.

    With `across_lines`, a dot also matches a line end.

    Raises:
        InvalidPatternError: the pattern is invalid.
    """
    # Most patterns have no dot and so share one compiled form.
    compiled = _compiled(pattern, across_lines=across_lines and "." in pattern)

    def matches(text: str) -> bool:
        try:
            return compiled.search(text) is not None
        except UnicodeEncodeError:
            # Rare: the text has a lone surrogate. Checking every text beforehand would cost every pattern.
            return compiled.search(without_lone_surrogates(text)) is not None

    return matches


@cache
def _options(*, across_lines: bool) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - few skills have patterns, and every start would pay for it

    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.dot_nl = across_lines
    return options


@lru_cache(_CACHE_SIZE)
def _compiled(pattern: str, *, across_lines: bool) -> Any:  # noqa: ANN401 - likewise
    import re2  # noqa: PLC0415 - few skills have patterns, and every start would pay for it

    if len(pattern) > MAX_PATTERN:
        raise InvalidPatternError(pattern, f"it has {len(pattern)} characters; at most {MAX_PATTERN}")
    try:
        return re2.compile(pattern, _options(across_lines=across_lines))
    except UnicodeEncodeError:
        raise InvalidPatternError(pattern, "it has a lone surrogate, half of a character") from None
    except re2.error as error:
        why = error.args[0] if error.args else error
        shown = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise InvalidPatternError(pattern, shown) from None
