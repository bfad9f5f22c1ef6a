"""Results are where other tools look for them, and those of other tools and of earlier versions are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.evals.report.workspace import read_workspace
from tests.capabilities.evals.conftest import HELLO, Lab

FAILS = {"text": "never holds", "check": "exit 1"}


def runs_of_creator(iteration: Path) -> list[dict[str, Any]]:
    """Return what skill-creator's aggregator finds: `eval-*/ARM/run-K/grading.json`, with the times beside it."""
    found = []
    for grading in sorted(iteration.glob("eval-*/*/run-*/grading.json")):
        run, case = grading.parent, grading.parents[2]
        summary = json.loads(grading.read_text())["summary"]
        timing = json.loads((run / "timing.json").read_text())
        result = {"pass_rate": summary["pass_rate"], "time_seconds": timing["total_duration_seconds"]}
        found.append(
            {
                "eval_id": json.loads((case / "eval_metadata.json").read_text())["eval_id"],
                "configuration": run.parent.name,
                "run_number": int(run.name.removeprefix("run-")),
                # It writes 0 where a number is missing.
                "result": {**result, "tokens": timing["total_tokens"] or 0, "tool_calls": 0, "errors": 0},
                "expectations": json.loads(grading.read_text())["expectations"],
                "notes": [],
            }
        )
    return found


def test_a_single_run_is_where_skill_creator_looks(lab: Lab) -> None:
    lab.report()
    found = runs_of_creator(lab.workspace / "iteration-1")
    assert [(run["eval_id"], run["configuration"], run["run_number"]) for run in found] == [
        (1, "with_skill", 1),
        (1, "without_skill", 1),
        (2, "with_skill", 1),
        (2, "without_skill", 1),
    ]
    assert [run["result"]["pass_rate"] for run in found] == [1.0, 0.0, 1.0, 0.0]
    # Its viewer takes each folder with `outputs` for a run, and looks for the prompt there or one folder above.
    seen = {place.parent for place in lab.workspace.glob("iteration-1/**/outputs")}
    assert len(seen) == len(found)
    assert {json.loads((run / "eval_metadata.json").read_text())["prompt"] for run in seen} == {"greet"}


def test_a_run_without_assertions_has_no_grading_that_an_aggregator_would_count(lab: Lab) -> None:
    lab.write_evals({"assertions": [HELLO]}, {})
    report = lab.report()
    assert report["errors"] == 0
    found = runs_of_creator(lab.workspace / "iteration-1")
    assert [(run["eval_id"], run["result"]["pass_rate"]) for run in found] == [(1, 1.0), (1, 0.0)]
    (shown,) = read_workspace(lab.workspace).iterations
    assert [(run.status, run.rate, run.failed) for run in shown.cases[1].runs] == [("done", None, False)] * 2
    assert lab.report()["iteration"] == 2


def test_no_grading_outlives_the_assertions_of_its_case(lab: Lab) -> None:
    lab.report()
    lab.write_evals({"assertions": [HELLO]}, {})
    assert lab.report("--grade")["errors"] == 0
    found = runs_of_creator(lab.workspace / "iteration-1")
    assert [(run["eval_id"], run["result"]["pass_rate"]) for run in found] == [(1, 1.0), (1, 0.0)]
    assert len(lab.logged()) == 4


def test_ids_of_a_set_can_be_sorted(lab: Lab) -> None:
    lab.write_evals({"id": 1, "assertions": [HELLO]}, {"id": "two", "assertions": [HELLO]})
    lab.report()
    found = runs_of_creator(lab.workspace / "iteration-1")
    assert sorted({run["eval_id"] for run in found}) == ["1", "two"]
    (shown,) = read_workspace(lab.workspace).iterations
    assert [case.key for case in shown.cases] == ["eval-1", "eval-two"]


def test_a_benchmark_of_skill_creator_in_the_place_of_ours_changes_nothing_that_is_shown(lab: Lab) -> None:
    lab.write_evals({"assertions": [HELLO, FAILS]}, {"assertions": [HELLO]})
    lab.report()
    before = read_workspace(lab.workspace)
    file = lab.workspace / "iteration-1/benchmark.json"
    metadata = {
        "skill_name": "<skill-name>",
        "executor_model": "<model-name>",
        "analyzer_model": "<model-name>",
        "timestamp": "2026-01-15T10:30:00Z",
        "evals_run": [1, 2],
        "runs_per_configuration": 3,
    }
    spread = {"mean": 0.5, "stddev": 0.0, "min": 0.0, "max": 1.0}
    summary = {arm: {"pass_rate": spread} for arm in ("with_skill", "without_skill")}
    theirs = {
        "metadata": metadata,
        "runs": runs_of_creator(file.parent),
        "run_summary": {**summary, "delta": {"pass_rate": "+0.00", "tokens": "+0"}},
        "notes": ["the analyst's note"],
    }
    file.write_text(json.dumps(theirs))
    after = read_workspace(lab.workspace)
    ours, shown = before.iterations[0], after.iterations[0]
    assert shown.scores == ours.scores
    assert [case.runs for case in shown.cases] == [case.runs for case in ours.cases]
    facts = dict(shown.facts)
    assert facts["Runs in each arm"] == "1"
    assert not [fact for fact in facts.values() if fact.startswith("<")]
    assert "the analyst's note" in shown.notes
    assert after.skill == before.skill


def flattened(iteration: Path) -> None:
    """Move the single runs of an iteration to where earlier versions had them."""
    for run in sorted(iteration.glob("eval-*/*/run-1")):
        for each in run.iterdir():
            each.rename(run.parent / each.name)
        run.rmdir()


def test_a_flat_iteration_of_an_earlier_version_is_continued(lab: Lab) -> None:
    lab.report()
    iteration = lab.workspace / "iteration-1"
    flattened(iteration)
    (iteration / "benchmark.json").unlink()
    (iteration / "eval-2/without_skill/outcome.json").unlink()
    report = lab.report()
    assert (report["iteration"], report["resumed"], report["plan"]["runs_to_do"]) == (1, True, 1)
    assert report["run_summary"]["delta"]["pass_rate"] == 1.0
    assert len(lab.logged()) == 5
    (shown,) = read_workspace(lab.workspace).iterations
    assert [len(case.runs) for case in shown.cases] == [2, 2]


@pytest.mark.parametrize("flat", [False, True], ids=["run-1", "flat"])
def test_outputs_in_either_place_are_graded_again(lab: Lab, *, flat: bool) -> None:
    lab.report()
    if flat:
        flattened(lab.workspace / "iteration-1")
    lab.write_evals({"assertions": [HELLO, FAILS]}, {"assertions": [HELLO, FAILS]})
    report = lab.report("--grade")
    assert report["run_summary"]["with_skill"]["pass_rate"]["mean"] == 0.5
    assert len(lab.logged()) == 4
