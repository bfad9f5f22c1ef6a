"""Verdicts and patterns: what the numbers can carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.capabilities.evals.report.model import Iteration, Tone
from server.capabilities.evals.report.scores import check_scores
from server.capabilities.evals.report.workspace import read_workspace
from skills_core.evals.grading.benchmark import benchmark_of
from skills_core.evals.grading.results import Arm
from tests.capabilities.evals.report.workspaces import (
    full_workspace,
    grading,
    write,
    write_case,
    write_iteration,
    write_run,
)
from tests.core.evals.runs import METADATA, run_of

GOOD, BAD = (True, True), (True, False)


def iteration_of(root: Path, wins: int, losses: int = 0, ties: int = 0) -> Iteration:
    cases = {f"win-{number}": (GOOD, BAD) for number in range(wins)}
    cases |= {f"loss-{number}": (BAD, GOOD) for number in range(losses)}
    cases |= {f"tie-{number}": (GOOD, GOOD) for number in range(ties)}
    write_iteration(root / "iteration-1", cases)
    return read_workspace(root).iterations[0]


@pytest.mark.parametrize(
    ("wins", "losses", "tone"),
    [
        (6, 0, Tone.GOOD),
        (0, 6, Tone.BAD),
        (5, 0, Tone.NONE),
        (6, 2, Tone.NONE),
    ],
)
def test_a_verdict_needs_six_cases_and_no_chance(tmp_path: Path, wins: int, losses: int, tone: Tone) -> None:
    assert iteration_of(tmp_path, wins, losses).scores.verdict.tone is tone


def test_without_a_verdict_it_says_how_many_cases_it_takes(tmp_path: Path) -> None:
    words = iteration_of(tmp_path, 4, ties=1).scores.verdict.reason
    assert words.startswith("+40 points on average over 5 cases (95 %: ")
    assert "4 score higher with the skill, 0 lower. Fewer than 6 cases cannot decide; about " in words
    assert words.endswith("more cases would decide a difference of 40 points.")


def test_a_verdict_that_depends_on_failed_runs_is_none(tmp_path: Path) -> None:
    iteration_of(tmp_path, 6)
    for number in range(3):
        folder = write_case(tmp_path / "iteration-1", f"failed-{number}")
        write_run(folder / "with_skill", None, outcome={"status": "error", "error": "no quota"})
        write_run(folder / "without_skill", grading(True))
    scores = read_workspace(tmp_path).iterations[0].scores
    assert scores.verdict.tone is Tone.NONE
    assert "runs that failed or were repeated (with_skill 3 of 9, without_skill 0 of 9)" in scores.verdict.reason
    assert scores.pairing is not None
    assert scores.pairing.difference == 0.5
    assert scores.pairing.failures_as_zero.difference == 0.0


def test_runs_that_never_loaded_the_skill_are_reported_beside(tmp_path: Path) -> None:
    iteration_of(tmp_path, 3)
    for case, passed in ((0, True), (1, True), (2, False)):
        folder = tmp_path / f"iteration-1/eval-win-{case}/with_skill"
        write_run(folder, grading(passed, passed), outcome={"status": "done", "skill_loaded": passed})
    pair = read_workspace(tmp_path).iterations[0].scores.pairing
    assert pair is not None
    assert pair.as_treated is not None
    assert (pair.not_loaded, pair.difference, pair.as_treated.difference) == (1, 0.1667, 0.5)


def test_errors_count_in_no_rate(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "x")
    write_run(folder / "with_skill/run-1", grading(True))
    write_run(folder / "with_skill/run-2", grading(False), outcome={"status": "timeout", "error": ""})
    (iteration,) = read_workspace(tmp_path).iterations
    score = iteration.scores.of("with_skill")
    assert score is not None
    assert score.rate is not None
    assert (score.rate.mean, score.runs, score.graded, score.failed) == (1.0, 2, 1, 1)
    assert check_scores(iteration.cases[0], ["with_skill"])[0].arms == (("with_skill", 1, 1),)


def test_the_verdict_that_the_tool_wrote_down_counts(tmp_path: Path) -> None:
    write_iteration(
        tmp_path / "iteration-1", {"a": (GOOD, BAD)}, effect={"verdict": "no verdict", "reason": "one case"}
    )
    verdict = read_workspace(tmp_path).iterations[0].scores.verdict
    assert (verdict.title, verdict.reason) == ("No verdict", "one case")


def test_the_difference_has_an_interval(tmp_path: Path) -> None:
    pair = iteration_of(tmp_path, 4, ties=1).scores.pairing
    assert pair is not None
    assert (pair.cases, pair.difference, len(pair.by_case)) == (5, 0.4, 5)
    tie, *wins = pair.by_case
    assert (tie.case, tie.difference) == ("eval-tie-0", 0.0)
    assert {(each.subject, each.baseline, each.difference) for each in wins} == {(1.0, 0.5, 0.5)}
    assert pair.interval is not None
    assert pair.interval.low < 0.4 < pair.interval.high


def test_patterns_name_assertions_that_say_nothing_flaky_ones_and_outliers(tmp_path: Path) -> None:
    rows = read_workspace(full_workspace(tmp_path)).iterations[-1].scores.patterns
    found = {(each.kind, each.case): each.lines for each in rows}
    assert found["always passes", "empty-file"] == ("The output includes a bar chart image file",)
    assert found["flaky", "empty-file"] == ("The chart shows exactly 3 months (1 of 3 runs with skill)",)
    assert "Both axes are labeled" in found["only with the skill", "top-months-chart"]
    (line,) = found["outlier in seconds", "clean-missing-emails"]
    assert line.endswith("; read iteration-3/eval-clean-missing-emails/with_skill/run-3/transcript.jsonl")


@pytest.mark.parametrize("seconds", [(0.1, 0.1, 0.9), (1, 1, 4, 4)])
def test_the_report_names_the_outliers_that_eval_names(tmp_path: Path, seconds: tuple[float, ...]) -> None:
    runs = [run_of(Arm.WITH_SKILL, name=f"case-{number}", seconds=each) for number, each in enumerate(seconds)]
    for run in runs:
        folder = tmp_path / "iteration-1" / str(run.key)
        write_run(folder, grading(True), timing=run.outcome.timing())
    made = benchmark_of(runs, Arm.WITHOUT_SKILL, METADATA)
    write(tmp_path / "iteration-1/benchmark.json", made)
    rows = read_workspace(tmp_path).iterations[0].scores.patterns
    shown = [f"eval-{each.case}" for each in rows if each.kind == "outlier in seconds"]
    patterns = made["patterns"]
    assert isinstance(patterns, dict)
    outliers = patterns["outliers"]
    assert isinstance(outliers, list)
    assert shown == [each["eval"] for each in outliers if isinstance(each, dict)]


def test_the_numbers_of_the_benchmark_are_those_of_the_report(tmp_path: Path) -> None:
    """The folders of the runs may have been changed since."""
    runs = [run_of(arm, [arm is Arm.WITH_SKILL]) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)]
    for run in runs:
        write_run(tmp_path / "iteration-1" / str(run.key), grading(False))
    write(tmp_path / "iteration-1/benchmark.json", benchmark_of(runs, Arm.WITHOUT_SKILL, METADATA))
    scores = read_workspace(tmp_path).iterations[0].scores
    assert [each.rate.mean for each in scores.arms if each.rate] == [1.0, 0.0]
    assert scores.pairing is not None
    assert (scores.pairing.cases, scores.pairing.difference, scores.pairing.interval) == (1, 1.0, None)
