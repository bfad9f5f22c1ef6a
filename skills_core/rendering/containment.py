"""What strangers wrote, made fit to stand in our text: it cannot close our tags, nor break a line or an attribute."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from skills_core.diagnostics import one_line, printable

__all__ = ["attribute", "contained", "contained_line"]

_CLOSING_TAG = re.compile(r"<(?=\s*/\s*(?i:skill_content|user_request)\b)")


def attribute(text: str) -> str:
    """Return `text` as the value of an attribute, with its quotes."""
    escaped = escape(printable(text), {'"': "&quot;", "\n": "&#10;", "\r": "&#13;"})
    return f'"{escaped}"'


def contained_line(text: str) -> str:
    """Return `text` as one line that cannot close our tags."""
    return contained(one_line(text))


def contained(text: str) -> str:
    """Return `text` verbatim, but for what would close our tags."""
    return _CLOSING_TAG.sub("&lt;", text)
