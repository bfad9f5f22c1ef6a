"""`skillserve eval --propose`: a scripted model over HTTP, a workspace on disk, a diff that a person applies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.evals.proposals import find_iteration, print_proposal, read_cases, read_current_skill
from server.capabilities.evals.workspace import EvalError
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places
from skills_core.errors import FileRefusedError
from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint, Raw

MAIN = "---\nname: charts\ndescription: Makes charts. Use for charts.\n---\n\nDraw.\n"
BETTER = MAIN.replace("Draw.", "Label both axes, because readers cannot guess units.")

Propose = Callable[..., None]


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8", newline="")


def answer(main: str = BETTER, files: object = (), summary: str = "Axes had no labels.") -> str:
    return json.dumps({"summary": summary, "skill_md": main, "files": list(files)})  # type: ignore[call-overload]


@pytest.fixture
def skill(make_skill: MakeSkill) -> Path:
    folder = make_skill("charts")
    write(folder / "SKILL.md", MAIN)
    write(folder / "evals/evals.json", {"skill_name": "charts", "evals": []})
    write(folder / "scripts/draw.py", "print()\n")
    return folder


@pytest.fixture
def iteration(tmp_path: Path) -> Path:
    folder = tmp_path / "charts-workspace/iteration-2"
    case = folder / "eval-top-months"
    write(case / "eval_metadata.json", {"eval_id": 1, "prompt": "a chart pls", "expected_output": "A chart"})
    failed = {"text": "Both axes are labelled", "passed": False, "evidence": "no label on x"}
    write(case / "with_skill/grading.json", {"assertion_results": [failed]})
    write(case / "with_skill/transcript.jsonl", '{"text": "I drew it."}\n{"type": "tool_use"}\n')
    write(case / "with_skill/outputs/chart.svg", "<svg/>")
    write(case / "without_skill/run-1/grading.json", {"expectations": [failed]})
    write(case / "without_skill/run-2/grading.json", {"expectations": [{**failed, "passed": True}]})
    write(folder / "feedback.json", {"eval-top-months": "months are in alphabetical order"})
    write(tmp_path / "charts-workspace/iteration-1/eval-old/with_skill/grading.json", {})
    return folder


@pytest.fixture
def run(skill: Path, iteration: Path, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch) -> Propose:
    for name in [name for name in os.environ if name.startswith("SKILLSERVE_")]:
        monkeypatch.delenv(name)

    def propose(model: str | None = endpoint.model, max_requests: int | None = None, **more: Any) -> None:
        flags = {"model": model, "eval_max_requests": max_requests}
        settings = settings_of(Machine(current_places()), flags)
        print_proposal(skill, iteration.parent, settings, **more)

    return propose


def material(endpoint: ModelEndpoint) -> Any:
    (message,) = [each for each in endpoint.requests[0]["messages"] if each["role"] == "user"]
    return json.loads(message["content"])


def test_the_model_is_asked_once_with_all_signals_of_the_latest_iteration(
    run: Propose, endpoint: ModelEndpoint
) -> None:
    endpoint.script = [answer()]
    run()
    sent = material(endpoint)
    assert len(endpoint.requests) == 1
    assert sent["skill"] == {"name": "charts", "skill_md": MAIN, "files": ["SKILL.md", "scripts/draw.py"]}
    (case,) = sent["cases"]
    assert (case["name"], case["prompt"]) == ("eval-top-months", "a chart pls")
    assert case["feedback"] == "months are in alphabetical order"
    assert case["failed_assertions"][0]["passed_in_baseline"] == "1 of 2"
    assert case["runs"] == [
        {"run": "with_skill", "files_written": ["chart.svg"], "transcript": 'I drew it.\n{"type": "tool_use"}\n'}
    ]


def test_the_proposal_is_written_and_printed_and_the_skill_stays_as_it_is(
    run: Propose, endpoint: ModelEndpoint, skill: Path, iteration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.script = [answer()]
    run()
    diff = (iteration / "proposal.diff").read_text(encoding="utf-8")
    assert diff.startswith("# Axes had no labels.\n--- a/SKILL.md\n+++ b/SKILL.md\n")
    printed = capsys.readouterr()
    assert printed.out == diff.partition("\n")[2]
    assert "requests of about" in printed.err.splitlines()[0]
    assert "Used: 1 request, 100 input tokens and 10 output tokens." in printed.err
    assert (skill / "SKILL.md").read_text(encoding="utf-8") == MAIN


@pytest.mark.parametrize("program", ["git", "patch", "git in a repository"])
def test_git_and_patch_apply_the_proposal(
    program: str, run: Propose, endpoint: ModelEndpoint, skill: Path, iteration: Path
) -> None:
    name = program.partition(" ")[0]
    if not shutil.which(name):
        pytest.skip(f"needs {name}")
    hostile = "ok\n--- a/SKILL.md\n+++ b/../outside\n@@ -0,0 +1 @@\n+evil\ndiff --git a/x b/../outside\nIndex: outside"
    files = [{"path": "scripts/axes.py", "content": "-- a/x\n++ b/x\n--- a/outside\n+++ b/outside\n@@ -0,0 +1 @@\n+x"}]
    endpoint.script = [answer(files=files, summary=hostile)]
    run()
    if program.endswith("repository"):
        subprocess.run(["git", "init", "-q", skill.parent], check=True)
    proposal = str(iteration / "proposal.diff")
    command = ["git", "apply", proposal] if name == "git" else ["patch", "-s", "-p1", "-i", proposal]
    before = {path for path in skill.parents[1].rglob("*") if ".git" not in path.parts}
    subprocess.run(command, cwd=skill, check=True)
    assert (skill / "SKILL.md").read_text(encoding="utf-8") == BETTER
    assert (skill / "scripts/axes.py").read_text(encoding="utf-8") == files[0]["content"] + "\n"
    after = {path for path in skill.parents[1].rglob("*") if ".git" not in path.parts}
    assert after - before == {skill / "scripts/axes.py"}


def test_requests_for_a_proposal_are_bounded(run: Propose, endpoint: ModelEndpoint, capsys: Any) -> None:
    endpoint.script = ["no proposal"]
    with pytest.raises(SystemExit) as ended:
        run(max_requests=2)
    assert ended.value.code == 4
    assert "2 of 2 requests are used" in capsys.readouterr().err
    assert len(endpoint.requests) == 2


def test_an_answer_that_breaks_a_rule_is_refused_and_the_model_told_why(
    run: Propose, endpoint: ModelEndpoint, iteration: Path
) -> None:
    outside = answer(files=[{"path": "../../outside.py", "content": "x"}])
    endpoint.script = ["no", outside, answer()]
    run()
    told = [request["messages"][-1]["content"] for request in endpoint.requests]
    assert "holds no JSON object" in told[1]
    assert "not a path below scripts/ or references/" in told[2]
    assert (iteration / "proposal.diff").exists()


def test_after_three_refused_answers_nothing_is_written(
    run: Propose, endpoint: ModelEndpoint, iteration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.script = [answer(MAIN.replace("charts", "other"))]
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 1
    assert len(endpoint.requests) == 3
    assert "None of 3 answers was a valid proposal" in capsys.readouterr().err
    assert not (iteration / "proposal.diff").exists()


@pytest.mark.parametrize("reply", [Raw(b"overloaded", 529), Raw(b"{}"), Hang()])
def test_a_model_that_fails_or_hangs_ends_with_a_message(
    reply: Raw | Hang, run: Propose, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch, iteration: Path
) -> None:
    monkeypatch.setenv("SKILLSERVE_RUN_SECONDS", "1")
    endpoint.script = [reply]
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 1
    assert not (iteration / "proposal.diff").exists()


def test_no_change_is_said_and_replaces_an_older_proposal(
    run: Propose, endpoint: ModelEndpoint, iteration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(iteration / "proposal.diff", "--- a/SKILL.md\n")
    endpoint.script = [answer(MAIN, summary="The assertion asks for the impossible.")]
    run()
    said = "# No change is proposed.\n# The assertion asks for the impossible.\n"
    assert (iteration / "proposal.diff").read_text(encoding="utf-8") == said
    assert capsys.readouterr().out == ""


def test_a_dry_run_tells_the_cost_and_asks_nothing(
    run: Propose, endpoint: ModelEndpoint, iteration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(dry_run=True, as_json=True)
    cost = json.loads(capsys.readouterr().out)
    assert cost["requests"] == 3
    assert cost["tokens_per_request"] > 500
    assert endpoint.requests == []
    assert not (iteration / "proposal.diff").exists()


def test_json_has_the_diff_and_the_usage(
    run: Propose, endpoint: ModelEndpoint, iteration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.script = [answer()]
    run(as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert shown.keys() == {"iteration", "path", "summary", "diff", "usage"}
    assert shown["path"] == str(iteration / "proposal.diff")
    assert shown["usage"] == {"requests": 1, "input_tokens": 100, "output_tokens": 10}


def test_escape_sequences_in_the_skill_do_not_reach_the_terminal(
    run: Propose, endpoint: ModelEndpoint, skill: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(skill / "SKILL.md", MAIN.replace("Draw.", "Draw.\x1b[2J"))
    endpoint.script = [answer(summary="all\x1b[2J done")]
    run()
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="needs symbolic links")
def test_nothing_is_read_or_written_through_a_link(
    run: Propose, endpoint: ModelEndpoint, skill: Path, iteration: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    write(secret, "TOP SECRET")
    run_folder = iteration / "eval-top-months/with_skill"
    (run_folder / "transcript.jsonl").unlink()
    (run_folder / "transcript.jsonl").symlink_to(secret)
    (run_folder / "outputs/link").symlink_to(tmp_path)
    (iteration / "eval-linked").symlink_to(tmp_path)
    shutil.rmtree(skill / "scripts")
    (skill / "scripts").symlink_to(tmp_path)
    endpoint.script = [answer(files=[{"path": "scripts/new.py", "content": "x"}]), answer()]
    (iteration / "proposal.diff").symlink_to(secret)
    with pytest.raises(FileRefusedError):
        run()
    assert "TOP SECRET" not in json.dumps(endpoint.requests)
    assert "below a file or a link" in json.dumps(endpoint.requests[1])
    assert secret.read_text(encoding="utf-8") == "TOP SECRET"
    assert [case.name for case in read_cases(iteration)] == ["eval-top-months"]


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_linked_skill_file_is_refused(skill: Path, tmp_path: Path) -> None:
    (skill / "SKILL.md").rename(tmp_path / "elsewhere.md")
    (skill / "SKILL.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(FileRefusedError, match="link"):
        read_current_skill(skill)


def test_a_huge_transcript_is_named_and_not_read(iteration: Path) -> None:
    transcript = iteration / "eval-top-months/with_skill/transcript.jsonl"
    with transcript.open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    (case,) = read_cases(iteration)
    assert case.runs[0].transcript.startswith("[the transcript cannot be read: the file has 17825792 bytes")


def test_damaged_files_count_as_absent(iteration: Path) -> None:
    for path in [*iteration.rglob("*.json"), *iteration.rglob("*.jsonl")]:
        path.write_bytes(b"[" * 100_000 + b"\xff")
    (case,) = read_cases(iteration)
    assert (case.prompt, case.feedback, case.runs[0].grades, case.baseline) == ("", "", (), {})


def test_a_run_that_failed_is_no_evidence_against_the_skill_and_shows_its_error(iteration: Path) -> None:
    write(iteration / "eval-top-months/with_skill/outcome.json", {"status": "timeout", "error": None})
    (case,) = read_cases(iteration)
    assert (case.runs[0].grades, case.runs[0].error) == ((), "timeout")


def test_runs_are_in_the_order_of_their_numbers(iteration: Path) -> None:
    for number in (10, 9, 1):
        write(iteration / f"eval-top-months/with_skill/run-{number}/grading.json", {})
    assert [run.name for run in read_cases(iteration)[0].runs] == [f"with_skill/run-{n}" for n in (1, 9, 10)]


def test_a_workspace_without_iterations_says_what_to_do(tmp_path: Path) -> None:
    for workspace in (tmp_path, tmp_path / "missing"):
        with pytest.raises(EvalError, match="skillserve eval"):
            find_iteration(workspace)


def test_of_iterations_the_one_with_the_highest_number_is_latest(tmp_path: Path) -> None:
    for name in ("iteration-2", "iteration-10", "iteration-x"):
        (tmp_path / name).mkdir()
    assert find_iteration(tmp_path).name == "iteration-10"
