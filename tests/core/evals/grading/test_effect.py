"""What a skill changes: by cases, with what failed runs and runs without the skill may hide."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

import pytest

from skills_core.evals.grading.benchmark import benchmark_of, score_iteration
from skills_core.evals.grading.results import Arm, EvalRun, RunScore
from skills_core.evals.statistics import EffectVerdict
from tests.core.evals.runs import METADATA, run_of

WITH, WITHOUT = Arm.WITH_SKILL, Arm.WITHOUT_SKILL


def benchmark(runs: Sequence[EvalRun]) -> Any:
    return benchmark_of(runs, WITHOUT, METADATA)


def effect(runs: Sequence[EvalRun]) -> Any:
    return benchmark(runs)["effect"]


def pairs(outcomes: Iterable[tuple[Sequence[bool], Sequence[bool]]], **more: Any) -> list[EvalRun]:
    """The runs of cases, each with the grades in both arms."""
    return [
        run_of(arm, grades, name=f"case-{number}", **more)
        for number, both in enumerate(outcomes)
        for arm, grades in zip((WITH, WITHOUT), both, strict=True)
    ]


GOOD, BAD, HALF = (True, True), (False, False), (True, False)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([(GOOD, BAD)] * 5, EffectVerdict.NONE),
        ([(GOOD, BAD)] * 6, EffectVerdict.BETTER),
        ([(BAD, HALF)] * 10, EffectVerdict.WORSE),
        ([(GOOD, BAD)] * 6 + [(BAD, GOOD)] * 2, EffectVerdict.NONE),
        ([(GOOD, GOOD)] * 9, EffectVerdict.NONE),
        # Signs alone would decide, but a loss that six cases happen not to show would undo so small a gain.
        ([((True, *BAD, *BAD), (*BAD, *BAD, False))] * 6, EffectVerdict.NONE),
    ],
)
def test_a_verdict_needs_six_cases_the_test_and_the_interval(outcomes: Any, verdict: EffectVerdict) -> None:
    found = effect(pairs(outcomes))
    assert found["verdict"] == verdict
    assert found["interval"]["low"] <= found["mean"] <= found["interval"]["high"]


def test_shares_of_assertions_count_and_not_only_whole_cases() -> None:
    found = effect(pairs([((True, True, False), (True, False, False))] * 10))
    assert (found["mean"], found["verdict"]) == (0.3333, "better")


def test_a_case_counts_once_whatever_the_number_of_its_runs() -> None:
    runs = [run_of(arm, [arm is WITH], number=number) for number in range(1, 11) for arm in (WITH, WITHOUT)]
    found = effect(runs)
    assert (found["cases"], found["mean"], found["interval"], found["verdict"]) == (1, 1.0, None, "no verdict")


def test_few_cases_say_what_they_show_and_how_many_more_would_decide() -> None:
    found = effect(pairs([(GOOD, BAD), (HALF, BAD), (GOOD, GOOD)]))
    assert (found["mean"], found["gain"]) == (0.5, 0.5)
    assert 3 <= found["more_cases"] <= 30
    assert found["reason"] == (
        f"+50 points on average over 3 cases (95 %: -67 to +100): 2 score higher with the skill, 0 lower. Fewer than 6 "
        f"cases cannot decide; about {found['more_cases']} more cases would decide a difference of 50 points."
    )
    assert found["by_case"][1] == {"eval": "eval-case-1", "difference": 0.5, "with_skill": 0.5, "without_skill": 0.0}


def test_no_difference_names_the_cases_that_would_show_ten_points() -> None:
    found = effect(pairs([(HALF, HALF)] * 10))
    assert (found["mean"], found["p_value"], found["gain"]) == (0.0, 1.0, 0.1)
    assert found["interval"]["low"] < 0 < found["interval"]["high"]
    assert "That may be chance (p = 1)" in found["reason"]


def test_without_a_compared_case_the_arms_keep_their_numbers() -> None:
    found = effect([run_of(WITH, HALF, name="x"), run_of(WITHOUT, name="x", error="429")])
    assert found["reason"].startswith("No case has assertions that were graded in both arms.")
    assert (found["cases"], found["mean"], found["p_value"], found["by_case"]) == (0, None, None, [])
    assert (found["arms"]["with_skill"]["mean"], found["arms"]["without_skill"]["mean"]) == (0.5, None)


def test_one_arm_alone_is_described() -> None:
    score = RunScore(case="x", arm="with_skill", number=1, rate=0.5)
    found: Any = score_iteration([score], ["with_skill"], None)["effect"]
    assert (found["mean"], found["verdict"], list(found["arms"])) == (None, "no verdict", ["with_skill"])
    assert found["arms"]["with_skill"]["mean"] == 0.5


def test_errors_are_counted_by_arm() -> None:
    runs = [*pairs([(GOOD, GOOD)] * 9), run_of(WITH, name="bad", error="429"), run_of(WITHOUT, GOOD, name="bad")]
    arms = effect(runs)["arms"]
    assert [(arms[arm]["errors"], arms[arm]["runs"]) for arm in (WITH, WITHOUT)] == [(1, 10), (0, 10)]
    interval = arms[WITH]["error_rate_interval"]
    assert 0 < interval["low"] < 0.1 < interval["high"] < 0.5


def test_a_verdict_stands_only_if_failed_runs_cannot_undo_it() -> None:
    """The skill makes hard runs crash; what is left looks better."""
    runs = pairs([(GOOD, BAD)] * 7) + [
        each for name in "abcdef" for each in (run_of(WITH, name=name, error="hung"), run_of(WITHOUT, GOOD, name=name))
    ]
    found = effect(runs)
    assert (found["failures_left_out"]["mean"], found["failures_as_zero"]["mean"]) == (1.0, 0.0769)
    assert (found["verdict"], found["more_cases"], found["gain"]) == ("no verdict", None, None)
    assert "(with_skill 6 of 13, without_skill 0 of 13)" in found["reason"]
    both = [*pairs([(GOOD, BAD)] * 9), run_of(WITH, name="a", error="hung"), run_of(WITHOUT, BAD, name="a")]
    assert effect(both)["verdict"] == "better"


def test_a_repeated_run_counts_as_its_failure_in_one_of_the_bounds() -> None:
    runs = [
        *pairs([(GOOD, BAD)] * 3),
        *(run_of(WITH, GOOD, name=f"again-{number}", attempt=2) for number in range(3)),
        *(run_of(WITHOUT, BAD, name=f"again-{number}") for number in range(3)),
    ]
    found = benchmark(runs)
    assert (found["effect"]["failures_left_out"]["mean"], found["effect"]["failures_as_zero"]["mean"]) == (1.0, 0.5)
    assert (found["effect"]["arms"]["with_skill"]["repeated"], found["effect"]["verdict"]) == (3, "no verdict")
    assert any("with_skill: 3 of 6 runs failed before and were repeated." in note for note in found["remarks"])


def test_runs_that_never_loaded_the_skill_are_reported_beside() -> None:
    runs = [
        *(run_of(WITH, GOOD, name=f"case-{number}", skill_loaded=True) for number in range(3)),
        run_of(WITH, BAD, name="case-3", skill_loaded=False),
        *(run_of(WITHOUT, BAD, name=f"case-{number}") for number in range(4)),
    ]
    found = effect(runs)
    assert found["mean"] == 0.75
    treated = found["as_treated"]
    assert (treated["cases"], treated["mean"], treated["not_loaded"]) == (3, 1.0, 1)
    assert effect(pairs([(GOOD, BAD)]))["as_treated"] is None


def test_cost_and_time_of_each_arm_are_there() -> None:
    found = effect(pairs([(GOOD, BAD)] * 3, seconds=2.0, tokens=300, cost_usd=0.5))
    arm = found["arms"]["with_skill"]
    assert (arm["seconds"], arm["tokens"], arm["cost_usd"]) == (2.0, 300.0, 0.5)


WORLDS = {"coins": (0.5, 0.5), "hard": (0.1, 0.1), "gain": (0.3, 0.65), "loss": (0.8, 0.45)}


def simulated(world: str, cases: int, runs: int, *, samples: int) -> list[Any]:
    """The effects of evals whose cases have one to six assertions, which pass at about the rates of a world."""
    chance, rates = random.Random(f"{world} {cases}"), dict(zip(("without", "with"), WORLDS[world], strict=True))  # noqa: S311
    found = []
    for _ in range(samples):
        scores = []
        for case in range(cases):
            assertions, shift = chance.randint(1, 6), chance.uniform(-0.1, 0.1)
            scores += [
                RunScore(
                    case=f"{case}",
                    arm=arm,
                    number=number,
                    rate=fmean(chance.random() < rates[arm] + shift for _ in range(assertions)),
                )
                for arm in rates
                for number in range(runs)
            ]
        found.append(score_iteration(scores, ["with", "without"], "without")["effect"])
    return found


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("cases", "runs"), [(3, 1), (5, 3), (10, 3)])
def test_verdicts_are_rarely_false_and_intervals_cover(world: str, cases: int, runs: int) -> None:
    """`bench/eval_verdicts.py` measures this in more worlds; here a broken core shows within seconds."""
    found = simulated(world, cases, runs, samples=150)
    before, after = WORLDS[world]
    truth = after - before
    covered = sum(each["interval"]["low"] <= truth <= each["interval"]["high"] for each in found)
    assert covered >= 0.9 * len(found)
    verdicts = [each["verdict"] for each in found]
    false = verdicts.count("better") * (truth <= 0) + verdicts.count("worse") * (truth >= 0)
    assert false <= 0.05 * len(found)
    if cases == 10 and truth:
        assert verdicts.count("better" if truth > 0 else "worse") >= 0.65 * len(found)
