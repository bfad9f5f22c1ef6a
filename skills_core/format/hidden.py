"""Find characters that people do not see but models read, in which instructions can hide from a review.

These are direction marks, zero-width characters, tag characters (which can encode whole sentences), repeated variation
selectors, and control characters. Characters that languages and emoji need are allowed: joiners between non-ASCII
letters, one variation selector after a character, and the tags of flags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HiddenCharacters", "find_hidden", "with_hidden_shown", "without_hidden"]

_CONTROLS = bytes([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])

_FLAG = r"\U0001F3F4"
_DIRECTION = r"\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069"
_WIDTH = r"\u00AD\u115F\u1160\u180E\u200B\u2060-\u2064\u3164\uFEFF\uFFA0"
_JOINER = r"\u200C\u200D"
_TAG = r"\U000E0000-\U000E007F"
_RARE = r"\U000E0100-\U000E01EF"
_SELECTOR = r"\uFE00-\uFE0F"
_CONTROL = r"\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x84\x86-\x9F\u2028\u2029"

_SUSPECT = re.compile(f"[{_FLAG}{_DIRECTION}{_WIDTH}{_JOINER}{_TAG}{_RARE}{_SELECTOR}{_CONTROL}]")
# Searching one class is much faster than alternatives, and most files have no match.

_HIDDEN = re.compile(
    rf"""{_FLAG}[\U000E0020-\U000E007E]+\U000E007F       # the flag of a region, which needs tags
      | (?P<direction>[{_DIRECTION}])
      | (?P<width>[{_WIDTH}] | (?<![^\x00-\x7F])[{_JOINER}] | [{_JOINER}](?![^\x00-\x7F]))
      | (?P<tag>[{_TAG}])
      | (?P<variant>[{_RARE}] | (?<=[{_SELECTOR}])[{_SELECTOR}])
      | (?P<control>[{_CONTROL}])""",
    re.VERBOSE,
)

_KINDS = {
    "direction": "text direction marks",
    "width": "zero-width characters",
    "tag": "tag characters",
    "variant": "variation selectors",
    "control": "control characters",
}


@dataclass(frozen=True, slots=True)
class HiddenCharacters:
    """The hidden characters of one kind in a text: their number, the first one, and its line, from 1."""

    kind: str
    count: int
    first: str
    line: int

    def __str__(self) -> str:
        """Format the kind, the number and the first code point."""
        return f"{self.kind} ({self.count}, the first is U+{ord(self.first):04X})"


def find_hidden(text: str) -> tuple[HiddenCharacters, ...]:
    """Return the hidden characters in `text`, one entry for each kind, in order of appearance."""
    if text.isascii() and not _has_controls(text):
        return ()
    found: dict[str, list[re.Match[str]]] = {}
    for match in _matches(text):
        found.setdefault(match.lastgroup or "", []).append(match)
    return tuple(
        HiddenCharacters(_KINDS[kind], len(matches), matches[0][0], text.count("\n", 0, matches[0].start()) + 1)
        for kind, matches in found.items()
    )


def without_hidden(text: str) -> str:
    """Return `text` without its hidden characters; others may count as hidden in the result."""
    return _HIDDEN.sub(lambda match: match[0] if match.lastgroup is None else "", text)


def with_hidden_shown(text: str) -> str:
    """Return `text` with the code point of each hidden character in its place, as in `[U+202E]`."""
    if _SUSPECT.search(text) is None:
        return text
    return _HIDDEN.sub(lambda match: match[0] if match.lastgroup is None else f"[U+{ord(match[0]):04X}]", text)


def _matches(text: str) -> Iterator[re.Match[str]]:
    suspect = _SUSPECT.search(text)
    while suspect is not None:
        match = _HIDDEN.match(text, suspect.start())
        if match is not None and match.lastgroup is not None:
            yield match
        suspect = _SUSPECT.search(text, (match or suspect).end())


def _has_controls(text: str) -> bool:
    # Several times as fast as a search, and called for nearly every file.
    return len(text.encode("ascii").translate(None, _CONTROLS)) != len(text)
