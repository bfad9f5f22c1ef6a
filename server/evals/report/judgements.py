"""The verdicts that the tools which ran the evals wrote down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from server.evals.report.fields import text
from server.evals.report.model import Judgement, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_judgement"]

_VERDICTS: Final = {
    "better": (Verdict.GOOD, "Better"),
    "worse": (Verdict.BAD, "Worse"),
    "no verdict": (Verdict.NONE, "No verdict"),
}


def read_judgement(values: Mapping[str, Any]) -> Judgement | None:
    """Return the verdict in an object with `verdict` and `reason`; None if it does not say both."""
    known, reason = _VERDICTS.get(text(values.get("verdict"))), text(values.get("reason"))
    return Judgement(*known, reason) if known and reason else None
