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
        "comparison": {
            "wins": 2,
            "losses": 0,
            "p": 0.25,
            "gain": 0.5,
            "interval": [0.1, 0.9],
            "should_trigger": {"queries": 2, "new_rate": 1.0, "old_rate": 0.0, "gain": 1.0, "p_harm": 0.75},
            "should_not_trigger": {"queries": 2, "new_rate": 1.0, "old_rate": 1.0, "gain": 0.0, "p_harm": 0.5},
            "errors": {"new": {"errors": 1, "runs": 12}, "old": {"errors": 0, "runs": 12}},
            "verdict": "better" if adopted else "no verdict",
            "queries_needed": None if adopted else 6,
        },
    }
    decision = {
        "best_round": 1,
        "adopted": adopted,
        "description": f"Description {int(adopted)}.",
        "proposed": not adopted,
        "reason": "the new description is adopted"
        if adopted
        else "no verdict, so the new description is only proposed",
        "gain": 0.3 if adopted else None,
        "gain_interval": [0.05, 0.6] if adopted else None,
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
        assert "Loaded it, new description" in page
        assert optimized(tmp_path, adopted=False).results == found.replaced


def test_without_the_outcomes_of_the_new_description_it_says_so(tmp_path: Path) -> None:
    found = optimized(tmp_path, adopted=True, rounds=[{"number": 1, "description": "x"}], decision={"adopted": True})
    assert found.results.passed == Rate(0, 6)
    assert "not in this file" in trigger_verdict(found).reason


def test_a_decision_has_the_gain_both_kinds_of_queries_and_the_errors_of_each_description(tmp_path: Path) -> None:
    decision = optimized(tmp_path, adopted=True).decision
    assert decision is not None
    assert (decision.tone, decision.title) == (Tone.GOOD, "Adopted, better")
    assert decision.reason == (
        "the new description is adopted; gain +0.30 (95 % interval 0.05 to 0.60), corrected for the adoption; sealed "
        "test: measured +0.50 (95 % interval 0.10 to 0.90); 2 queries that should load the skill: loaded in 100% of "
        "the runs, with the old description in 0%; 2 queries that should not: loaded in 100% of the runs, with the old "
        "description in 100%; 1 of 12 runs with the new description failed."
    )
    found = read_workspace(tmp_path)
    assert "Adopted, better" in markdown(found)
    assert "Adopted, better" in Parsed(current_page(found)).text


def test_a_description_without_a_verdict_is_only_proposed(tmp_path: Path) -> None:
    decision = optimized(tmp_path, adopted=False).decision
    assert decision is not None
    assert (decision.tone, decision.title) == (Tone.NONE, "Only proposed, no verdict")
    assert "about 6 queries would show a gain of this size" in decision.reason


def test_false_alarms_are_called_so_in_the_page_and_in_markdown(tmp_path: Path) -> None:
    write_triggers(tmp_path / "triggers-1", [query(str(place), should=False, triggers=3) for place in range(8)])
    found = read_workspace(tmp_path)
    assert "of 8 that should not, 8 loaded it: 8 false alarms" in markdown(found)
    page = Parsed(current_page(found)).text
    assert "should not: false alarms8 of 8" in page
    assert "✗ false alarm" in page


def test_decisions_of_earlier_versions_are_shown(tmp_path: Path) -> None:
    compared = {"wins": 2, "losses": 0, "p": 0.5, "verdict": "no verdict", "queries_needed": 6}
    old = {"adopted": True, "reason": "the new description wins", "test": {"opened": True, "comparison": compared}}
    decision = optimized(tmp_path, adopted=True, decision=old).decision
    assert decision is not None
    assert decision.title == "Adopted, no verdict"
    assert decision.reason.startswith("the new description wins; ")


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
