"""Reading workspaces: both dialects, incomplete ones and hostile ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.capabilities.evals.report.model import FileKind, Results, Status
from server.capabilities.evals.report.workspace import WorkspaceError, read_workspace
from skills_core.evals.triggers.results import Rate
from tests.capabilities.evals.report.workspaces import (
    creator_workspace,
    full_workspace,
    grading,
    hostile_workspace,
    query,
    write,
    write_case,
    write_iteration,
    write_run,
    write_triggers,
)

SEED_GRADING = {
    "assertion_results": [
        {
            "text": "The output includes a bar chart image file",
            "passed": True,
            "evidence": "Found chart.png (45KB) in outputs directory",
        },
        {
            "text": "Both axes are labeled",
            "passed": False,
            "evidence": "Y-axis is labeled 'Revenue ($)' but X-axis has no label",
        },
    ],
    "summary": {"passed": 1, "failed": 1, "total": 2, "pass_rate": 0.5},
}


def test_the_workspace_of_the_guide_is_read(tmp_path: Path) -> None:
    run = tmp_path / "csv-analyzer-workspace/iteration-1/eval-top-months-chart/with_skill"
    write(run / "grading.json", SEED_GRADING)
    write(run / "timing.json", {"total_tokens": 84852, "duration_ms": 23332})
    write(run / "outputs/chart.txt", "a chart")
    write(tmp_path / "csv-analyzer-workspace/iteration-1/feedback.json", {"eval-top-months-chart": "no axis labels"})
    found = read_workspace(tmp_path / "csv-analyzer-workspace")
    (case,) = found.iterations[0].cases
    (read,) = case.runs
    assert found.skill == "csv-analyzer"
    assert (case.key, case.feedback) == ("eval-top-months-chart", "no axis labels")
    assert (read.arm, read.number, read.rate, read.tokens, read.seconds) == ("with_skill", 1, 0.5, 84852, 23.332)
    assert read.checks[1].evidence.startswith("Y-axis is labeled")
    assert [file.content for file in read.outputs] == ["a chart"]
    assert not found.problems


def test_several_runs_lie_in_folders_of_their_own_in_numeric_order(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "x")
    for number in (10, 2, 1):
        write_run(folder / f"with_skill/run-{number}", grading(True))
    (case,) = read_workspace(tmp_path).iterations[0].cases
    assert [run.number for run in case.runs] == [1, 2, 10]


def test_the_workspace_of_skill_creator_is_read(tmp_path: Path) -> None:
    found = read_workspace(creator_workspace(tmp_path / "painter-workspace"))
    iteration, triggers = found.iterations[0], found.triggers[0]
    assert found.skill == "painter"
    assert (iteration.arms, iteration.subject, iteration.baseline) == (
        ("new_skill", "old_skill"),
        "new_skill",
        "old_skill",
    )
    first = iteration.cases[0]
    assert (first.name, first.prompt, first.feedback) == ("Ocean 0", "Paint.", "new_skill-run-1: too blue")
    assert iteration.cases[1].feedback == ""
    run = first.of("new_skill")[0]
    # The number of characters is no number of tokens.
    assert (run.seconds, run.tokens, run.tool_calls, run.notes) == (23.3, 84852, 15, ("Used 2023 data",))
    assert run.transcript.head[0][1].startswith("## Eval Prompt")
    assert [(each.number, dict(each.scores)["test"].rate) for each in triggers.rounds] == [(1, 0.5), (2, 0.5)]
    assert triggers.best == 2
    assert [each.query.split for each in triggers.results.results] == ["train", "train", "test"]


def test_an_iteration_alone_is_a_workspace_too(tmp_path: Path) -> None:
    write_iteration(tmp_path / "iteration-7", {"a": ((True,), (False,))})
    found = read_workspace(tmp_path / "iteration-7")
    assert [case.key for case in found.iterations[0].cases] == ["eval-a"]


def test_a_benchmark_without_folders_still_has_its_runs(tmp_path: Path) -> None:
    entry = {
        "eval_id": 1,
        "eval_name": "Ocean",
        "configuration": "with_skill",
        "run_number": 1,
        "result": {"pass_rate": 0.85, "passed": 6, "failed": 1, "total": 7, "time_seconds": 42.5, "tokens": 3800},
        "expectations": [],
    }
    write(tmp_path / "iteration-1/benchmark.json", {"metadata": {}, "runs": [entry]})
    (case,) = read_workspace(tmp_path).iterations[0].cases
    assert (case.name, case.runs[0].rate, case.runs[0].seconds) == ("Ocean", 0.85, 42.5)


def test_a_run_in_progress_is_pending_and_the_workspace_runs(tmp_path: Path) -> None:
    iteration = write_iteration(tmp_path / "iteration-1", {"a": ((True,), (False,))}, complete=False)
    write_run(write_case(iteration, "b") / "with_skill", None)
    found = read_workspace(tmp_path)
    assert found.running
    assert [run.status for run in found.iterations[0].cases[1].runs] == [Status.PENDING]
    write(iteration / "benchmark.json", {"metadata": {}})
    assert not read_workspace(tmp_path).running


def test_an_error_or_a_timeout_is_no_grade(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "x")
    for number, status in enumerate(("error", "timeout"), 1):
        outcome = {"status": status, "error": "it failed", "exit_code": 1}
        write_run(folder / f"with_skill/run-{number}", grading(True), outcome=outcome)
    (case,) = read_workspace(tmp_path).iterations[0].cases
    assert [(run.status, run.failed, run.graded) for run in case.runs] == [
        (Status.ERROR, True, False),
        (Status.TIMEOUT, True, False),
    ]


def test_errors_leave_the_denominator_of_a_query(tmp_path: Path) -> None:
    outcomes = ["loaded", "error", "timeout"]
    write_triggers(
        tmp_path / "triggers-1",
        [
            query("with outcomes", should=True, triggers=1, runs=1, errors=2, outcomes=outcomes),
            query("errors in runs", should=True, triggers=1, runs=3, errors=2, trigger_rate=1.0),
            query("nothing counts", should=True, triggers=0, runs=3, errors=3, **{"pass": False}),
        ],
    )
    first, second, third = read_workspace(tmp_path).triggers[0].results.results
    assert (first.rate, first.errors) == (Rate(1, 1), 2)
    assert (second.rate, second.errors) == (Rate(1, 1), 2)
    assert (third.rate, third.passed) == (Rate(0, 0), None)


def test_a_score_of_a_round_is_an_object_or_a_rate(tmp_path: Path) -> None:
    rounds = [
        {"number": 0, "description": "a", "train": {"passed": 3, "total": 4, "pass_rate": 0.75}, "validation": 0.5},
        {"number": 1, "description": "b", "train": {"passed": 4, "total": 4}, "validation": "none"},
    ]
    write_triggers(tmp_path / "triggers-1", [], rounds=rounds, best_round=0)
    (found,) = read_workspace(tmp_path).triggers
    assert [{name: score.rate for name, score in each.scores} for each in found.rounds] == [
        {"train": 0.75, "validation": 0.5},
        {"train": 1.0},
    ]
    assert found.best == 0


def test_the_answer_of_the_agent_is_the_first_output(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "x") / "with_skill"
    write_run(folder, grading(True), outputs={"a.txt": "a file"})
    write(folder / "answer.txt", "The answer.")
    (case,) = read_workspace(tmp_path).iterations[0].cases
    assert [file.content for file in case.runs[0].outputs] == ["The answer.", "a file"]


def test_a_decision_on_a_description_is_told_with_the_sealed_test(tmp_path: Path) -> None:
    rounds = [{"number": number, "description": str(number), "train": 0.5, "validation": 0.5} for number in (0, 1)]
    test = {"opened": True, "old": {"passed": 3, "total": 4}, "new": {"passed": 4, "total": 4}, "comparison": None}
    decision = {"best_round": 1, "adopted": True, "reason": "the new description wins", "test": test}
    agent = {"agent": "claude", "version": "2.1"}
    more = {"agent": agent, "finished": False, "costs": {"runs_made": 15, "planned": {}}}
    write_triggers(tmp_path / "triggers-1", [], rounds=rounds, decision=decision, **more)
    found = read_workspace(tmp_path)
    assert found.skill == "csv-analyzer"
    assert found.running
    assert found.triggers[0].best == 1
    assert found.triggers[0].facts == (
        ("Agent", "claude"),
        ("Version", "2.1"),
    )
    assert found.triggers[0].spent.runs == 15
    decided = found.triggers[0].decision
    assert decided is not None
    assert decided.title == "Adopted, no verdict"
    assert "new description: 4 of 4 queries (95 % interval 0.51 to 1.00)" in decided.reason
    assert "old description: 3 of 4 queries (95 % interval 0.30 to 0.95)" in decided.reason


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_workspace(hostile_workspace(tmp_path_factory.mktemp("hostile") / "workspace"))


def test_links_out_of_the_folder_are_named_and_not_followed(hostile: Results) -> None:
    case = next(case for case in hostile.iterations[0].cases if case.key == "eval-hostile")
    files = {file.name: file for file in case.of("with_skill")[0].outputs}
    assert files["link.txt"].note == files["folder"].note == "Not read: a link, which is not followed."
    assert "secret" not in "".join(file.content for file in files.values())


def test_a_case_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    elsewhere = write_case(tmp_path / "elsewhere", "x", prompt="the secret")
    write_run(elsewhere / "with_skill", grading(True))
    write_iteration(tmp_path / "workspace/iteration-1", {"a": ((True,), (True,))})
    (tmp_path / "workspace/iteration-1/eval-x").symlink_to(elsewhere, target_is_directory=True)
    (tmp_path / "workspace/iteration-1/eval-a/with_skill/transcript.jsonl").symlink_to(elsewhere / "eval_metadata.json")
    found = read_workspace(tmp_path / "workspace")
    assert [case.key for case in found.iterations[0].cases] == ["eval-a"]
    assert any("symbolic link" in problem for problem in found.problems)
    assert "the secret" not in repr(found)


def test_the_kind_of_an_output_is_told_by_its_content(hostile: Results) -> None:
    case = next(case for case in hostile.iterations[0].cases if case.key == "eval-hostile")
    files = {file.name: file for file in case.of("with_skill")[0].outputs}
    kinds = {name: file.kind for name, file in files.items()}
    assert kinds["real.png"] is kinds["image.svg"] is FileKind.IMAGE
    assert kinds["fake.png"] is kinds["page.html"] is kinds["bytes.txt"] is FileKind.TEXT
    assert kinds["binary.bin"] is FileKind.OTHER
    assert (files["binary.bin"].size, files["binary.bin"].digest[:7]) == (2048, "sha256:")
    assert files["line.txt"].note == "The first 65,536 of 3,000,000 characters."
    assert files["sub/<b>name</b>.txt"].content == "nested"


def test_a_file_that_is_no_json_is_a_problem_and_the_rest_is_shown(hostile: Results) -> None:
    problems = "\n".join(hostile.problems)
    assert "eval-broken/with_skill/grading.json: not JSON (line 1, column 2)" in problems
    assert "eval-deep/with_skill/grading.json: not usable: its values are nested too deep" in problems
    assert len(hostile.iterations[0].cases) == 3


def test_a_long_transcript_loses_its_middle_and_says_so(hostile: Results) -> None:
    case = next(case for case in hostile.iterations[0].cases if case.key == "eval-hostile")
    transcript = case.of("with_skill")[0].transcript
    assert (len(transcript.head), len(transcript.tail), transcript.left_out) == (60, 60, 383)
    assert "(6,000 more)" in transcript.head[2][1]


def test_a_message_of_an_agent_is_shown_as_text_and_tool_calls(tmp_path: Path) -> None:
    found = read_workspace(full_workspace(tmp_path / "csv-analyzer-workspace"))
    transcript = found.iterations[-1].cases[0].of("with_skill")[0].transcript
    label, text = transcript.head[1]
    assert label == "assistant"
    assert text == 'I load the skill first.\nThen I read the file.\n→ Skill {\n "skill": "csv-analyzer"\n}'


@pytest.mark.parametrize(
    "value",
    ["[]", "null", '"text"', '{"metadata": [], "runs": 3, "notes": {"a": 1}}', '{"runs": [{"result": 1}, null, 5]}'],
)
def test_values_of_the_wrong_type_count_as_missing(tmp_path: Path, value: str) -> None:
    iteration = tmp_path / "iteration-1"
    write(iteration / "benchmark.json", value)
    for name in ("grading.json", "timing.json", "outcome.json", "eval_metadata.json"):
        write(iteration / "eval-a/with_skill" / name, value)
    write(iteration / "feedback.json", value)
    write(tmp_path / "triggers-1/results.json", value)
    assert read_workspace(tmp_path).iterations[0].cases[0].runs[0].rate is None


def test_numbers_that_are_none_count_as_missing(tmp_path: Path) -> None:
    timing = '{"total_tokens": NaN, "duration_ms": 1e999, "total_duration_seconds": 1' + "0" * 400 + "}"
    write(tmp_path / "iteration-1/eval-a/with_skill/timing.json", timing)
    (run,) = read_workspace(tmp_path).iterations[0].cases[0].runs
    assert (run.tokens, run.seconds) == (None, None)


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_without_results_is_an_error_that_says_what_is_expected(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(WorkspaceError, match="skillserve eval"):
        read_workspace(tmp_path / name)
