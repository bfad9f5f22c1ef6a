"""Read `feedback.json`, a person's remarks on outputs, in the forms of the guide and of skill-creator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["carried_feedback", "feedback_from_json"]

_RUN_SUFFIX: Final = re.compile(r"[-/](?:with_skill|without_skill|old_skill)(?:[-/]run-\d+)?\Z")


def feedback_from_json(value: object) -> dict[str, str]:
    """Return the feedback by eval folder; an empty text means that the output was fine. Other values are ignored.

    Of skill-creator's reviews, those of the runs of one eval are joined.
    """
    match value:
        case {"reviews": list(reviews)}:
            return _joined(reviews)
        case {**entries}:
            return {name: text for name, text in entries.items() if isinstance(name, str) and isinstance(text, str)}
    return {}


def carried_feedback(before: Mapping[str, str]) -> dict[str, str]:
    """Return the feedback that the next iteration starts with: open complaints, until someone empties them.

    Empty entries are left out, because they would call outputs fine that no one has seen.
    """
    return {name: text for name, text in before.items() if text.strip()}


def _joined(reviews: list[Any]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for review in reviews:
        match review:
            case {"run_id": str(run_id), "feedback": str(text)}:
                found.setdefault(_RUN_SUFFIX.sub("", run_id), []).extend([text] if text.strip() else [])
    return {name: "\n".join(texts) for name, texts in found.items()}
