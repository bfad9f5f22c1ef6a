"""The object `effect` of `benchmark.json`: what a skill changes, and whether the runs can carry a verdict.

The unit is the case. Its score in an arm is the mean share of assertions that its runs pass, and the differences of the
scores are tested. Runs that failed could have had any score, so the effect is computed twice: without them, and with a
score of 0 for each. The repetition of a failed run is not independent of the failure, so it counts as a failure too. A
verdict stands only if both say the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.statistics import (
    DIGITS,
    MIN_CASES,
    EffectVerdict,
    PairedEffect,
    further_cases,
    paired_effect,
    rounded,
    wilson,
)

if TYPE_CHECKING:
    from skills_core.evals.grading.results import RunScore
    from skills_core.evals.statistics import Interval
    from skills_core.format.yaml12 import JsonObject, JsonValue

    Score = Callable[[RunScore], float | None]

_LEAST_GAIN: Final = 0.1
# A smaller gain is not worth the cases that it would take to show it.


class _Paired(NamedTuple):
    """The scores of the cases that both arms have, and their effect."""

    cases: Mapping[str, tuple[float, float]]
    effect: PairedEffect

    @property
    def differences(self) -> list[float]:
        return [ours - theirs for ours, theirs in self.cases.values()]


class _Failures(NamedTuple):
    """Runs of an arm without a grading, and those that were repeated because they had failed, of all that count."""

    failed: int
    repeated: int
    runs: int


def effect_of(runs: Sequence[RunScore], subject: str, baseline: str | None) -> JsonObject:
    """Return the object `effect`: the arm of the skill compared with the baseline, None if there is only one arm.

    Means are shares from 0 to 1, `more_cases` about how many further cases would decide a difference of `gain`.
    """
    arms = tuple(filter(None, (subject, baseline)))
    failures = {arm: _failures(runs, arm) for arm in arms}
    left_out = as_zero = _paired(runs, subject, baseline, _graded)
    if any(each.failed or each.repeated for each in failures.values()):
        as_zero = _paired(runs, subject, baseline, _zero_if_failed)
    effect, differences = left_out.effect, left_out.differences
    # Only more runs that do not fail can decide what depends on those that did.
    disputed = effect.verdict is not as_zero.effect.verdict
    verdict = EffectVerdict.NONE if disputed else effect.verdict
    gain = more = None
    if verdict is EffectVerdict.NONE and effect.mean is not None and not disputed:
        gain = max(round(abs(effect.mean), 2), _LEAST_GAIN)
        more = further_cases(differences, gain)
    reason = _disputed(effect, as_zero.effect, failures) if disputed else _reason(left_out, verdict, more, gain)
    by_case: list[JsonValue] = [
        {"eval": case, "difference": rounded(ours - theirs), subject: rounded(ours), str(baseline): rounded(theirs)}
        for case, (ours, theirs) in left_out.cases.items()
    ]
    return {
        "cases": effect.cases,
        **_effect_to_json(effect),
        "method": effect.method.value,
        "verdict": verdict.value,
        "reason": reason,
        "more_cases": more,
        "gain": gain if more is not None else None,
        "arms": {arm: _arm_to_json(runs, arm, failures[arm], left_out.cases) for arm in arms},
        "failures_left_out": _effect_to_json(effect),
        "failures_as_zero": _effect_to_json(as_zero.effect),
        "as_treated": _as_treated(runs, subject, baseline),
        "by_case": by_case,
    }


def _paired(runs: Iterable[RunScore], subject: str, baseline: str | None, score: Score) -> _Paired:
    scores = case_scores(runs, score)
    cases = {
        case: (arms[subject], arms[baseline])
        for case, arms in scores.items()
        if baseline is not None and subject in arms and baseline in arms
    }
    return _Paired(cases, paired_effect([ours - theirs for ours, theirs in cases.values()]))


def _graded(run: RunScore) -> float | None:
    return run.rate if run.is_graded else None


def _zero_if_failed(run: RunScore) -> float | None:
    return 0.0 if run.is_gradable and (run.is_repeated or not run.is_graded) else run.rate


def _loaded(run: RunScore) -> float | None:
    return None if run.loaded is False else _graded(run)


def case_scores(runs: Iterable[RunScore], score: Score = _graded) -> dict[str, dict[str, float]]:
    """Return the mean score of each case in each arm that has one; runs whose score is None do not count."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if (value := score(run)) is not None:
            found[run.case][run.arm].append(value)
    return {case: {arm: fmean(values) for arm, values in arms.items()} for case, arms in found.items()}


