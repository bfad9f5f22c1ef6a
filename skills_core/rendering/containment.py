"""What strangers wrote, made fit to stand in our text: it cannot close our tags, nor break a line or an attribute."""

from __future__ import annotations

import html
import re

from skills_core.diagnostics import one_line, printable

__all__ = ["attribute", "contained", "contained_line", "escaped"]

_OUR_TAG = re.compile(r"<(?=\s*(?:/\s*(?i:skill_content|user_request)|(?i:skill_receipt))\b)")
# What closes one of our elements, and the receipt, which a host may look for.


def attribute(text: str) -> str:
    """Return `text` as the value of an attribute, with its quotes."""
    value = escaped(printable(text)).replace('"', "&quot;").replace("\n", "&#10;").replace("\r", "&#13;")
    return f'"{value}"'


def escaped(text: str) -> str:
    """Return `text` as the content of an element."""
    # As saxutils does, which imports an HTTP client for it.
    return html.escape(text, quote=False)


def contained_line(text: str) -> str:
    """Return `text` as one line that cannot close our tags."""
    return contained(one_line(text))


def contained(text: str) -> str:
    """Return `text` verbatim, but for what would close our tags, or pass for a receipt."""
    return _OUR_TAG.sub("&lt;", text)
