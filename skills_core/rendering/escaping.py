"""Escape foreign text for ours: it can neither contain one of our tags nor end a line, an element or an attribute.

A host may keep or drop parts of a text by its tags, so only our own may be there: a body that opens a second
`<skill_content>` would mislead the host as much as one that closes the first.
"""

from __future__ import annotations

import html
import json
import re
from functools import cache
from typing import Final

from skills_core.diagnostics import one_line, printable

__all__ = [
    "TAGS",
    "escape_content",
    "escape_json",
    "escape_line",
    "escape_tags",
    "escape_tags_and_marks",
    "quote_attribute",
]

_OWN_WORDS: Final = (
    "available_skills",
    "skill_content",
    "skill_paths",
    "skill_receipt",
    "skill_resources",
    "tool_names",
    "user_request",
)
_COMMON_WORDS: Final = ("file", "path", "skill", "skills")

TAGS: Final = frozenset({*_OWN_WORDS, *_COMMON_WORDS})
"""The names of all elements that we write; a test compares this set with the renderers."""

# Control characters and Unicode's Default_Ignorable_Code_Point, which a reader or a model may skip.
_INVISIBLE: Final = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_IGNORABLE = rf"[\s{_INVISIBLE}]*"


def _any_of(words: tuple[str, ...]) -> str:
    """Return a pattern for any of the words, with invisible characters allowed between their letters."""
    return "|".join(f"[{_INVISIBLE}]*".join(word) for word in words)


def _not_before(characters: str) -> str:
    """Return a pattern that fails if the next character is one of these and visible; some invisible ones are letters.

    After an invisible character the name is ours too: one reader skips it, another takes it for the end of the name.
    """
    return rf"(?!(?![{_INVISIBLE}])[{characters}])"


# A longer name is not ours: one that continues with a letter, a digit or `_`, and after a common word `-` or `.`.
_OWN_NAME = rf"(?:{_any_of(_OWN_WORDS)})" + _not_before(r"\w")
_COMMON_NAME = rf"(?:{_any_of(_COMMON_WORDS)})" + _not_before(r"\w.-")
_NAME = rf"(?:{_OWN_NAME}|{_COMMON_NAME})"

# The patterns are compiled when a text needs them: that takes a tenth of a server's time to its first answer.


@cache
def _our_tag() -> re.Pattern[str]:
    # A `<` at the end of a text counts too, because our own text that follows may complete the tag.
    return re.compile(rf"<(?={_IGNORABLE}(?:/{_IGNORABLE})?(?:{_NAME}|\Z))", re.IGNORECASE)


@cache
def _our_mark() -> re.Pattern[str]:
    return re.compile(rf"\[(?={_IGNORABLE}(?:/{_IGNORABLE})?(?:{_any_of(('skill',))}){_IGNORABLE}[:\]])", re.IGNORECASE)


def quote_attribute(text: str) -> str:
    """Return `text` as an attribute's value, with its quotes."""
    value = escape_content(printable(text)).replace('"', "&quot;").replace("\n", "&#10;").replace("\r", "&#13;")
    return f'"{value}"'


def escape_content(text: str) -> str:
    """Return `text` as an element's content."""
    # The same as `xml.sax.saxutils.escape`, which would import an HTTP client.
    return html.escape(text, quote=False)


def escape_line(text: str) -> str:
    """Return `text` on one line, with our tags escaped."""
    return escape_tags(one_line(text))


def escape_tags(text: str) -> str:
    """Return `text` with `&lt;` in place of the `<` of each of our tags, opening, closing or empty; else verbatim."""
    return _our_tag().sub("&lt;", text) if "<" in text else text


def escape_json(value: object) -> str:
    r"""Return `value` as JSON, with the `<` of our tags written as the equivalent `\u003c`."""
    # In JSON, `<` only occurs inside strings.
    text = json.dumps(value, ensure_ascii=False)
    return _our_tag().sub(r"\\u003c", text) if "<" in text else text


def escape_tags_and_marks(text: str) -> str:
    r"""Return `text` with our tags escaped, and `[\` in place of the `[` of each mark `[skill:…]` or `[/skill]`."""
    return escape_tags(_our_mark().sub(r"[\\", text) if "[" in text else text)
