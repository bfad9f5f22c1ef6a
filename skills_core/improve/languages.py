"""Tell whether a changed text stays in the language of its author, by the scripts of its letters."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import cache
from typing import Final

__all__ = ["foreign_script"]

_FEW: Final = 3
# Letters of another script that may stand in a sentence, such as a unit or a symbol.

_CJK: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC"})
_MANY: Final = 40
_SHARE: Final = 0.5


def foreign_script(before: str, added: str, after: str) -> str | None:
    """Return the script that a change brings into a text or displaces; None if the text keeps its language.

    `before` and `after` are the whole texts, `added` the new lines. Words of code and names of tools are Latin in every
    language, so Latin letters count only when they displace the script that most of the text was written in.
    """
    old, new = _scripts(before), _scripts(after)
    known = {*old, "LATIN"}
    for script, count in _scripts(added).items():
        if script not in known and count > _FEW:
            return script
    for script, count in old.items():
        if script != "LATIN" and count >= _MANY and new[script] < count * _SHARE:
            return script
    return None


def _scripts(text: str) -> Counter[str]:
    counts = Counter(char for char in text if char.isalpha())
    found: Counter[str] = Counter()
    for char, count in counts.items():
        found[_script(char)] += count
    return found


@cache
def _script(char: str) -> str:
    first = unicodedata.name(char, "UNKNOWN").partition(" ")[0]
    return "CJK" if first in _CJK else "LATIN" if first in {"FULLWIDTH", "FEMININE", "MASCULINE"} else first
