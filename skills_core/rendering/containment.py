"""What strangers wrote, made fit to stand in our text: it holds none of our tags, and breaks no line or attribute.

A host may keep or drop parts of a text by the tags in it, so none but ours may be there: a body that opens a second
`<skill_content>` would mislead it as much as one that closes the first.
"""

from __future__ import annotations

import html
import re
from typing import Final

from skills_core.diagnostics import one_line, printable

__all__ = ["TAGS", "attribute", "contained", "contained_between_marks", "contained_line", "escaped"]

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
"""The names of all elements that we write; a test holds this list against the renderers."""

# What a lenient parser, or a model, passes over within the beginning of a tag: blanks, controls, and what has no width.
_NOTHING = r"[\s\x00-\x1f\x7f-\x9f\u00ad\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*"
# A name goes on with a letter, a digit or `_`; the common words also with `-` and `.`, as in `<file-name>`.
_NAME = rf"(?:(?:{'|'.join(_OWN_WORDS)})(?!\w)|(?:{'|'.join(_COMMON_WORDS)})(?![\w.-]))"
# At the end of a text, our own words that follow may be the name.
_OUR_TAG = re.compile(rf"<(?={_NOTHING}(?:/{_NOTHING})?(?:{_NAME}|\Z))", re.IGNORECASE)

_OUR_MARK = re.compile(r"\[(?=\s*(?:/\s*)?skill\s*[:\]])", re.IGNORECASE)


def attribute(text: str) -> str:
    """Return `text` as the value of an attribute, with its quotes."""
    value = escaped(printable(text)).replace('"', "&quot;").replace("\n", "&#10;").replace("\r", "&#13;")
    return f'"{value}"'


def escaped(text: str) -> str:
    """Return `text` as the content of an element."""
    # As saxutils does, which imports an HTTP client for it.
    return html.escape(text, quote=False)


def contained_line(text: str) -> str:
    """Return `text` as one line that holds none of our tags."""
    return contained(one_line(text))


def contained(text: str) -> str:
    """Return `text` verbatim, but with `&lt;` where one of our tags would begin, opening, closing or empty."""
    return _OUR_TAG.sub("&lt;", text)


def contained_between_marks(text: str) -> str:
    r"""Return `text` contained, and with `[\` where one of the marks `[skill:…]` and `[/skill]` would begin."""
    return contained(_OUR_MARK.sub(r"[\\", text))
