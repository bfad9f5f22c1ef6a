"""Make runs of evals for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skills_core.evals.grading.benchmark import BenchmarkMetadata
from skills_core.evals.grading.cases import Assertion, EvalCase
from skills_core.evals.grading.results import Arm, AssertionResult, EvalOutcome, EvalRun, EvalStatus, RunKey

METADATA = BenchmarkMetadata(
    skill_name="s",
    skill_path="/s",
    iteration=1,
    timestamp="2026-01-01T00:00:00+00:00",
    runs_per_configuration=1,
    model="m",
    judge=None,
    baseline=None,
)


def case_of(name: str = "one", assertions: Sequence[str] = ("a",)) -> EvalCase:
    return EvalCase(name, name, f"do {name}", assertions=tuple(map(Assertion, assertions)))


def run_of(
    arm: Arm,
    passed: Sequence[bool] = (True,),
    *,
    name: str = "one",
    number: int = 1,
    seconds: float = 1.0,
    tokens: int | None = 100,
    error: str = "",
    **more: Any,
) -> EvalRun:
    """Return a run; `more` are further fields of its outcome."""
    texts = [chr(97 + position) for position in range(len(passed))]
    results = tuple(AssertionResult(text, each, "seen") for text, each in zip(texts, passed, strict=True))
    status = EvalStatus.ERROR if error else EvalStatus.DONE
    outcome = EvalOutcome(
        status=status,
        error=error,
        duration_ms=round(seconds * 1000),
        total_tokens=tokens,
        **more,
    )
    case = case_of(name, texts)
    return EvalRun(RunKey(case.folder, arm, number), case, outcome, None if error else results)
