"""The gates of CI: pass rate and regression, and what cannot be measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.capabilities.evals.report.ci import GateOutcome, ci_gates, gates_pass
from server.capabilities.evals.report.model import Results
from server.capabilities.evals.report.workspace import read_workspace
from tests.capabilities.evals.report.workspaces import (
    grading,
    query,
    write,
    write_case,
    write_iteration,
    write_run,
    write_triggers,
)


@pytest.fixture
def half(tmp_path: Path) -> Results:
    """Half of the assertions pass with the skill, three quarters without it."""
    cases = {"a": ((True, True), (True, True)), "b": ((False, False), (True, False))}
    write_iteration(tmp_path / "iteration-1", cases)
    return read_workspace(tmp_path)


@pytest.mark.parametrize(("least", "passes"), [(None, True), (0.0, True), (0.5, True), (0.51, False)])
def test_the_pass_rate_must_reach_the_least(half: Results, *, least: float | None, passes: bool) -> None:
    assert gates_pass(ci_gates(half, min_pass_rate=least)) is passes


@pytest.mark.parametrize(("most", "passes"), [(0.3, True), (0.25, True), (0.2, False), (0.0, False)])
def test_the_skill_may_lose_so_much_against_its_baseline(half: Results, *, most: float, passes: bool) -> None:
    assert gates_pass(ci_gates(half, max_regression=most)) is passes


def test_an_iteration_that_a_bound_has_stopped_passes_no_gate(tmp_path: Path) -> None:
    iteration = write_iteration(tmp_path / "iteration-1", {"a": ((True,), (True,))})
    write(iteration / "config.json", {"identity": {}})
    write(iteration / "benchmark.json", {"stopped": "Stopped at the bound: 2 of 4 runs."})
    found = read_workspace(tmp_path)
    gates = ci_gates(found, min_pass_rate=0.5, max_regression=0.5)
    assert [each.words for each in gates] == ["Stopped at the bound: 2 of 4 runs."] * 2
    assert not gates_pass(gates)
    assert not found.running


def test_without_a_baseline_the_iteration_before_is_compared(tmp_path: Path) -> None:
    for number, passed in ((1, True), (2, False)):
        write_run(write_case(tmp_path / f"iteration-{number}", "a") / "with_skill", grading(True, passed))
    (gate,) = ci_gates(read_workspace(tmp_path), max_regression=0.1)
    assert (gate.outcome, gate.words) == (GateOutcome.FAILED, "0.50 after 1.00 in iteration-1")


def test_a_regression_pairs_cases(tmp_path: Path) -> None:
    """The skill loses the only case that both arms could run; another one that the baseline lacks does not hide it."""
    cases = {str(number): ((True,), (True,)) for number in range(10)}
    iteration = write_iteration(tmp_path / "iteration-1", {**cases, "a": ((False,), (True,))})
    write_run(write_case(iteration, "b") / "with_skill", grading(True))
    write_run(write_case(iteration, "b") / "without_skill", None, outcome={"status": "error", "error": "no quota"})
    (gate,) = ci_gates(read_workspace(tmp_path), max_regression=0.088)
    assert (gate.outcome, gate.words) == (GateOutcome.FAILED, "0.91 after 1.00 in without_skill")


def test_new_cases_are_no_regression(tmp_path: Path) -> None:
    write_run(write_case(tmp_path / "iteration-1", "a") / "with_skill", grading(True))
    for case, passed in (("a", True), ("b", False)):
        write_run(write_case(tmp_path / "iteration-2", case) / "with_skill", grading(passed))
    assert outcome(tmp_path, max_regression=0.0) is GateOutcome.PASSED


def outcome(root: Path, **limits: float) -> GateOutcome:
    (gate,) = ci_gates(read_workspace(root), **limits)
    return gate.outcome


def test_without_anything_to_compare_there_is_no_verdict(tmp_path: Path) -> None:
    write_run(write_case(tmp_path / "iteration-1", "a") / "with_skill", grading(True))
    assert outcome(tmp_path, max_regression=0.1) is GateOutcome.NO_VERDICT


def test_without_a_graded_run_there_is_no_verdict(tmp_path: Path) -> None:
    write(tmp_path / "iteration-1/benchmark.json", {"metadata": {}})
    assert outcome(tmp_path, min_pass_rate=0.0) is GateOutcome.NO_VERDICT


def test_of_an_iteration_that_runs_there_is_no_verdict(tmp_path: Path) -> None:
    write_iteration(tmp_path / "iteration-1", {"a": ((True,), (True,))}, complete=False)
    assert outcome(tmp_path, min_pass_rate=0.5) is GateOutcome.NO_VERDICT


def test_over_a_tenth_of_errors_there_is_no_verdict(tmp_path: Path) -> None:
    iteration = write_iteration(tmp_path / "iteration-1", {"a": ((True,), (True,))})
    write_run(write_case(iteration, "b") / "with_skill", None, outcome={"status": "error", "error": "no quota"})
    assert outcome(tmp_path, min_pass_rate=0.5) is GateOutcome.NO_VERDICT


def test_queries_have_the_same_gates(tmp_path: Path) -> None:
    good, bad = query("a", should=True, triggers=3), query("b", should=True, triggers=0)
    write_triggers(tmp_path / "triggers-1", [good, good, good, bad])
    assert outcome(tmp_path, min_pass_rate=0.75) is GateOutcome.PASSED
    assert outcome(tmp_path, min_pass_rate=0.8) is GateOutcome.FAILED
    assert outcome(tmp_path, max_regression=0.1) is GateOutcome.NO_VERDICT
    write_triggers(tmp_path / "triggers-2", [good, good, bad, bad])
    assert outcome(tmp_path, max_regression=0.25) is GateOutcome.PASSED
    assert outcome(tmp_path, max_regression=0.2) is GateOutcome.FAILED


def test_the_first_queries_beside_an_iteration_need_no_predecessor(tmp_path: Path) -> None:
    write_iteration(tmp_path / "iteration-1", {"a": ((True,), (True,))})
    write_triggers(tmp_path / "triggers-1", [query("a", should=True, triggers=3)])
    assert outcome(tmp_path, max_regression=0.0) is GateOutcome.PASSED


def test_queries_with_too_many_errors_have_no_verdict(tmp_path: Path) -> None:
    results = [query("a", should=True, triggers=2, runs=2, errors=1, outcomes=["loaded", "loaded", "error"])]
    write_triggers(tmp_path / "triggers-1", results)
    assert outcome(tmp_path, min_pass_rate=0.5) is GateOutcome.NO_VERDICT
