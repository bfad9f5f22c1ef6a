"""Which known field a misspelt one was meant to be, where that is plain."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from skills_core.diagnostics import MAX_ALIKE
from skills_core.format.frontmatter import similar_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["meant_fields"]

_SHORT, _LONG = 5, 8
# From so many letters on one of them may be wrong, from so many two: `mode` is not `model`, nor `stage` `tags`.


def meant_fields(fields: Mapping[str, object]) -> dict[str, str]:
    """Return the misspelt fields with what was meant.

    A field counts as misspelt where exactly one known field is similar, differs by a slip of the pen, is not there
    already, and is meant by no other. Of more than 20 unknown fields none does: they mean something to somebody.
    """
    unknown = unknown_fields(fields)
    if len(unknown) > MAX_ALIKE:
        return {}
    similar = {key: similar_fields(key) for key in unknown}
    meant = {key: names[0] for key, names in similar.items() if len(names) == 1 and _is_slip(key, names[0])}
    times = Counter(meant.values())
    return {key: name for key, name in meant.items() if name not in fields and times[name] == 1}


def _is_slip(key: str, name: str) -> bool:
    """Tell whether `key` is `name` in another case, with other hyphens, letters in another order, or one or two off."""
    if key.lower().startswith(("x-", "x_")):
        return False  # somebody's own field by custom
    wrong, right = _letters(key), _letters(name)
    if wrong.removesuffix("s") == right.removesuffix("s") and wrong != right:
        return False  # one and several are two meanings
    if sorted(wrong) == sorted(right):
        return True
    allowed = (len(key) >= _SHORT) + (len(key) >= _LONG)
    steps = SequenceMatcher(None, wrong, right, autojunk=False).get_opcodes()
    changed = sum(max(end - start, to - at) for tag, start, end, at, to in steps if tag != "equal")
    return changed <= allowed


def _letters(key: str) -> str:
    return key[:100].casefold().replace("-", "").replace("_", "")
