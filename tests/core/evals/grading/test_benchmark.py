"""The benchmark of an iteration: means and deltas, patterns, and a verdict that the numbers can carry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from skills_core.evals.grading.benchmark import ArmVerdict, BenchmarkMetadata, benchmark_of, compare_arms
from skills_core.evals.grading.cases import Assertion, EvalCase
from skills_core.evals.grading.results import (
    Arm,
    AssertionResult,
    EvalOutcome,
    EvalRun,
    EvalStatus,
    RunKey,
    grading_basis,
    grading_from_json,
    grading_to_json,
    is_grading_of,
    outcome_from_json,
)
from tests.core.evals.runs import run_of

WITH, WITHOUT = Arm.WITH_SKILL, Arm.WITHOUT_SKILL
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


def benchmark(*runs: EvalRun) -> dict[str, Any]:
    baseline = next((run.key.arm for run in runs if run.key.arm is not WITH), WITHOUT)
    made = benchmark_of(runs, baseline, METADATA)
    return json.loads(json.dumps(made, allow_nan=False))  # type: ignore[no-any-return]


def compared(runs: Sequence[EvalRun]) -> dict[str, Any]:
    return compare_arms([run.score(1) for run in runs], WITH, WITHOUT)


def test_the_delta_is_the_skill_minus_the_baseline_in_numbers() -> None:
    made = benchmark(
        run_of(WITH, [True, True], seconds=45, tokens=3800),
        run_of(WITHOUT, [True, False], seconds=32, tokens=2100),
    )
    assert made["run_summary"]["delta"] == {"pass_rate": 0.5, "time_seconds": 13.0, "tokens": 1700.0}
    assert made["run_summary"]["with_skill"]["pass_rate"] == {"mean": 1.0, "stddev": 0.0, "min": 1.0, "max": 1.0}
    assert made["metadata"]["evals_run"] == ["one"]
    assert made["runs"][1]["result"]["pass_rate"] == 0.5


def test_the_deviation_is_that_of_a_sample() -> None:
    runs = [run_of(WITH, [passed], number=number) for number, passed in enumerate((True, False), 1)]
    assert benchmark(*runs, run_of(WITHOUT))["run_summary"]["with_skill"]["pass_rate"]["stddev"] == 0.7071


def test_the_delta_pairs_cases_so_that_an_error_in_one_arm_does_not_favour_it() -> None:
    """The hard case has an error with the skill; the easy one is equal in both arms, so nothing differs."""
    made = benchmark(
        run_of(WITH, [True], name="easy", seconds=10),
        run_of(WITHOUT, [True], name="easy", seconds=10),
        run_of(WITH, name="hard", error="429"),
        run_of(WITHOUT, [False], name="hard", seconds=90, tokens=9000),
    )
    assert made["run_summary"]["without_skill"]["pass_rate"]["mean"] == 0.5
    assert made["run_summary"]["delta"] == {"pass_rate": 0.0, "time_seconds": 0.0, "tokens": 0.0}
    assert "Only one arm has graded runs of eval-hard: the means of the arms are of different cases" in made["notes"][2]


def test_errors_leave_the_denominator_and_are_named() -> None:
    made = benchmark(
        run_of(WITH), run_of(WITH, number=2, error="boom", seconds=500, tokens=None), run_of(WITHOUT, [False])
    )
    summary = made["run_summary"]["with_skill"]
    assert (summary["pass_rate"]["mean"], summary["time_seconds"]["max"]) == (1.0, 1.0)
    assert made["runs"][1]["result"] | {"errors": 1, "pass_rate": None} == made["runs"][1]["result"]
    assert "eval-one/with_skill/run-2: boom" in made["notes"]
    assert made["intervals"]["verdict"] == "no verdict"
    assert "more than a tenth" in made["intervals"]["reason"]


def test_unknown_tokens_are_null_and_not_zero() -> None:
    made = benchmark(run_of(WITH, tokens=None), run_of(WITHOUT, tokens=10))
    assert made["run_summary"]["with_skill"]["tokens"] == {"mean": None, "stddev": None, "min": None, "max": None}
    assert made["run_summary"]["delta"]["tokens"] is None


def test_a_case_without_assertions_has_time_and_tokens_but_no_pass_rate() -> None:
    made = benchmark(run_of(WITH, []), run_of(WITHOUT, []))
    assert made["run_summary"]["delta"] == {"pass_rate": None, "time_seconds": 0.0, "tokens": 0.0}
    assert made["intervals"]["reason"] == "No case has assertions that were graded in both arms."


def test_assertions_that_say_nothing_about_the_skill_are_named_and_so_are_those_that_do() -> None:
    made = benchmark(run_of(WITH, [True, False, True, False]), run_of(WITHOUT, [True, False, False, True]))
    named = {name: [each["assertion"] for each in made["patterns"][name]] for name in ("always_pass", "always_fail")}
    assert named == {"always_pass": ["a"], "always_fail": ["b"]}
    assert [made["patterns"][name][0]["assertion"] for name in ("gained", "lost")] == ["c", "d"]
    assert any("'a' passes in both arms" in note for note in made["notes"])
    assert any("'b' fails in both arms" in note for note in made["notes"])


def test_an_assertion_that_passes_with_both_versions_of_a_skill_is_not_to_be_removed() -> None:
    made = benchmark(run_of(WITH, [True, False]), run_of(Arm.OLD_SKILL, [True, True]))
    assert [each["assertion"] for each in made["patterns"]["always_pass"]] == ["a"]
    assert "Assertions that pass with both versions of the skill: 1." in made["notes"]
    assert any("'b' passes with the old version and fails with the skill" in note for note in made["notes"])
    assert not any("remove it" in note for note in made["notes"])


def test_an_assertion_with_mixed_results_in_one_arm_is_flaky_and_not_always_anything() -> None:
    runs = [run_of(WITH, [number != 2], number=number) for number in (1, 2, 3)]
    patterns = benchmark(*runs, run_of(WITHOUT, [True]))["patterns"]
    flaky = {"eval": "eval-one", "assertion": "a", "configuration": "with_skill", "passed": 2, "runs": 3}
    assert patterns["flaky"] == [flaky]
    assert patterns["always_pass"] == patterns["gained"] == []


def test_a_run_of_three_times_the_others_is_an_outlier_with_its_transcript() -> None:
    runs = [run_of(WITH, name=name, seconds=seconds) for name, seconds in (("x", 2), ("y", 2), ("z", 6))]
    made = benchmark(*runs, run_of(WITHOUT, tokens=1000), run_of(WITHOUT, name="x"), run_of(WITHOUT, name="y"))
    found = made["patterns"]["outliers"]
    assert [(each["eval"], each["metric"], each["value"]) for each in found] == [
        ("eval-z", "time", 6.0),
        ("eval-one", "tokens", 1000),
    ]
    assert found[0]["transcript"] == "eval-z/with_skill/transcript.jsonl"
    assert any("read eval-z/with_skill/transcript.jsonl" in note for note in made["notes"])


def test_milliseconds_and_two_runs_have_no_outliers() -> None:
    short = [run_of(WITH, name=name, seconds=seconds) for name, seconds in (("x", 0.1), ("y", 0.1), ("z", 0.9))]
    assert benchmark(*short, run_of(WITHOUT))["patterns"]["outliers"] == []
    two = [run_of(WITH, name=name, seconds=seconds) for name, seconds in (("x", 1), ("z", 9))]
    assert benchmark(*two, run_of(WITHOUT))["patterns"]["outliers"] == []


@pytest.mark.parametrize(
    ("wins", "losses", "same", "verdict"),
    [
        (5, 0, 20, ArmVerdict.NONE),
        (6, 0, 0, ArmVerdict.BETTER),
        (0, 6, 10, ArmVerdict.WORSE),
        (6, 2, 0, ArmVerdict.NONE),
        (0, 0, 9, ArmVerdict.NONE),
    ],
)
def test_a_verdict_needs_six_cases_that_differ(wins: int, losses: int, same: int, verdict: ArmVerdict) -> None:
    outcomes = [(True, False)] * wins + [(False, True)] * losses + [(True, True)] * same
    runs = [
        run_of(arm, [passed], name=f"case-{number}")
        for number, pair in enumerate(outcomes)
        for arm, passed in zip((WITH, WITHOUT), pair, strict=True)
    ]
    found = compared(runs)
    assert (found["mcnemar"]["wins"], found["mcnemar"]["losses"], found["verdict"]) == (wins, losses, verdict)
    delta = found["pass_rate_delta"]
    assert delta["interval"] is None or delta["interval"]["low"] <= delta["mean"] <= delta["interval"]["high"]


def test_no_verdict_says_how_many_more_cases_it_would_take() -> None:
    runs = [run_of(arm, [arm is WITH], name=name) for name in ("x", "y") for arm in (WITH, WITHOUT)]
    found = compared(runs)
    assert found["more_cases"] == 4
    assert "about 4 more cases would show it" in found["reason"]
    alike = compared([run_of(WITH), run_of(WITHOUT)])
    assert alike["more_cases"] is None
    assert "would hardly show it" in alike["reason"]


def test_a_case_counts_once_whatever_the_number_of_its_runs() -> None:
    runs = [run_of(arm, [arm is WITH], number=number) for number in range(1, 11) for arm in (WITH, WITHOUT)]
    found = compared(runs)
    assert (found["cases"]["with_skill"]["total"], found["mcnemar"]["wins"], found["verdict"]) == (
        1,
        1,
        ArmVerdict.NONE,
    )


@pytest.mark.parametrize("name", ["assertion_results", "expectations", "assertions"])
def test_gradings_of_all_dialects_are_read(name: str) -> None:
    value = {name: [{"text": "a", "passed": True, "evidence": "e"}, {"text": "b", "passed": False}]}
    assert grading_from_json(value) == (AssertionResult("a", True, "e"), AssertionResult("b", False, ""))


def test_a_grading_is_written_for_both_readers_and_read_back() -> None:
    results = (AssertionResult("a", True, "e"), AssertionResult("b", False, "f"), AssertionResult("c", False, ""))
    case = EvalCase(1, "1", "p", assertions=(Assertion("a"), Assertion("b", "true"), Assertion("c")))
    made = grading_to_json(results, grading_basis(case, "judge"))
    assert made["assertion_results"] == made["expectations"]
    assert made["summary"] == {"passed": 1, "failed": 2, "total": 3, "pass_rate": 0.3333}
    assert grading_from_json(made) == results
    assert is_grading_of(made, results, case, "judge")
    assert is_grading_of(made, results, case, None)
    assert not is_grading_of(made, results, case, "another")


@pytest.mark.parametrize(
    "changed",
    [
        {"assertions": (Assertion("b", "true"), Assertion("a"))},
        {"assertions": (Assertion("a"), Assertion("b", "false"))},
        {"assertions": (Assertion("a"), Assertion("b"))},
        {"assertions": (Assertion("a"),)},
        {"expected_output": "more"},
    ],
)
def test_a_grading_is_one_of_the_assertions_and_expectations_that_made_it(
    changed: dict[str, Any],
) -> None:
    case = EvalCase(1, "1", "p", expected_output="much", assertions=(Assertion("a"), Assertion("b", "true")))
    results = (AssertionResult("a", True, ""), AssertionResult("b", True, ""))
    made = grading_to_json(results, grading_basis(case, "judge"))
    assert is_grading_of(made, results, case, "judge")
    assert not is_grading_of(made, results, replace(case, **changed), "judge")
    # Files of other tools do not say what they rest on.
    assert is_grading_of({"expectations": []}, results, case, "judge")


@pytest.mark.parametrize("value", [None, [], {}, {"expectations": "x"}, {"expectations": [{"text": "a"}]}, 3])
def test_a_damaged_grading_is_none(value: object) -> None:
    assert grading_from_json(value) is None


def test_an_outcome_is_read_back_and_a_damaged_one_is_none() -> None:
    outcome = EvalOutcome(status=EvalStatus.TIMEOUT, error="slow", duration_ms=5, total_tokens=7, attempt=2)
    assert outcome_from_json(outcome.to_json(), outcome.timing()) == outcome
    assert outcome_from_json({"status": "fine"}, {}) is None
    assert outcome_from_json([], None) is None
    assert outcome_from_json({"status": "done", "notes": [3]}, {}) is None
    assert outcome_from_json({"status": "done"}, {"total_tokens": True}) is None


def test_one_run_has_its_files_in_the_arm_and_several_have_folders() -> None:
    key = RunKey("eval-x", WITH, 2)
    assert (key.path(1), key.path(3)) == ("eval-x/with_skill", "eval-x/with_skill/run-2")
