"""The words of the page: nothing twice, every number with what it is of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.capabilities.evals.report.workspace import read_workspace
from server.capabilities.evals.report.writing import current_page
from server.html.charts import Line, draw_chart
from tests.capabilities.evals.report.test_page import Parsed
from tests.capabilities.evals.report.workspaces import (
    creator_workspace,
    full_workspace,
    grading,
    write,
    write_case,
    write_iteration,
    write_run,
)


def text_of(root: Path) -> str:
    return Parsed(current_page(read_workspace(root))).text


def test_notes_repeat_neither_the_verdict_nor_the_patterns(tmp_path: Path) -> None:
    notes = ["Verdict: no verdict. One case.", "eval-a: 'x' passes in both arms.", "The judge is the model itself."]
    write_iteration(tmp_path / "iteration-1", {"a": ((True,), (True,))}, notes=notes, remarks=notes[2:])
    text = text_of(tmp_path)
    assert notes[2] in text
    assert notes[0] not in text
    assert notes[1] not in text


@pytest.mark.parametrize("complete", [True, False])
def test_cases_have_the_order_of_their_file(tmp_path: Path, *, complete: bool) -> None:
    order = ["zebra", "ant", "10", "2"]
    cases = dict.fromkeys(("late", *sorted(order)), ((True,), (True,)))
    iteration = write_iteration(tmp_path / "iteration-1", cases, complete=complete)
    if complete:
        write(iteration / "benchmark.json", {"metadata": {"evals_run": ["zebra", "ant", 10, 2]}})
    else:
        write(iteration / "config.json", {"evals_run": ["zebra", "ant", 10, 2]})
    assert [case.name for case in read_workspace(tmp_path).iterations[0].cases] == [*order, "late"]


def test_the_tested_skill_comes_first_in_transcripts_too(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "a")
    for arm in ("old_skill", "with_skill"):
        write_run(folder / arm, grading(True), transcript=[{"text": f"I am {arm}"}])
    text = text_of(tmp_path)
    assert text.index("I am with_skill") < text.index("I am old_skill")


def test_each_difference_names_its_baseline_and_its_unit(tmp_path: Path) -> None:
    write_iteration(tmp_path / "iteration-1", {"a": ((True,), (False,)), "b": ((True,), (True,))})
    folder = write_case(tmp_path / "iteration-2", "a")
    write_run(folder / "with_skill", grading(True))
    write_run(folder / "old_skill", grading(True))
    write(tmp_path / "iteration-2/benchmark.json", {"metadata": {"baseline": "HEAD~1"}})
    text = text_of(tmp_path)
    assert re.search(r"iteration-1100\s%without skill\+50\spoints \(95\s%: -100 to \+100\)", text)
    assert re.search(r"iteration-2100\s%old skill \(HEAD~1\)0\spoints", text)
    assert "Difference (percentage points)" in text
    assert "Against baseline" not in text


@pytest.mark.parametrize("write_workspace", [full_workspace, creator_workspace])
def test_no_number_disagrees_with_its_noun(tmp_path: Path, write_workspace: object) -> None:
    assert callable(write_workspace)
    root = write_workspace(tmp_path / "w")
    metrics = {**grading(True), "execution_metrics": {"total_tool_calls": 1}}
    write_run(write_case(root / "iteration-9", "x") / "with_skill", metrics, timing={"total_tokens": 1})
    text = text_of(root)
    assert "1 token, 1 tool call" in text
    assert not re.search(r"(?<![\d,.])1 (tokens|tool calls|runs|cases|queries|errors|characters)\b", text)


def test_equal_rates_do_not_hide_one_another() -> None:
    chart = draw_chart(["a", "b"], [Line("one", (0.5, 0.5)), Line("two", (0.5, 0.5))])
    first, second = (series.points for series in chart.series)
    assert all(abs(ours[0] - theirs[0]) >= 10 for ours, theirs in zip(first, second, strict=True))


def test_failed_runs_are_no_rate_of_queries(tmp_path: Path) -> None:
    text = text_of(full_workspace(tmp_path))
    assert re.search(r"should not: false alarms1 of 2 \(95\s%: [\d.]+ to [\d.]+\)", text)
    assert "Runs that ended in an error or a timeout: 1 of 13." in text


def test_costs_are_those_of_all_runs_and_have_a_sum(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "a")
    for arm, outcome in (("with_skill", "done"), ("without_skill", "error")):
        timing = {"total_tokens": 1500, "duration_ms": 2000, "total_cost_usd": 0.25}
        write_run(folder / arm, grading(True), timing=timing, outcome={"status": outcome, "error": ""})
    text = text_of(tmp_path)
    assert "In all243,000$0.50" in text
    assert "without skill121,500$0.2500" in text


def test_transcripts_of_our_executor_are_sentences_and_not_raw_values(tmp_path: Path) -> None:
    call = {"number": 1, "tool": "write_file", "arguments": {"path": "a.md"}, "decision": "done", "text": "Created."}
    refused = {**call, "decision": "refused", "reason": "outside of the workspace", "text": ""}
    entries = [
        {"at": "2026-11-23", "text": "", "wanted": ["write_file"], "usage": {"requests": 1}, "kind": "model"},
        {"at": "2026-11-23", "call": call, "kind": "tool"},
        {"at": "2026-11-23", "call": refused, "kind": "tool"},
        {"kind": "model", "text": 5, "wanted": "x"},
    ]
    write_run(write_case(tmp_path / "iteration-1", "a") / "with_skill", grading(True), transcript=entries)
    (run,) = read_workspace(tmp_path).iterations[0].cases[0].runs
    assert run.transcript.head[:3] == (
        ("model", "→ write_file"),
        ("tool", '→ write_file {\n "path": "a.md"\n}\n← Created.'),
        ("tool", '→ write_file {\n "path": "a.md"\n}\nrefused: outside of the workspace'),
    )
    assert run.transcript.head[3][0] == "model"
