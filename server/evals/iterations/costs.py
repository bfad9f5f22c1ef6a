"""Tell the cost of an eval before it is spent: runs, and tokens and money where earlier runs or prices are known."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import counted
from skills_core.evals.grading.results import EvalStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skills_core.evals.grading.results import Arm, EvalRun, RunKey
    from skills_core.run.ports import JsonObject

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an eval is expected to take; None is unknown. `basis` is the number of earlier runs it rests on.

    `checks` are the assertions whose commands are run.
    """

    runs: int
    checks: int
    judge_requests: int
    compare_requests: int
    tokens: int | None
    cost_usd: float | None
    seconds: float | None
    basis: int

    def to_json(self) -> JsonObject:
        """Return the fields of the plan."""
        return {
            "judge_requests": self.judge_requests,
            "compare_requests": self.compare_requests,
            "expected_tokens": self.tokens,
            "expected_cost_usd": self.cost_usd,
            "expected_seconds": self.seconds,
            "based_on_runs": self.basis,
        }

    def line(self) -> str:
        """Return the estimate for people."""
        requests = [f"{counted(self.judge_requests, 'request')} to the judge"] if self.judge_requests else []
        requests += [f"{self.compare_requests} to compare outputs"] if self.compare_requests else []
        parts = [counted(self.runs, "run") if self.runs else "no run: the outputs that exist are used", *requests]
        if self.runs and self.tokens is not None:
            money = "" if self.cost_usd is None else f" (${self.cost_usd:.2f})"
            earlier = counted(self.basis, "earlier run")
            parts.append(f"about {counted(self.tokens, 'token')}{money}, as in {earlier}, without the judge's")
        elif self.runs:
            parts.append("tokens and money unknown: no earlier run here has recorded them")
        if self.checks:
            parts.append(f"{self.checks} assertions run commands of evals.json on this machine")
        return ", ".join(parts)


def estimate(
    pending: Sequence[RunKey], earlier: Iterable[EvalRun], judged: int, compared: int, checks: int, jobs: int
) -> Estimate:
    """Return the estimate for `pending` runs from `earlier` ones of the same arms."""
    by_arm: dict[Arm, list[EvalRun]] = {}
    for run in earlier:
        if run.outcome.status is EvalStatus.DONE:
            by_arm.setdefault(run.key.arm, []).append(run)
    basis = sum(map(len, by_arm.values()))
    tokens = _sum(pending, {arm: [each.outcome.total_tokens for each in runs] for arm, runs in by_arm.items()})
    cost = _sum(pending, {arm: [each.outcome.cost_usd for each in runs] for arm, runs in by_arm.items()})
    millis = _sum(pending, {arm: [each.outcome.duration_ms for each in runs] for arm, runs in by_arm.items()})
    return Estimate(
        runs=len(pending),
        checks=checks,
        judge_requests=judged,
        compare_requests=compared,
        tokens=None if tokens is None else round(tokens),
        cost_usd=None if cost is None else round(cost, 4),
        seconds=None if millis is None else round(millis / 1000 / max(jobs, 1), 1),
        basis=basis,
    )


def _sum(pending: Sequence[RunKey], known: Mapping[Arm, Sequence[float | None]]) -> float | None:
    """Return the expected sum over runs by the means of their arms; None if an arm is unknown."""
    total = 0.0
    for key in pending:
        values = [value for value in known.get(key.arm, ()) if value is not None]
        if not values:
            return None
        total += statistics.fmean(values)
    return total if pending else None
