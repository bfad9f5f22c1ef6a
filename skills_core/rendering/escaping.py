"""Escape foreign text for ours: it can neither open nor close one of our elements, nor end a line or an attribute.

A host may keep or drop parts of a text by its tags, so only our own may be there: a body that opens a second
`<skill_content>` would mislead the host as much as one that closes the first.

Bodies, values and messages reach the model as written, so only names that nobody else uses are escaped in them. Skills
often write `<file>` or `<path/to/skill>` as placeholders. Our elements with such common names stand within elements
with unmistakable ones, and hold fully escaped text; so a body cannot open or close them where they count.
"""

from __future__ import annotations

import html
import json
import re
from functools import cache
from typing import Final

from skills_core.diagnostics import one_line, printable

_UNMISTAKABLE: Final = (
    "available_skills",
    "skill_content",
    "skill_paths",
    "skill_resources",
    "user_request",
)
_SECTION: Final = ("skills",)
_COMMON: Final = ("file", "path", "skill", "tool_names")

OWN_TAGS: Final = frozenset(_UNMISTAKABLE)
"""The names of our elements that no other text uses. They are escaped in every foreign text."""

SECTION_TAGS: Final = OWN_TAGS | frozenset(_SECTION)
"""The names that are escaped in what is added to a message, where a section `<skills>` encloses bodies."""

TAGS: Final = SECTION_TAGS | frozenset(_COMMON)
"""The names of all elements that we write; they are escaped in names. A test compares this set with the code."""

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


# The patterns are compiled when a text needs them: that takes a tenth of a server's time to its first answer.


@cache
def _tag(common: tuple[str, ...] = ()) -> re.Pattern[str]:
    """Return a pattern for the `<` of tags with an unmistakable name, or with one of the `common` names."""
    # A longer name is not ours: one that continues with a letter, a digit or `_`, and after a common word `-` or `.`.
    names = [rf"(?:{_any_of(_UNMISTAKABLE)})" + _not_before(r"\w")]
    if common:
        names.append(rf"(?:{_any_of(common)})" + _not_before(r"\w.-"))
    # A `<` at the end of a text counts too, because our own text that follows may complete the tag.
    return re.compile(rf"<(?={_IGNORABLE}(?:/{_IGNORABLE})?(?:{'|'.join(names)}|\Z))", re.IGNORECASE)


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
    """Return a name or another short text on one line, with all of our tags escaped, `<skill>` and `<file>` included.

    Readers of our lists find the entries by such tags.
    """
    return _escaped(one_line(text), _SECTION + _COMMON)


def escape_tags(text: str) -> str:
    """Return `text` with `&lt;` in place of the `<` of each tag with an unmistakable name of ours; else verbatim.

    The tags may be opening, closing or empty.
    """
    return _escaped(text)


def escape_json(value: object) -> str:
    r"""Return `value` as JSON, with the `<` of tags with unmistakable names written as the equivalent `\u003c`."""
    # In JSON, `<` only occurs inside strings.
    return _escaped(json.dumps(value, ensure_ascii=False), as_written=r"\\u003c")


def escape_tags_and_marks(text: str) -> str:
    r"""Return `text` for what is added to a message: it has no tag and no mark that encloses such texts.

    The tags are those of `escape_tags` and `<skills>`. Marks are `[skill:…]` and `[/skill]`; their `[` becomes `[\`.
    """
    return _escaped(_our_mark().sub(r"[\\", text) if "[" in text else text, _SECTION)


def _escaped(text: str, common: tuple[str, ...] = (), as_written: str = "&lt;") -> str:
    return _tag(common).sub(as_written, text) if "<" in text else text
