"""Find misspelt fields whose intended field is certain."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from skills_core.diagnostics import MAX_PER_REASON
from skills_core.format.frontmatter import similar_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["misspelt_fields"]

_SHORT, _LONG = 5, 8
# From these lengths on, one or two letters may be wrong: `mode` is no typo of `model`, nor `stage` of `tags`.


def misspelt_fields(fields: Mapping[str, object]) -> dict[str, str]:
    """Return the intended field for each misspelt one.

    A field is misspelt if exactly one known field is similar, differs only by a typo, is not present, and is not the
    intended field of another. With more than 20 unknown fields none is misspelt: they belong to some other format.
    """
    unknown = unknown_fields(fields)
    if len(unknown) > MAX_PER_REASON:
        return {}
    similar = {key: similar_fields(key) for key in unknown}
    meant = {key: names[0] for key, names in similar.items() if len(names) == 1 and _is_typo(key, names[0])}
    times = Counter(meant.values())
    return {key: name for key, name in meant.items() if name not in fields and times[name] == 1}


def _is_typo(key: str, name: str) -> bool:
    """Tell whether `key` is `name` with other case, hyphens or letter order, or with one or two wrong letters."""
    if key.lower().startswith(("x-", "x_")):
        return False  # a custom field by convention
    wrong, right = _normalized(key), _normalized(name)
    if wrong.removesuffix("s") == right.removesuffix("s") and wrong != right:
        return False  # singular and plural differ in meaning
    if sorted(wrong) == sorted(right):
        return True
    allowed = (len(key) >= _SHORT) + (len(key) >= _LONG)
    steps = SequenceMatcher(None, wrong, right, autojunk=False).get_opcodes()
    changed = sum(max(end - start, to - at) for tag, start, end, at, to in steps if tag != "equal")
    return changed <= allowed


def _normalized(key: str) -> str:
    return key[:100].casefold().replace("-", "").replace("_", "")
