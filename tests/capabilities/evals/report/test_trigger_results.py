"""Results of trigger queries: what they say, whose outcomes count after an optimization, and how sure it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.capabilities.evals.report.ci import GateOutcome, ci_gates, markdown, trigger_gates
from server.capabilities.evals.report.model import Tone, TriggerSet
from server.capabilities.evals.report.trigger_results import trigger_verdict
from server.capabilities.evals.report.workspace import read_workspace
from server.capabilities.evals.report.writing import current_page
from skills_core.evals.triggers.results import Rate
from tests.capabilities.evals.report.test_page import Parsed
from tests.capabilities.evals.report.workspaces import query, write_triggers

OLD = [query(f"train {place}", should=True, triggers=0, split="train") for place in range(6)]
NEW = [query(f"train {place}", should=True, triggers=3) for place in range(6)]


def optimized(root: Path, *, adopted: bool, **more: Any) -> TriggerSet:
    rounds = [
        {"number": number, "description": f"Description {number}.", "train": 0.5, "results": results}
        for number, results in enumerate((OLD, NEW))
    ]
    test = {
        "opened": True,
        "old": {"passed": 0, "total": 2, "results": [query(f"test {n}", should=True, triggers=0) for n in range(2)]},
        "new": {"passed": 2, "total": 2, "results": [query(f"test {n}", should=True, triggers=3) for n in range(2)]},
        "comparison": {"wins": 2, "losses": 0, "p": 0.5, "verdict": "no verdict", "queries_needed": 6},
    }
    decision = {
        "best_round": 1,
        "adopted": adopted,
        "description": f"Description {int(adopted)}.",
        "reason": "the new description wins: 2 of 2 queries of the sealed test pass, with the old one 0",
        "test": test,
    }
    costs = {"runs_made": 1064, "total_tokens": 1_234_567, "agent_seconds": 88.5, "cost_usd": 1.5}
    write_triggers(root / "triggers-1", OLD, **{"rounds": rounds, "decision": decision, "costs": costs, **more})
    return read_workspace(root).triggers[0]


@pytest.mark.parametrize(("adopted", "passed"), [(True, 8), (False, 0)])
def test_the_description_that_the_skill_has_counts(tmp_path: Path, *, adopted: bool, passed: int) -> None:
    found = optimized(tmp_path, adopted=adopted)
    assert found.results.passed == Rate(passed, 8)
    assert found.description == f"Description {int(adopted)}."
    assert [each.query.split for each in found.results.results] == ["train"] * 6 + ["sealed test"] * 2
    whose = (
        "the new description (round 1, adopted), training queries included"
        if adopted
        else "the old description, which stays"
    )
    assert whose in found.measured
    assert whose in trigger_verdict(found).reason
    gates = [*trigger_gates(found, min_recall=0.5), *ci_gates(read_workspace(tmp_path), min_pass_rate=0.5)]
    assert len(gates) == 2
    assert all(whose in gate.words for gate in gates)
    if adopted:
        page = Parsed(current_page(read_workspace(tmp_path))).text
        assert "As wanted, new description" in page
        assert optimized(tmp_path, adopted=False).results == found.replaced


def test_without_the_outcomes_of_the_new_description_it_says_so(tmp_path: Path) -> None:
    found = optimized(tmp_path, adopted=True, rounds=[{"number": 1, "description": "x"}], decision={"adopted": True})
    assert found.results.passed == Rate(0, 6)
    assert "not in this file" in trigger_verdict(found).reason


def test_a_decision_has_intervals_and_says_that_it_may_be_chance(tmp_path: Path) -> None:
    decision = optimized(tmp_path, adopted=True).decision
    assert decision is not None
    assert (decision.tone, decision.title) == (Tone.NONE, "Adopted, no verdict")
    assert decision.reason == (
        "sealed test, new description: 2 of 2 queries (95 % interval 0.34 to 1.00); sealed test, old description: "
        "0 of 2 queries (95 % interval 0.00 to 0.66); only the new one passes 2, only the old one 0 (McNemar's exact "
        "test: p = 0.5); about 6 queries would show a difference of this size."
    )
    found = read_workspace(tmp_path)
    assert "Adopted, no verdict" in markdown(found)
    assert "Adopted, no verdict" in Parsed(current_page(found)).text


def test_a_gate_that_passes_is_not_contradicted(tmp_path: Path) -> None:
    some = [query(str(place), should=True, triggers=3 * (place % 2)) for place in range(4)]
    write_triggers(tmp_path / "triggers-1", some)
    verdict = trigger_verdict(read_workspace(tmp_path).triggers[0])
    assert (verdict.tone, verdict.title) == (Tone.MIXED, "Some not as wanted")
    write_triggers(tmp_path / "triggers-1", some[::2])
    assert trigger_verdict(read_workspace(tmp_path).triggers[0]).tone is Tone.BAD


def test_the_cost_of_queries_is_told_and_added_up(tmp_path: Path) -> None:
    optimized(tmp_path, adopted=True)
    page = Parsed(current_page(read_workspace(tmp_path))).text
    assert "triggers-11,06488.51,234,567$1.50" in page


def test_over_a_tenth_of_errors_queries_have_no_verdict(tmp_path: Path) -> None:
    results = [query(str(number), should=True, triggers=3) for number in range(4)]
    write_triggers(tmp_path / "triggers-1", results)
    assert trigger_verdict(read_workspace(tmp_path).triggers[0]).tone is Tone.GOOD
    results[0] = query("0", should=True, triggers=1, runs=1, errors=2, outcomes=["loaded", "error", "timeout"])
    write_triggers(tmp_path / "triggers-1", results)
    assert trigger_verdict(read_workspace(tmp_path).triggers[0]).tone is Tone.NONE


def test_the_report_judges_by_the_rule_of_the_command(tmp_path: Path) -> None:
    """No run of one query counts, so neither `triggers` nor the report can tell whether all are as wanted."""
    results = [query(str(number), should=True, triggers=3) for number in range(10)]
    results += [query("broken", should=True, triggers=0, runs=0, errors=1, outcomes=["error"])]
    write_triggers(tmp_path / "triggers-1", results)
    workspace = read_workspace(tmp_path)
    verdict = trigger_verdict(workspace.triggers[0])
    assert (verdict.tone, verdict.reason) == (Tone.NONE, workspace.triggers[0].results.no_verdict)
    assert verdict.reason == "1 of 11 queries has no run that counts"
    (gate,) = ci_gates(workspace, min_pass_rate=0.5)
    assert (gate.outcome, gate.words) == (GateOutcome.NO_VERDICT, verdict.reason)
