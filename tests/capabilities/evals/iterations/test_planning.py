"""Faults and costs are known before anything is run; baselines come from git, folders and snapshots."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.evals.iterations.runner import input_paths
from server.capabilities.evals.run_eval import report_lines
from skills_core.evals.grading.benchmark import benchmark_of
from skills_core.evals.grading.cases import EvalCase
from skills_core.evals.grading.results import Arm
from tests.capabilities.evals.conftest import HELLO, Lab
from tests.core.evals.runs import METADATA, run_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")


def test_a_dry_run_says_what_would_be_run_and_writes_nothing(lab: Lab) -> None:
    done = lab.run("--dry-run", "--runs", 3)
    assert done.returncode == 0
    assert done.stdout.startswith("greeter: begins ")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    assert rows["with_skill"][:2] == ["6", "6"]
    assert (rows["total"][:2], rows["total"][3:]) == (["12", "12"], ["unknown", "unknown"])
    report = lab.report("--dry-run", "--runs", 3)
    assert (report["dry_run"], report["plan"]["runs"], report["plan"]["judge_requests"]) == (True, 12, 0)
    assert not lab.workspace.exists()
    assert lab.logged() == []


def test_a_dry_run_estimates_tokens_and_money_from_earlier_runs(lab: Lab) -> None:
    lab.report()
    for file in (lab.workspace / "iteration-1").glob("*/*/*/timing.json"):
        own = 1000 if "with_skill" in file.parts else 400
        file.write_text(json.dumps({"total_tokens": own, "duration_ms": 2000, "cost_usd": own / 1000}))
    plan = lab.report("--dry-run", "--runs", 2, "--jobs", 2)["plan"]
    assert (plan["expected_tokens"], plan["expected_cost_usd"], plan["expected_seconds"]) == (5600, 5.6, 8.0)
    assert plan["based_on_runs"] == 4
    printed = lab.run("--dry-run", "--runs", 2, "--jobs", 2).stdout
    assert re.search(r"^total +8 +8 +5,600 +\$5\.60 +8 s$", printed, re.MULTILINE)
    assert "(measured in 4 earlier runs of these cases)" in printed


def test_without_agent_or_judge_nothing_begins(lab: Lab) -> None:
    done = lab.run(agent="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "name one with --agent, its command with --agent-command, or a model for our own with --model" in done.stderr
    lab.write_evals({"assertions": ["it is polite"]})
    done = lab.run()
    assert done.returncode == 2
    assert "a model with --judge-model or an agent with --judge-agent, or give each assertion a command" in done.stderr
    for flags in (["--judge-model", "client"], ["--model", "client"]):
        assert "needs a connected client" in lab.run(*flags).stderr
    assert "names no model" in lab.run("--judge-model", "nonsense").stderr
    assert not lab.workspace.exists()


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"prompt": 3}, "evals[0].prompt: expected text, found a number"),
        ({"files": ["evals/files/none.csv"]}, "eval-1 is left out: evals/files/none.csv:"),
        ({"files": ["evals/files"]}, "eval-1 is left out:"),
        ({"files": ["evals/files/link"]}, "eval-1 is left out: evals/files/link:"),
        (
            {"files": ["evals/empty"]},
            "eval-1 is left out: evals/empty: expected a folder with 1 to 1000 files, found none",
        ),
        (
            {"assertions": [{"text": "x", "check": "if then"}]},
            "evals[0].assertions[0].check: expected a command for sh",
        ),
    ],
)
def test_a_fault_in_the_evals_is_reported_with_its_place(lab: Lab, case: dict[str, Any], says: str) -> None:
    lab.write_evals(case, **{"x.csv": b"1"})
    (lab.skill / "evals" / "files" / "link").symlink_to("/etc/passwd")
    (lab.skill / "evals" / "empty").mkdir()
    done = lab.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert lab.logged() == []


def test_a_case_that_cannot_be_run_is_left_out_and_the_others_run(lab: Lab) -> None:
    shown = {"files": ["none.csv"], "name": "lost"}, {"files": ["../x"]}, {"assertions": [HELLO], "turns": ["again"]}
    lab.write_evals(*shown)
    leaves = "'../x' leaves the skill's folder; copy the file to evals/files and name it there; the case is left out"
    absent = "no such file or directory; add the file to the skill's folder, or correct the path"
    notes = [
        f"evals[1].files[0]: {leaves}",
        "fields of cases that are not read: turns (1)",
        f"eval-lost is left out: none.csv: {absent}",
    ]
    dry = lab.run("--dry-run")
    said = " ".join(dry.stdout.split())
    assert [f"evals.json: {note}" in said for note in notes] == [True] * len(notes)
    report = lab.report()
    assert report["plan"]["notes"] == notes
    assert {f"evals.json: {note}" for note in notes} <= set(report["notes"])
    assert {run["eval_id"] for run in report["runs"]} == {3}


@pytest.mark.parametrize(
    ("named", "given"),
    [
        ("x.csv", ["x.csv"]),
        ("files/x.csv", ["x.csv"]),
        ("evals/files", ["x.csv", "y.csv"]),
        ("files/", ["x.csv", "y.csv"]),
        ("SKILL.md", []),
        ("skills/greeter/SKILL.md", []),
    ],
)
def test_files_may_be_relative_to_evals_a_folder_or_the_skill_itself(lab: Lab, named: str, given: list[str]) -> None:
    lab.write_evals({"files": [named], "assertions": [HELLO]}, **{"x.csv": b"1", "y.csv": b"2"})
    report = lab.report(
        agent=lab.agent('for each in "$@"; do echo "$each"; done > "$3/out.txt"; echo hello >> "$3/out.txt"')
    )
    out = (lab.workspace / "iteration-1/eval-1/without_skill/run-1/outputs/out.txt").read_text().split()
    assert sorted(Path(each).name for each in out if each.endswith((".csv", ".md"))) == given
    said = "evals.json: the file SKILL.md is the skill, which only runs with it have: eval-1"
    assert (said in report["notes"]) is (not given)


def test_the_cases_may_lie_elsewhere_with_their_files(lab: Lab, tmp_path: Path) -> None:
    elsewhere = tmp_path / "tests" / "evals"
    elsewhere.mkdir(parents=True)
    (elsewhere / "in.csv").write_text("1")
    case = {"prompt": "greet", "files": ["in.csv"], "assertions": [HELLO]}
    (elsewhere / "more.json").write_text(json.dumps([case]))
    report = lab.report(
        "--evals",
        elsewhere / "more.json",
        agent=lab.agent('echo hello; cat "$4" > "$3/out.txt"; echo hello >> "$3/out.txt"'),
    )
    assert (report["plan"]["cases"], report["errors"]) == (1, 0)
    assert (lab.workspace / "iteration-1/eval-1/with_skill/run-1/outputs/out.txt").read_text() == "1hello\n"
    done = lab.run("--evals", elsewhere / "none.json")
    assert (done.returncode, "none.json: there is no such file; correct the path" in done.stderr) == (2, True)


def test_an_expected_output_needs_a_judge_where_there_are_no_assertions(lab: Lab) -> None:
    lab.write_evals({"expected_output": "A greeting."}, {"expected_output": "A greeting.", "assertions": [HELLO]})
    assert lab.report("--dry-run")["plan"]["judge_requests"] == 2


def test_a_folder_without_a_skill_or_evals_is_reported(lab: Lab, tmp_path: Path) -> None:
    for flags in ([tmp_path], [tmp_path / "none"]):
        done = subprocess.run(
            [sys.executable, "-m", "server", "eval", *map(str, flags)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "expected the folder of a skill, with a SKILL.md" in done.stderr
    (lab.skill / "evals" / "evals.json").unlink()
    assert "there is no such file; write one such as" in lab.run().stderr


def test_an_invalid_skill_is_reported(lab: Lab) -> None:
    (lab.skill / "SKILL.md").write_text("---\nname: greeter\n---\nx\n")
    done = lab.run()
    assert done.returncode == 2
    assert "missing_description" in done.stderr


def test_a_workspace_in_the_skill_is_refused(lab: Lab) -> None:
    done = lab.run("--workspace", lab.skill / "results")
    assert done.returncode == 2
    assert "the workspace lies in the skill" in done.stderr


def test_a_workspace_of_choice_has_the_iterations(lab: Lab, tmp_path: Path) -> None:
    lab.report("--workspace", tmp_path / "deep" / "er")
    assert (tmp_path / "deep" / "er" / "iteration-1" / "benchmark.json").exists()
    assert not lab.workspace.exists()


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def old_outputs(lab: Lab, iteration: int = 1) -> str:
    return (lab.workspace / f"iteration-{iteration}/eval-1/old_skill/run-1/outputs/out.txt").read_text()


def test_the_baseline_is_a_git_revision_of_the_skills_folder_and_the_work_tree_stays(lab: Lab) -> None:
    root = lab.skill.parent
    template = lab.skill / "assets" / "template.txt"
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    git(root, "tag", "v1")
    template.write_text("hello again\n")
    report = lab.report("--baseline", "v1")
    assert template.read_text() == "hello again\n"
    assert old_outputs(lab) == "hello\n"
    assert (lab.workspace / "iteration-1/eval-1/with_skill/run-1/outputs/out.txt").read_text() == "hello again\n"
    assert report["plan"]["arms"] == ["with_skill", "old_skill"]
    assert report["run_summary"].keys() == {"with_skill", "old_skill", "delta"}
    assert lab.file("benchmark.json")["metadata"]["baseline"] == "v1"
    status = subprocess.run(
        ["git", "-C", str(root), "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert status.stdout.split() == ["M", "greeter/assets/template.txt", "??", "greeter-workspace/"]


@pytest.mark.parametrize("revision", ["nope", "--output=x", "HEAD:greeter", "", "iteration-9"])
def test_an_unknown_baseline_is_reported(lab: Lab, revision: str) -> None:
    root = lab.skill.parent
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    done = lab.run(f"--baseline={revision}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a folder, a snapshot (iteration-N) or a git revision" in done.stderr
    assert not lab.workspace.exists()


def test_a_baseline_without_a_repository_is_reported(lab: Lab) -> None:
    done = lab.run("--baseline", "HEAD")
    assert done.returncode == 2
    assert "not a git repository" in done.stderr


def test_the_baseline_is_a_folder_or_the_snapshot_of_an_earlier_iteration(lab: Lab) -> None:
    lab.report()
    (lab.skill / "assets" / "template.txt").write_text("hello again\n")
    lab.report("--baseline", "iteration-1")
    assert old_outputs(lab, 2) == "hello\n"
    lab.report("--baseline", lab.workspace / "snapshots" / "iteration-1" / "greeter")
    assert old_outputs(lab, 3) == "hello\n"


@pytest.mark.parametrize(
    ("prompt", "files", "placed"),
    [
        ("sales in data/sales.csv.", ["evals/files/sales.csv"], ["data/sales.csv"]),
        ("see customers.csv, please", ["evals/files/customers.csv"], ["customers.csv"]),
        ("clean it", ["evals/files/a/b.csv", "evals/c.csv", "assets/d.txt"], ["a/b.csv", "c.csv", "assets/d.txt"]),
        ("read /etc/passwd and ../../passwd", ["evals/files/passwd"], ["passwd"]),
        ("~/Downloads/x.csv", ["evals/files/x.csv"], ["x.csv"]),
        ("my-x.csv and outputs/x.csv", ["evals/files/x.csv"], ["x.csv"]),
        ("two", ["evals/files/x", "evals/x"], ["x", "evals/x"]),
        ("look at evals/set/one", ["evals/set/one/a", "evals/set/one/b/c"], ["evals/set/one/a", "evals/set/one/b/c"]),
        ("look at set/one", ["evals/set/one/a", "evals/set/one/b/c"], ["set/one/a", "set/one/b/c"]),
        ("x", ["evals/files/outputs"], ["evals/files/outputs"]),
        ("use x.csv", ["evals/files/x.csv", "assets/x.csv"], ["x.csv", "assets/x.csv"]),
    ],
)
def test_input_files_lie_where_the_prompt_names_them(prompt: str, files: list[str], placed: list[str]) -> None:
    assert list(input_paths(EvalCase(1, "1", prompt, files=tuple(files)))) == placed


def test_the_documented_report_is_printed(lab: Lab) -> None:
    lab.write_evals({"assertions": [HELLO]})
    report = lab.report()
    assert report.keys() == {
        *("skill", "workspace", "iteration", "path", "resumed", "dry_run", "plan", "errors", "run_summary"),
        *("effect", "patterns", "comparison", "notes", "stopped", "runs", "benchmark", "feedback"),
        *("report", "gates"),
    }
    done = lab.run()
    assert "pass rate" in done.stdout
    assert "Verdict: no verdict." in done.stdout


def test_what_changed_and_what_it_cost_is_printed() -> None:
    outcomes = [([True, number > 0], [False, number > 1]) for number in range(3)]
    runs = [
        run_of(arm, grades, name=f"case-{number}", cost_usd=0.25)
        for number, both in enumerate(outcomes)
        for arm, grades in zip((Arm.WITH_SKILL, Arm.WITHOUT_SKILL), both, strict=True)
    ]
    report = {**benchmark_of(runs, Arm.WITHOUT_SKILL, METADATA), "skill": {"name": "s"}, "iteration": 1, "path": "/s"}
    lines = list(report_lines(report))
    assert any(
        line.startswith("with_skill: mean of 3 cases 0.83 (95 % interval ")
        and line.endswith("0 of 3 runs without a grading; $0.2500 a run")
        for line in lines
    )
    assert "+1.00 eval-case-1: 'b' (1 of 1 with_skill, 0 of 1 without_skill)" in lines
    assert sum(line.startswith("+1.00 eval-case-") for line in lines) == 4
