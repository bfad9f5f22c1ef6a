"""Text in disguise: what a model reads out of spaced letters, markup inside words, entities, escapes and encodings.

Each reveal has the position of the disguise. Only text with the marks of a disguise is read again.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from typing import TYPE_CHECKING, NamedTuple

from skills_core.audit.search import find, plain_prose

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Reveal", "encoded_texts", "marked_up_texts", "shifted_texts", "spelled_texts"]

_MAX_ENCODED = 16 * 1024
# Characters of one encoded text that are decoded.

_MAX_PARAGRAPH = 4000
# Characters of one paragraph that are read without its markup.

_SPELLED = r"(?:^|[^\w])\w(?:[ \t\n._*~|/\-\x{a0}\x{2000}-\x{200b}\x{3000}]{1,3}\w){9,}(?:[^\w]|$)"
_NO_LETTER = re.compile(r"[\W_]+")

_IN_WORD = (
    r"&(?:#[0-9]{2,7}|#x[0-9a-f]{2,6}|nbsp|shy|zwnj|zwj|tab|newline);|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|\w</?\w{1,12}|<[/]tspan>"
    r"|\w<!--|[a-z](?:\*{1,3}|~~|`)[a-z]|[a-z]-\n[ \t]*[a-z]|[\x{ad}\x{200b}-\x{200d}\x{2060}\x{feff}]"
)
_TAG = re.compile(r"<!--.{0,400}?-->|</?[a-zA-Z][^<>\n]{0,200}>", re.DOTALL)
_MARKS = re.compile("[*~`\u00ad\u200b-\u200d\u2060\ufeff]|(?<=[a-zA-Z])-\n[ \t]*|\\\\(?=\n)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")

_BASE64 = r"[A-Za-z0-9+/_\-]{24,}={0,2}"
_HEX = r"\b(?:0x)?(?:[0-9a-f]{2}[ :]?){16,}|(?:\\x[0-9a-f]{2}){12,}|(?:%[0-9a-f]{2}){12,}"
_NO_HEX = re.compile(r"\\x|0x|[^0-9a-fA-F]")

_SHIFTED = r"^.*\b(?:vtaber|qvfertneq|sbetrg|bireevqr|frpergyl|fvyragyl|pbairefngvba|perqragvnyf)\b.*$"
_REVERSED = r"^.*\b(?:erongi|dragersid|tegrof|edirrevo|yltneliS|snoitcurtsni)\b.*$"


class Reveal(NamedTuple):
    """What a disguise at a position says, and how it is disguised."""

    start: int
    how: str
    text: str


def spelled_texts(text: str) -> Iterator[Reveal]:
    """Yield words whose letters stand apart, as lower-case letters without the space between words."""
    for found in find(_SPELLED, text):
        start = found.start + (not found.text[:1].isalnum())
        yield Reveal(start, "letters that stand apart", _NO_LETTER.sub("", found.text).lower())


def marked_up_texts(text: str) -> Iterator[Reveal]:
    """Yield the paragraphs with marks inside of words, without markup, entities, escapes and hyphens at line ends."""
    end = 0
    for found in find(_IN_WORD, text):
        if found.start < end:
            continue
        start = max(
            text.rfind("\n\n", 0, found.start) + 2 if "\n\n" in text[: end + 1] else end, end, found.start - 400
        )
        stop = text.find("\n\n", found.end)
        end = min(stop if stop >= 0 else len(text), found.end + _MAX_PARAGRAPH)
        yield Reveal(found.start, "markup or escapes inside words", _without_marks(text[start:end]))


def _without_marks(text: str) -> str:
    text = _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text)
    text = html.unescape(_TAG.sub("", text))
    return plain_prose(_MARKS.sub("", text)).replace("\u00a0", " ")


def encoded_texts(text: str) -> Iterator[Reveal]:
    """Yield what base64 and hexadecimal numbers in a text say, where that is readable."""
    for found in find(_BASE64, text):
        word = found.text[:_MAX_ENCODED].rstrip("=").replace("-", "+").replace("_", "/")
        word = word[: len(word) - (len(word) % 4 == 1)]
        try:
            raw = base64.b64decode(word + "=" * (-len(word) % 4))
        except (binascii.Error, ValueError):
            continue
        yield from _readable(found.start, "base64", raw)
    for found in find(_HEX, text):
        digits = _NO_HEX.sub("", found.text[:_MAX_ENCODED])
        yield from _readable(found.start, "hexadecimal numbers", bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _readable(start: int, how: str, raw: bytes) -> Iterator[Reveal]:
    try:
        decoded = raw.decode("utf-8")
    except UnicodeDecodeError:
        return
    if "\0" not in decoded:
        yield Reveal(start, how, plain_prose(decoded))


def shifted_texts(text: str) -> Iterator[Reveal]:
    """Yield the lines that hold a telling word in ROT13 or backwards, as they read."""
    for found in find(_SHIFTED, text):
        yield Reveal(found.start, "ROT13", codecs.decode(found.text, "rot13"))
    for found in find(_REVERSED, text):
        yield Reveal(found.start, "reversed letters", found.text[::-1])
