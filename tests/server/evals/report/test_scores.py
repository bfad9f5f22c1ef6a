"""Verdicts and patterns: what the numbers can carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.evals.report.model import Iteration, Verdict
from server.evals.report.scores import (
    check_scores,
    iteration_verdict,
    pairing,
    patterns,
    score_arm,
)
from server.evals.report.workspace import read_workspace
from tests.server.evals.report.workspaces import (
    full_workspace,
    grading,
    write_case,
    write_iteration,
    write_run,
)

GOOD, BAD = (True, True), (True, False)


def iteration_of(root: Path, wins: int, losses: int = 0, ties: int = 0) -> Iteration:
    cases = {f"win-{number}": (GOOD, BAD) for number in range(wins)}
    cases |= {f"loss-{number}": (BAD, GOOD) for number in range(losses)}
    cases |= {f"tie-{number}": (GOOD, GOOD) for number in range(ties)}
    write_iteration(root / "iteration-1", cases)
    return read_workspace(root).iterations[0]


@pytest.mark.parametrize(
    ("wins", "losses", "verdict"),
    [
        (6, 0, Verdict.GOOD),
        (0, 6, Verdict.BAD),
        (5, 0, Verdict.NONE),
        (6, 2, Verdict.NONE),
    ],
)
def test_a_verdict_needs_six_cases_that_differ_and_no_chance(
    tmp_path: Path, wins: int, losses: int, verdict: Verdict
) -> None:
    assert iteration_verdict(iteration_of(tmp_path, wins, losses)).verdict is verdict


def test_without_a_verdict_it_says_how_many_cases_it_takes(tmp_path: Path) -> None:
    words = iteration_verdict(iteration_of(tmp_path, 4, ties=1)).words
    assert words.startswith("Of 5 cases, 4 pass only with the skill and 0 only without it.")
    assert "About 9 cases" in words


def test_over_a_tenth_of_errors_there_is_no_verdict(tmp_path: Path) -> None:
    iteration_of(tmp_path, 6)
    for number in range(2):
        folder = write_case(tmp_path / "iteration-1", f"failed-{number}")
        write_run(folder / "with_skill", None, outcome={"status": "error", "error": "no quota"})
    judgement = iteration_verdict(read_workspace(tmp_path).iterations[0])
    assert judgement.verdict is Verdict.NONE
    assert judgement.words.startswith("2 of 14 runs ended in an error or a timeout, which is more than 10%.")


def test_errors_count_in_no_rate(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "x")
    write_run(folder / "with_skill/run-1", grading(True))
    write_run(folder / "with_skill/run-2", grading(False), outcome={"status": "timeout", "error": ""})
    (iteration,) = read_workspace(tmp_path).iterations
    score = score_arm(iteration, "with_skill")
    assert score.rate is not None
    assert (score.rate.mean, score.runs, score.graded, score.failed) == (1.0, 2, 1, 1)
    assert check_scores(iteration.cases[0], ["with_skill"])[0].arms == (("with_skill", 1, 1),)


def test_the_verdict_that_the_tool_wrote_down_counts(tmp_path: Path) -> None:
    write_iteration(
        tmp_path / "iteration-1", {"a": (GOOD, BAD)}, intervals={"verdict": "no verdict", "reason": "one case"}
    )
    judgement = iteration_verdict(read_workspace(tmp_path).iterations[0])
    assert (judgement.title, judgement.words) == ("No verdict", "one case")


def test_the_difference_has_an_interval(tmp_path: Path) -> None:
    pair = pairing(iteration_of(tmp_path, 4, ties=1))
    assert pair is not None
    assert (pair.cases, pair.wins, pair.losses, pair.difference) == (5, 4, 0, 0.4)
    assert pair.interval is not None
    assert pair.interval.low < 0.4 < pair.interval.high


def test_patterns_name_assertions_that_say_nothing_flaky_ones_and_outliers(tmp_path: Path) -> None:
    found = {
        (each.kind, each.case): each.lines for each in patterns(read_workspace(full_workspace(tmp_path)).iterations[-1])
    }
    assert found["always passes", "empty-file"] == ("The output includes a bar chart image file",)
    assert found["flaky", "empty-file"] == ("The chart shows exactly 3 months (1 of 3 runs with skill)",)
    assert "Both axes are labeled" in found["only with the skill", "top-months-chart"]
    (line,) = found["outlier in seconds", "clean-missing-emails"]
    assert line.endswith("; read iteration-3/eval-clean-missing-emails/with_skill/run-3/transcript.jsonl")
