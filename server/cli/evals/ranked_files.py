"""Ranks of trigger queries as results of a report, with the gates that they pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.evals.report.gates import Gate, GateOutcome
from server.evals.report.model import Query, ShownVerdict, Tone, TriggerSet, Workspace
from skills_core.evals.triggers.query_summary import Verdict

if TYPE_CHECKING:
    from server.evals.triggers.ranked_triggers import RankedTriggers
    from skills_core.evals.triggers.query_ranking import RankedQuery

__all__ = ["results_of"]

_OUTCOMES: Final = {
    Verdict.PASS: GateOutcome.PASSED,
    Verdict.FAIL: GateOutcome.FAILED,
    Verdict.NONE: GateOutcome.NO_VERDICT,
}


def results_of(found: RankedTriggers) -> tuple[Workspace, tuple[Gate, ...]]:
    """Return the ranks as a workspace with one set of queries, and the gate of the limits."""
    verdict, reasons = found.summary.verdict, "; ".join(found.summary.reasons)
    shown = ShownVerdict(Tone.NONE, "No verdict", reasons) if verdict is Verdict.NONE else None
    queries = tuple(map(_query, found.ranked))
    triggers = TriggerSet(0, "ranked", found.skill.key, queries=queries, verdict=shown, ranked=True)
    gates = () if verdict is None else (Gate("limits of the ranks", _OUTCOMES[verdict], reasons or "kept"),)
    return Workspace(found.skill.key, triggers=(triggers,)), gates


def _query(ranked: RankedQuery) -> Query:
    # A query is asked once; as it finds the skill first or not, it triggers or not.
    query, triggered = ranked.query, ranked.is_right is ranked.query.should_trigger
    seen = "not found" if ranked.rank is None else f"rank {ranked.rank}"
    if ranked.above and query.should_trigger:
        seen = f"{seen}, below {', '.join(ranked.above)}"
    return Query(
        text=query.query,
        should_trigger=query.should_trigger,
        rate=float(triggered),
        triggers=int(triggered),
        counted=1,
        passed=ranked.is_right,
        seen=seen,
    )
