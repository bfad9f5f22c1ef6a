"""Find conditions under keys that skillserve does not read, so that a slip in a key leaves no condition out.

A key means a known one if both have the same letters and digits, whatever the case, spaces, signs and hidden
characters; of a key such as `when.os` or `when:{os`, the part before the sign counts as well.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skills_core.format.document import Document
    from skills_core.format.yaml12 import JsonValue

__all__ = ["lost_conditions", "meant_by", "stray_conditions", "stray_settings"]

_MERGE_KEY: Final = "<<"
# The key with which YAML 1.1 merges mappings; in YAML 1.2 it is a key like others.

_MAX_KEY: Final = 64
# Characters of a key that are compared; longer keys mean nothing else.

_SIGN: Final = re.compile(r"[.:={\[<>|#!?@&*%/\\]")
# Not a space or a hyphen: `when-to-use` is another field.

_LOST: Final = {
    "when": re.compile(r"^\W*when\s*(?:[^\w\s,.;)-]|$)(?=[\s\S]*\b(?:os|requires)\b)", re.MULTILINE | re.IGNORECASE),
    "requires": re.compile(r"^requires\s*[:={\[]", re.MULTILINE),
    "metadata": re.compile(r"^\W*metadata\b(?=[\s\S]*\b(?:os|requires)\b)", re.MULTILINE | re.IGNORECASE),
}
# Lines that begin with a field of conditions; prose may begin with the same words.

_FIELDS: Final = ("when", "requires")
_PARTS: Final = ("os", "requires", "bins", "anyBins", "env", "config")

_SIMILAR_TO_WHEN: Final = 0.6
_SIMILAR_TO_A_PART: Final = 0.75
# The ratios from which on a key counts as misspelt; `when` must also hold the parts of one.


def meant_by(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that an unknown one means, None if it means none."""
    if len(key) > _MAX_KEY:
        return None
    written = {_folded(key), _folded(_SIGN.split(key.strip(), maxsplit=1)[0])}
    return next((name for name in known if _folded(name) in written), None)


def lost_conditions(document: Document, field: str) -> str | None:
    """Return how a field of conditions lost a part of its text, None if it did not."""
    if field in document.lossy:
        return f"{field}: {document.lossy[field]}"
    if document.broken and field not in document.fields and _LOST[field].search(document.broken):
        return f"{field}: the text is not valid YAML"
    return None


def stray_conditions(fields: Mapping[str, JsonValue], unknown: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each unknown top-level field that states conditions, with the known field that it means."""
    for key in unknown:
        value = fields[key]
        if value in (None, "", [], {}):
            continue
        if key == _MERGE_KEY:
            merged = value if isinstance(value, list) else [value]
            names = (name for each in merged if isinstance(each, dict) for name in each)
            meant = next((name for name in names if name in {*_FIELDS, "metadata"}), None)
        else:
            meant = meant_by(key, _FIELDS) or ("when" if _resembles_when(key, value) else None)
        if meant is not None:
            yield key, meant


def stray_settings(keys: Iterable[str], *, strict: bool) -> dict[str, str]:
    """Return the unknown keys in the settings of a host that state conditions, with the known keys that they mean.

    With `strict`, misspelt and misplaced conditions count too; else, the host may know such a key.
    """
    found: dict[str, str] = {}
    for key in keys:
        meant = "requires" if key == _MERGE_KEY else meant_by(key, ("os", "requires"))
        if strict and meant is None:
            meant = "requires" if meant_by(key, (*_PARTS, "when")) else _similar_part(key)
        if meant is not None:
            found[key] = meant
    return found


def _similar_part(key: str) -> str | None:
    import difflib  # noqa: PLC0415 - few keys are unknown; at the top, every start would pay for it

    written = _folded(key[:_MAX_KEY])
    if written.startswith("requir"):
        return "requires"
    return next(iter(difflib.get_close_matches(written, ("os", "requires"), 1, _SIMILAR_TO_A_PART)), None)


def _resembles_when(key: str, value: JsonValue) -> bool:
    """Tell whether a misspelt `when` holds the parts of one."""
    if not isinstance(value, dict) or len(key) > _MAX_KEY or not any(meant_by(part, _PARTS) for part in value):
        return False
    import difflib  # noqa: PLC0415 - few fields are misspelt; at the top, every start would pay for it

    return difflib.SequenceMatcher(None, _folded(key), "when").ratio() >= _SIMILAR_TO_WHEN


@lru_cache(1024)
def _folded(key: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", key).casefold() if char.isalnum())