def _failures(runs: Iterable[RunScore], arm: str) -> _Failures:
    gradable = [run for run in runs if run.arm == arm and run.is_gradable]
    failed = sum(not run.is_graded for run in gradable)
    return _Failures(failed, sum(run.is_graded and run.is_repeated for run in gradable), len(gradable))


def failed_runs(runs: Sequence[RunScore]) -> dict[str, tuple[int, int]]:
    """Return by arm how many runs have no grading, of how many that should have one."""
    found = {arm: _failures(runs, arm) for arm in dict.fromkeys(run.arm for run in runs)}
    return {arm: (each.failed, each.runs) for arm, each in found.items()}


def _as_treated(runs: Sequence[RunScore], subject: str, baseline: str | None) -> JsonObject | None:
    """Return the effect over the runs that loaded the skill; None if no agent told whether it did."""
    if baseline is None or all(run.loaded is None for run in runs):
        return None
    effect = _paired(runs, subject, baseline, _loaded).effect
    return {
        "cases": effect.cases,
        **_effect_to_json(effect),
        "not_loaded": sum(run.loaded is False for run in runs if run.arm in {subject, baseline}),
    }


def _effect_to_json(effect: PairedEffect) -> JsonObject:
    return {
        "mean": rounded(effect.mean),
        "interval": None if effect.interval is None else _interval(effect.interval),
        "p_value": None if effect.p_value is None else round(effect.p_value, 6),
    }


def _arm_to_json(
    runs: Sequence[RunScore], arm: str, failures: _Failures, paired: Mapping[str, tuple[float, float]]
) -> JsonObject:
    """Return the numbers of an arm; its mean is over the compared cases, or over all of its own if none is compared."""
    ours = [run for run in runs if run.arm == arm]
    scores = {case: arms[arm] for case, arms in case_scores(ours).items()}
    counting = [score for case, score in scores.items() if case in paired or not paired]
    return {
        "cases": len(counting),
        "mean": _mean(counting),
        "interval": _interval(wilson(sum(counting), len(counting))) if counting else None,
        "runs": failures.runs,
        "errors": failures.failed,
        "repeated": failures.repeated,
        "error_rate_interval": _interval(wilson(failures.failed, failures.runs)),
        "seconds": _mean([run.seconds for run in ours]),
        "tokens": _mean([run.tokens for run in ours]),
        "cost_usd": _mean([run.cost_usd for run in ours]),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(fmean(known)) if known else None


def _interval(interval: Interval) -> JsonObject:
    return {"low": round(interval.low, DIGITS), "high": round(interval.high, DIGITS)}


def _reason(paired: _Paired, verdict: EffectVerdict, more: int | None, gain: float | None) -> str:
    """Return the sentences that say what was measured, and why it is a verdict or none."""
    effect, differences = paired.effect, paired.differences
    if effect.mean is None or effect.p_value is None:
        return "No case has assertions that were graded in both arms."
    up, down = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
    said = (
        f"{_points(effect.mean)} on average over {counted(effect.cases, 'case')}{_range(effect.interval)}: "
        f"{up} {agreeing(up, 'scores', 'score')} higher with the skill, {down} lower"
    )
    if verdict is not EffectVerdict.NONE:
        return f"{said} (p = {effect.p_value:.3g})."
    if effect.cases < MIN_CASES:
        why = f"Fewer than {MIN_CASES} cases cannot decide"
    else:
        why = f"That may be chance (p = {effect.p_value:.2g})"
    if more is None or gain is None:
        return f"{said}. {why}; more cases of this kind would hardly show it."
    further = f"about {counted(more, 'more case')} would decide a difference of {round(gain * 100)} points"
    return f"{said}. {why}; {further}."


def _disputed(left_out: PairedEffect, as_zero: PairedEffect, failures: Mapping[str, _Failures]) -> str:
    counts = ", ".join(f"{arm} {each.failed + each.repeated} of {each.runs}" for arm, each in failures.items())
    return (
        f"It depends on runs that failed or were repeated ({counts}): {_bound(left_out)} without the failed ones, and "
        f"{_bound(as_zero)} if they count as 0. Find out why they fail, then repeat all runs with --new."
    )


def _bound(effect: PairedEffect) -> str:
    if effect.mean is None:
        return "nothing can be compared"
    return f"{_points(effect.mean)}{_range(effect.interval)}"


def _points(value: float) -> str:
    return f"{_signed(value)} {agreeing(abs(round(value * 100)), 'point', 'points')}"


def _signed(value: float) -> str:
    return f"{number:+d}" if (number := round(value * 100)) else "0"


def _range(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f" (95 %: {_signed(interval.low)} to {_signed(interval.high)})"
