"""What strangers wrote, made fit to stand in our text: it holds none of our tags, and breaks no line or attribute.

A host may keep or drop parts of a text by the tags in it, so none but ours may be there: a body that opens a second
`<skill_content>` would mislead it as much as one that closes the first.
"""

from __future__ import annotations

import html
import json
import re
from typing import Final

from skills_core.diagnostics import one_line, printable

__all__ = ["TAGS", "attribute", "contained", "contained_between_marks", "contained_json", "contained_line", "escaped"]

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

# Controls, and what Unicode lets programs ignore (Default_Ignorable_Code_Point): a reader, or a model, passes over it.
_UNSEEN: Final = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_NOTHING = rf"[\s{_UNSEEN}]*"


def _any_of(words: tuple[str, ...]) -> str:
    """Return a pattern of words that may hold what is not seen."""
    return "|".join(f"[{_UNSEEN}]*".join(word) for word in words)


# A name goes on with a letter, a digit or `_`; the common words also with `-` and `.`, as in `<file-name>`.
_NAME = rf"(?:(?:{_any_of(_OWN_WORDS)})(?!\w)|(?:{_any_of(_COMMON_WORDS)})(?![\w.-]))"
# At the end of a text, our own words that follow may be the name.
_OUR_TAG = re.compile(rf"<(?={_NOTHING}(?:/{_NOTHING})?(?:{_NAME}|\Z))", re.IGNORECASE)

_OUR_MARK = re.compile(rf"\[(?={_NOTHING}(?:/{_NOTHING})?(?:{_any_of(('skill',))}){_NOTHING}[:\]])", re.IGNORECASE)


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


def contained_json(value: object) -> str:
    """Return `value` as JSON in which none of our tags stands; it means the same as any other JSON of it."""
    # In JSON nothing but a string has this character.
    return _OUR_TAG.sub(r"\\u003c", json.dumps(value, ensure_ascii=False))


def contained_between_marks(text: str) -> str:
    r"""Return `text` contained, and with `[\` where one of the marks `[skill:…]` and `[/skill]` would begin."""
    return contained(_OUR_MARK.sub(r"[\\", text))
