"""`skillserve triggers` with a program that prints what Claude Code prints, and a scripted model over HTTP."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint, Raw
from tests.processes import becomes, is_alive, sleepers, unique_seconds
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the template is run by sh")

PROGRAM = Path(__file__).with_name("agent_program.py")
SKILL = "tides"
OLD = "Works out harbour times. Use for harbour and shore."
BETTER = "Use this skill for harbour, shore, island and sands."


WORSE = "Use it for harbour and weather."


def tagged(description: str) -> str:
    return f"<description>{description}</description>"


class Lab:
    """A skill with queries and an agent that goes by rules."""

    def __init__(self, skill: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.skill = skill
        self.root = root
        self.rules = root / "rules"
        monkeypatch.setenv("RULES", str(self.rules))
        self.obey()
        self.template = f"{sys.executable} -I -S {PROGRAM} {{prompt}}"
        self.workspace = skill.parent / f"{SKILL}-workspace"

    def obey(self, **rules: list[str]) -> None:
        lines = [f"{key} {word}\n" for key, words in {"loads": ["harbour"], **rules}.items() for word in words]
        self.rules.write_text("".join(lines), encoding="utf-8")

    def ask(self, *queries: tuple[str, bool], file: str = "evals/eval_queries.json") -> Path:
        path = self.skill / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps([{"query": each, "should_trigger": should} for each, should in queries]))
        return path

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return run("triggers", self.skill, "--agent-command", self.template, *arguments)

    def results(self, number: int = 1) -> dict[str, Any]:
        return dict(json.loads((self.workspace / f"triggers-{number}/results.json").read_text(encoding="utf-8")))

    def calls(self) -> list[dict[str, Any]]:
        path = self.root / "calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [ast.literal_eval(line) for line in lines]


@pytest.fixture
def lab(make_skill: MakeSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    fields = "# kept\nlicense: MIT\n"
    skill = make_skill(SKILL, description=OLD, fields=fields, body="# Tides\n\nRead the table.", files={"a.txt": b"a"})
    lab = Lab(skill, tmp_path, monkeypatch)
    lab.ask(("when is the harbour dry", True), ("the shore at noon", True), ("will it rain", False))
    return lab


def test_each_query_has_its_rate_interval_and_verdict(lab: Lab) -> None:
    done = lab.run("--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {key: found[key] for key in ("skill_name", "description")} == {"skill_name": SKILL, "description": OLD}
    first, second, third = found["results"]
    # The third run could change nothing.
    assert (first["outcomes"], first["pass"], first["runs"], first["triggers"]) == (["loaded"] * 2, True, 2, 2)
    assert (second["outcomes"], second["pass"], second["trigger_rate"]) == (["not_loaded"] * 2, False, 0.0)
    assert (third["pass"], third["interval"], third["runs_needed"]) == (True, [0.0, 0.6576], 4)
    summary = found["summary"]
    assert (summary["total"], summary["passed"], summary["failed"], summary["verdict"]) == (3, 2, 1, "fail")
    assert summary["false_positive_rate"]["count"] == 0
    assert found["finished"]
    printed = dict.fromkeys(("results_file", "applied", "report", "gates"))
    assert {**found, **printed} == {**lab.results(), **printed}


def test_each_run_has_a_folder_and_a_home_of_its_own_without_evals(lab: Lab) -> None:
    lab.run("--runs", 1)
    calls = lab.calls()
    assert len(calls) == 4  # the canary and three queries
    assert len({call["home"] for call in calls}) == len({call["folder"] for call in calls}) == 4
    assert not any(Path(call["home"]).exists() for call in calls)
    assert all(call["files"] == [".claude/skills/tides/SKILL.md", ".claude/skills/tides/a.txt"] for call in calls)
    assert not any(str(lab.skill.parent) in call["folder"] for call in calls)


def test_a_run_ends_as_soon_as_the_skill_is_loaded(lab: Lab) -> None:
    lab.obey(works_on=["always"])
    done = lab.run("--runs", 1)
    assert done.returncode == 0, done.stderr
    assert lab.results()["results"][0]["outcomes"] == ["loaded"]


def test_the_canary_must_load_the_skill_first(lab: Lab) -> None:
    lab.obey(denied=["Use the skill"])
    done = lab.run()
    assert done.returncode == 1
    assert "the agent did not load tides when it was told to (denied: " in done.stderr
    assert len(lab.calls()) == 1
    assert not lab.results()["finished"]


async def test_a_run_that_takes_too_long_is_ended_with_its_children_and_is_no_answer(lab: Lab) -> None:
    marker = unique_seconds()
    lab.obey(hangs=["shore"], sleep=[marker])
    done = lab.run("--timeout", 3, "--runs", 1)
    assert done.returncode == 1
    found = lab.results()
    assert found["results"][1]["outcomes"] == ["timeout"]
    assert (found["results"][1]["pass"], found["results"][1]["errors"]) == (None, 1)
    assert found["summary"]["verdict"] == "no verdict"
    assert "1 of 3 runs ended with an error or a timeout" in found["summary"]["reason"]
    assert await becomes(lambda: not sleepers(marker))


def test_errors_are_no_answers_and_too_many_of_them_end_the_test(lab: Lab) -> None:
    lab.obey(crashes=["e"])
    lab.ask(*((f"the shore {number}", True) for number in range(30)), ("the rain", False))
    done = lab.run("--jobs", 1)
    assert done.returncode == 1, done.stdout
    # The canary has an e too, so the first call ends the test.
    assert "exit code 3: no quota is left" in done.stderr
    lab.obey(crashes=["shore"])
    assert lab.run("--jobs", 1).returncode == 1
    found = lab.results()
    # A tenth of 93 runs, and one.
    assert (found["summary"]["errors"], found["summary"]["verdict"]) == (10, "no verdict")
    assert found["summary"]["reasons"][0] == {
        "reason": "the agent ended with exit code 3: no quota is left",
        "runs": 10,
    }


def test_a_denied_call_is_no_load_and_is_told_apart(lab: Lab) -> None:
    lab.obey(denied=["shore"])
    assert lab.run().returncode == 0
    result = lab.results()["results"][1]
    assert (result["outcomes"], result["denied"], result["triggers"], result["pass"]) == (["denied"] * 2, 2, 0, False)


def test_a_twin_in_the_home_of_the_agent_is_refused(lab: Lab, tmp_path: Path) -> None:
    home = tmp_path / "agent-home"
    twin = home / ".claude/skills/other/SKILL.md"
    twin.parent.mkdir(parents=True)
    twin.write_text(f"---\nname: {SKILL}\ndescription: A twin.\n---\n")
    done = lab.run("--agent-home", home)
    assert done.returncode == 2
    assert "another skill tides in" in done.stderr
    assert lab.calls() == []
    twin.write_text("---\nname: other\ndescription: Another.\n---\n")
    assert lab.run("--agent-home", home, "--runs", 1).returncode == 0


def test_a_twin_behind_a_link_is_refused_too(lab: Lab, tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "agent-home/.agents/skills", tmp_path / "mine/tides"
    home.mkdir(parents=True)
    elsewhere.mkdir(parents=True)
    (elsewhere / "SKILL.md").write_text(f"---\nname: {SKILL}\ndescription: A twin.\n---\n")
    (home / "loop").symlink_to(home)
    (home / "linked").symlink_to(elsewhere)
    done = lab.run("--agent-home", tmp_path / "agent-home")
    assert (done.returncode, lab.calls()) == (2, [])


def test_other_settings_of_the_agent_continue_no_test(lab: Lab, tmp_path: Path) -> None:
    home = tmp_path / "agent-home"
    home.mkdir()
    lab.obey(crashes=["shore"])
    assert lab.run("--agent-home", home, "--runs", 1).returncode == 1
    (home / "settings.json").write_text("{}")
    lab.obey()
    assert lab.run("--agent-home", home, "--runs", 1).returncode == 0
    assert lab.results(2)["costs"]["runs_made"] == 4


def test_a_query_that_cannot_be_an_argument_is_an_error(lab: Lab) -> None:
    lab.ask(("harbour \0", True))
    done = lab.run()
    assert done.returncode == 1
    reason = lab.results()["summary"]["reasons"][0]["reason"]
    assert reason.startswith("the agent's command was not started: ")
    assert "null byte" in reason
    assert "Traceback" not in done.stderr


def test_a_dry_run_says_what_it_would_cost_and_runs_nothing(lab: Lab) -> None:
    done = lab.run("--dry-run", "--json")
    assert json.loads(done.stdout)["costs"] == {
        "canary": 1, "queries": 9, "holdout": 0, "model_requests": 0, "runs": 10, "tokens": None, "cost_usd": None,
        "seconds": None,
    }  # fmt: skip
    assert not lab.workspace.exists()
    assert lab.calls() == []
    lab.run("--runs", 1)
    assert json.loads(lab.run("--dry-run", "--json").stdout)["costs"]["tokens"]
    # An agent that is not installed can be planned with, too.
    planned = run("triggers", lab.skill, "--agent", "codex", "--dry-run").stdout
    assert re.search(r"^at most +10 +10 ", planned, re.MULTILINE)


def started(words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def test_a_signal_ends_the_agent_and_its_children(lab: Lab) -> None:
    marker = unique_seconds()
    lab.obey(hangs=["shore"], sleep=[marker])
    words = [sys.executable, "-m", "server", "triggers", str(lab.skill), "--agent-command", lab.template]
    process = started(words, {**os.environ, "PYTHONPATH": str(REPOSITORY)})
    assert await becomes(lambda: bool(sleepers(marker)))
    process.send_signal(signal.SIGTERM)
    assert await becomes(lambda: process.poll() is not None)
    assert await becomes(lambda: not sleepers(marker))
    assert not any(Path(call["home"]).exists() for call in lab.calls())


async def test_a_killed_test_continues_without_a_repetition(lab: Lab) -> None:
    lab.ask(*((f"harbour {number}", True) for number in range(6)), ("rain", False))
    words = [sys.executable, "-m", "server", "triggers", str(lab.skill), "--agent-command", lab.template, "--jobs", "1"]
    journal = lab.workspace / "triggers-1/runs.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = started(words, environment)
    assert await becomes(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= 4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with journal.open("ab") as file:
        file.write(b'{"key": "half a li')
    before = journal.read_bytes().count(b"\n")
    assert not lab.results()["finished"]
    assert await becomes(lambda: not any(is_alive(call["pid"]) for call in lab.calls()))
    assert lab.run("--jobs", 1).returncode == 0
    found = lab.results()
    assert found["finished"]
    assert found["costs"]["runs_made"] == 1 + 7 * 2 - before
    keys = [json.loads(line)["key"] for line in journal.read_text().splitlines() if line.endswith("}")]
    assert len(keys) == len(set(keys)) == 15
    # A finished test is not continued.
    assert lab.run("--jobs", 1).returncode == 0
    assert lab.results(2)["costs"]["runs_made"] == 15


POSITIVE = [f"harbour {number:02}" for number in range(8)] + [f"island {number:02}" for number in range(14)]
NEGATIVE = [f"weather {number:02}" for number in range(16)]
FEW = 8
"""Queries of each kind, too few to seal any."""


def optimize(
    lab: Lab, endpoint: ModelEndpoint, *arguments: object, each: int | None = None
) -> subprocess.CompletedProcess[str]:
    lab.obey(needs=["island", "weather"])
    should = POSITIVE if each is None else [*POSITIVE[: each // 2], *POSITIVE[each // 2 - each :]]
    lab.ask(*((query, True) for query in should), *((query, False) for query in NEGATIVE[:each]))
    return lab.run("--optimize", "--model", endpoint.model, "--json", "--runs", 1, *arguments)


def test_a_better_description_is_chosen_by_validation_and_adopted_by_the_sealed_test(
    lab: Lab, endpoint: ModelEndpoint
) -> None:
    endpoint.script = [
        tagged(WORSE),
        tagged(BETTER),
    ]
    raw = (lab.skill / "SKILL.md").read_bytes()
    holdout = lab.root / "fresh.json"
    fresh = [{"query": "to the island", "should_trigger": True}, {"query": "the weather", "should_trigger": False}]
    holdout.write_text(json.dumps(fresh))
    done = optimize(lab, endpoint, "--apply", "--holdout", holdout)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["description"] for each in found["rounds"]] == [OLD, WORSE, BETTER]
    assert [each["validation"]["pass_rate"] for each in found["rounds"]][2] == 1.0
    assert found["rounds"][1]["train"]["passed"] < found["rounds"][0]["train"]["passed"]
    decision = found["decision"]
    assert (decision["best_round"], decision["adopted"], decision["description"]) == (2, True, BETTER)
    assert decision["test"]["old"]["passed"] < decision["test"]["new"]["passed"] == decision["test"]["new"]["total"]
    compared = decision["test"]["comparison"]
    assert (compared["verdict"], compared["losses"]) == ("better", 0)
    assert compared["should_not_trigger"]["queries"] == 10
    assert 0 <= decision["gain_interval"][0] <= decision["gain"] <= compared["gain"]
    assert found["missing_for_verdict"] == {"should_trigger": 0, "should_not_trigger": 0}
    assert (found["holdout"]["old"]["passed"], found["holdout"]["new"]["passed"]) == (1, 2)
    # Two fresh queries decide nothing.
    assert found["holdout"]["comparison"]["verdict"] == "no verdict"
    # Nothing but the description has changed.
    new = (lab.skill / "SKILL.md").read_bytes()
    assert new == raw.replace(OLD.encode(), json.dumps(BETTER).encode())


def test_the_model_sees_failures_of_training_alone(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.script = [
        tagged(WORSE),
        tagged(BETTER),
    ]
    found = json.loads(optimize(lab, endpoint).stdout)
    assert len(endpoint.requests) == 2
    said = json.dumps(endpoint.requests)
    train = {each["query"] for each in found["results"] if each["split"] == "train"}
    hidden = {*POSITIVE, *NEGATIVE} - train
    assert hidden
    assert not [query for query in hidden if f'"{query}' in said.replace("\\", "")]
    assert [query for query in train if query in said and query.startswith("island")]
    assert "Generalize" in said
    # The queries of the sealed test were asked once for each description, and of no other round.
    sealed = {each["query"] for each in found["decision"]["test"]["new"]["results"]}
    assert sealed <= hidden
    assert all(sum(call["query"] == query for call in lab.calls()) == 2 for query in sealed)


def test_a_long_description_is_shortened_by_the_model_and_then_by_code(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.script = [f"<description>{BETTER} {'More words. ' * 200}</description>"]
    found = json.loads(optimize(lab, endpoint, "--rounds", 1).stdout)
    assert len(endpoint.requests) == 3
    assert "the format allows 1,024" in json.dumps(endpoint.requests[1])
    assert len(found["rounds"][1]["description"]) <= 1024
    assert found["rounds"][1]["description"].endswith("More words.")


def test_an_answer_without_a_description_between_tags_is_asked_for_again(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.script = ["I would widen the description first.", tagged(BETTER)]
    found = json.loads(optimize(lab, endpoint, "--rounds", 1).stdout)
    assert [each["description"] for each in found["rounds"]] == [OLD, BETTER]
    assert "no text between <description> and </description>" in json.dumps(endpoint.requests[1])
    assert "widen" not in json.dumps(found)


def test_a_model_that_never_writes_a_description_between_tags_ends_the_optimization(
    lab: Lab, endpoint: ModelEndpoint
) -> None:
    endpoint.script = [BETTER]
    raw = (lab.skill / "SKILL.md").read_bytes()
    done = optimize(lab, endpoint, "--apply")
    assert (done.returncode, len(endpoint.requests)) == (1, 3)
    assert "none of 3 answers of the model had a description" in done.stderr
    assert (lab.skill / "SKILL.md").read_bytes() == raw
    # The same command continues, and repeats no run.
    endpoint.script = [tagged(BETTER)]
    assert json.loads(optimize(lab, endpoint, "--rounds", 5).stdout)["decision"]["adopted"]


@pytest.mark.parametrize("named", ["split", "files"])
def test_queries_in_two_parts_choose_a_description_that_is_only_proposed(
    lab: Lab, endpoint: ModelEndpoint, named: str
) -> None:
    lab.obey(needs=["island", "weather"])
    parts = {
        "train": [("harbour 1", True), ("island 1", True), ("weather 1", False)],
        "validation": [("harbour 2", True), ("island 2", True), ("weather 2", False)],
    }
    if named == "files":
        (lab.skill / "evals" / "eval_queries.json").unlink()
        for part, asked in parts.items():
            lab.ask(*asked, file=f"evals/{part}_queries.json")
    else:
        listed = [
            {"query": query, "should_trigger": should, "split": part}
            for part, asked in parts.items()
            for query, should in asked
        ]
        (lab.skill / "evals" / "eval_queries.json").write_text(json.dumps(listed))
    endpoint.script = [tagged(BETTER)]
    raw = (lab.skill / "SKILL.md").read_bytes()
    done = lab.run("--optimize", "--model", endpoint.model, "--json", "--runs", 1, "--apply")
    assert done.returncode == 1
    assert "--apply --force writes it all the same" in done.stderr
    assert (lab.skill / "SKILL.md").read_bytes() == raw
    found = json.loads(done.stdout)
    assert {each["query"]: each["split"] for each in found["results"]} == {
        query: part for part, asked in parts.items() for query, _ in asked
    }
    decision = found["decision"]
    assert (decision["adopted"], decision["proposed"]) == (False, True)
    assert (decision["description"], decision["best_description"]) == (OLD, BETTER)
    assert decision["test"] == {"opened": False, "comparison": None}
    assert "10 more that should trigger and 10 more that should not" in decision["reason"]
    assert found["costs"]["planned"]["sealed_test"] == 0
    assert "island 2" not in json.dumps(endpoint.requests)
    assert "no verdict" in (lab.workspace / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("flags", [("--apply", "--force"), ()])
def test_without_a_verdict_a_description_is_proposed_and_written_by_force_alone(
    lab: Lab, endpoint: ModelEndpoint, flags: tuple[str, ...]
) -> None:
    endpoint.script = [tagged(BETTER)]
    done = optimize(lab, endpoint, *flags, each=FEW)
    assert done.returncode == 0, done.stderr
    # Said before anything is spent.
    missing = "write 7 more that should trigger and 7 more that should not"
    assert missing in done.stderr
    found = json.loads(done.stdout)
    assert found["missing_for_verdict"] == {"should_trigger": 7, "should_not_trigger": 7}
    assert (found["decision"]["adopted"], found["decision"]["proposed"]) == (False, True)
    assert found["decision"]["test"] == {"opened": False, "comparison": None}
    assert found["costs"]["planned"]["sealed_test"] == 0
    if not flags:
        refused = run("triggers", lab.skill, "--apply")
        assert refused.returncode == 1
        assert "nothing is applied: no verdict" in refused.stderr
        assert "--apply --force" in refused.stderr
        assert run("triggers", lab.skill, "--apply", "--force").returncode == 0
    assert json.dumps(BETTER) in (lab.skill / "SKILL.md").read_text(encoding="utf-8")


def test_a_description_that_is_worse_on_the_sealed_queries_is_not_written(lab: Lab) -> None:
    folder = lab.workspace / "triggers-1"
    folder.mkdir(parents=True)
    decision = {
        "adopted": False, "proposed": True, "reason": "the old description stays: it is worse",
        "description": OLD, "best_description": WORSE,
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps({"description": OLD, "decision": decision}))
    raw = (lab.skill / "SKILL.md").read_bytes()
    done = run("triggers", lab.skill, "--apply")
    assert (done.returncode, (lab.skill / "SKILL.md").read_bytes()) == (1, raw)
    assert "it is worse" in done.stderr
    assert run("triggers", lab.skill, "--apply", "--force").returncode == 0
    assert (lab.skill / "SKILL.md").read_bytes() == raw.replace(OLD.encode(), json.dumps(WORSE).encode())


def test_sealed_queries_make_all_their_runs(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.script = [tagged(BETTER)]
    found = json.loads(optimize(lab, endpoint, "--rounds", 1, "--runs", 3).stdout)
    tests = found["decision"]["test"]
    assert all(each["runs"] == 3 for name in ("old", "new") for each in tests[name]["results"])
    assert all(each["runs"] == 2 for each in found["results"])


def test_false_alarms_are_called_so(lab: Lab) -> None:
    lab.ask(("the shore at noon", True), *((f"harbour {number}", False) for number in range(8)))
    printed = lab.run("--runs", 1).stdout
    assert (
        "of 1 that should load the skill, none loaded it; of 8 that should not, 8 loaded it: 8 false alarms" in printed
    )
    assert "as they should" not in printed
    page = (lab.workspace / "report.html").read_text(encoding="utf-8")
    assert "✗ false alarm" in page
    assert "should not: false alarms" in page


def test_a_set_that_is_too_small_for_a_verdict_says_how_many_queries_are_missing(lab: Lab) -> None:
    for flags in ((), ("--dry-run",)):
        said = lab.run("--runs", 1, *flags).stdout
        assert "write 13 more that should trigger and 14 more that should not" in said
    missing = {"should_trigger": 13, "should_not_trigger": 14}
    assert json.loads(lab.run("--dry-run", "--json").stdout)["missing_for_verdict"] == missing
    lab.ask(*((query, True) for query in POSITIVE), *((query, False) for query in NEGATIVE))
    assert "too few queries" not in lab.run("--dry-run").stdout


def test_one_of_two_files_of_queries_is_refused(lab: Lab) -> None:
    (lab.skill / "evals" / "eval_queries.json").unlink()
    lab.ask(("harbour 1", True), ("weather 1", False), file="evals/train_queries.json")
    done = lab.run("--dry-run")
    assert done.returncode == 2
    assert "validation_queries.json" in done.stderr
    assert "is missing beside the other part" in done.stderr


def test_the_old_description_stays_if_no_other_is_better_and_the_test_stays_sealed(
    lab: Lab, endpoint: ModelEndpoint
) -> None:
    endpoint.script = [tagged(WORSE)]
    raw = (lab.skill / "SKILL.md").read_bytes()
    done = optimize(lab, endpoint, "--rounds", 4, "--apply")
    assert done.returncode == 1
    assert "nothing is applied: the old description stays" in done.stderr
    found = json.loads(done.stdout)
    assert found["decision"]["test"] == {"opened": False, "comparison": None}
    assert "another structure" in json.dumps(endpoint.requests[-1])
    assert (lab.skill / "SKILL.md").read_bytes() == raw
    # The same description again needs no run: the queries of training and validation, twice, and the canary.
    assert found["costs"]["runs_made"] == 1 + 2 * len(found["results"])


def test_the_last_optimization_can_be_applied_later_but_not_to_a_changed_skill(
    lab: Lab, endpoint: ModelEndpoint
) -> None:
    endpoint.script = [tagged(BETTER)]
    assert optimize(lab, endpoint).returncode == 0
    raw = (lab.skill / "SKILL.md").read_bytes()
    (lab.skill / "SKILL.md").write_bytes(raw.replace(b"Works out", b"Counts"))
    done = run("triggers", lab.skill, "--apply")
    assert done.returncode == 1
    assert "not the one that was tested" in done.stderr
    (lab.skill / "SKILL.md").write_bytes(raw)
    done = run("triggers", lab.skill, "--apply", "--json")
    assert (done.returncode, json.loads(done.stdout)["applied"]) == (0, BETTER)


@pytest.mark.parametrize("text", ["Use\u200b it.", "Use it.\nname: other", "Use <b>it</b>.", ""])
def test_results_that_were_edited_by_hand_apply_no_hidden_text(lab: Lab, text: str) -> None:
    folder = lab.workspace / "triggers-1"
    folder.mkdir(parents=True)
    results = {"description": OLD, "decision": {"adopted": True, "description": text}}
    (folder / "results.json").write_text(json.dumps(results))
    before = (lab.skill / "SKILL.md").read_bytes()
    done = run("triggers", lab.skill, "--apply")
    assert (done.returncode, (lab.skill / "SKILL.md").read_bytes()) == (1, before), done.stderr


def test_a_link_in_the_workspace_leads_nowhere(lab: Lab, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    lab.workspace.mkdir()
    (lab.workspace / "triggers-1").symlink_to(outside)
    assert lab.run("--runs", 1).returncode == 0
    assert list(outside.iterdir()) == []
    assert lab.results(2)["finished"]
    folder, mine = lab.workspace / "triggers-2", outside / "mine"
    mine.write_text("mine")
    for name in ("runs.jsonl", ".results.json.part"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(mine)
    (folder / "results.json").write_text("{}")
    done = lab.run("--runs", 1)
    assert mine.read_text() == "mine", done.stderr


def test_a_sealed_test_is_opened_once_also_over_several_optimizations(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.script = [tagged(BETTER)]
    assert optimize(lab, endpoint, "--rounds", 1).returncode == 0
    sealed = lab.results(1)["decision"]["test"]["old"]["results"]
    assert len(sealed) == 13 + 10
    # Those that are left are too few, so nothing is sealed.
    done = optimize(lab, endpoint, "--rounds", 1)
    assert done.returncode == 0
    assert lab.results(2)["decision"]["test"] == {"opened": False, "comparison": None}
    assert lab.results(2)["missing_for_verdict"] == {"should_trigger": 1, "should_not_trigger": 4}


def test_an_outage_opens_no_sealed_test_and_the_same_command_continues(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.script = [tagged(BETTER)]
    optimize(lab, endpoint, "--dry-run")
    # All queries fail as soon as the description is the new one, as if the quota had gone in between.
    lab.obey(needs=["island", "weather"], breaks=["sands"])
    done = lab.run("--optimize", "--model", endpoint.model, "--json", "--runs", 1)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["finished"], found["decision"]["test"]["opened"]) == (False, False)
    assert "round 1 has no verdict" in found["decision"]["reason"]
    assert optimize(lab, endpoint).returncode == 0
    assert lab.results(1)["decision"]["adopted"]
    assert len(endpoint.requests) == 1


def test_our_own_executor_is_an_agent_with_all_skills_of_the_catalog(
    lab: Lab, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    make_skill("other", description="Another skill.")

    def reply(asked: dict[str, Any]) -> Any:
        said = json.dumps(asked["messages"])
        tool = next(each["function"] for each in asked["tools"] if each["function"]["name"] == "activate_skill")
        assert {"tides", "other"} <= {*tool["parameters"]["properties"]["name"]["enum"]}
        if asked["messages"][-1]["role"] == "tool":
            return "done"
        name = "tides" if "harbour" in said or "Use the skill" in said else "other"
        return "It rains." if "rain" in said else Call("activate_skill", {"name": name})

    endpoint.reply = reply
    flags = ("--agent", "skillserve", "--model", endpoint.model, "--catalog", lab.skill.parent, "--json")
    done = run("triggers", lab.skill, *flags)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["outcomes"][0] for each in found["results"]] == ["loaded", "not_loaded", "not_loaded"]


def test_a_model_that_fails_is_an_error_and_not_an_answer(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.script = [Raw(b'{"error": {"message": "no credit"}}', 402)]
    done = run("triggers", lab.skill, "--agent", "skillserve", "--model", endpoint.model)
    assert done.returncode == 1
    assert "(error: The model did not answer" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name --agent to ask an agent"),
        (("--agent-command", "agent"), "has no {prompt}"),
        (("--agent-command", "agent {prompt}", "--agent-model", "x"), "name the model in the command"),
        (("--optimize",), "name one with --agent"),
        (("--agent-command", "agent {prompt}", "--force"), "--force belongs to --apply"),
        (("--agent-command", "agent {prompt}", "--agent-home", "nowhere"), "expected a folder"),
        (("--agent-command", "agent {prompt}", "--optimize"), "at least 2 queries of each kind"),
        (("--agent", "skillserve"), "name one with --model"),
        (("--agent-command", "agent {prompt}", "--holdout", "nowhere.json"), "there is no such file"),
        (("--agent-command", "agent {prompt}", "--catalog", "nowhere"), "expected a folder of skills"),
    ],
)
def test_wrong_use_is_explained(lab: Lab, arguments: tuple[str, ...], message: str) -> None:
    done = run("triggers", lab.skill, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_query_reaches_the_agent_as_it_is(lab: Lab) -> None:
    hostile = 'it\'s "dry" $(touch pwned) `id` {skill} {prompt} --help ; exit 7 \\ 满潮'
    lab.ask((hostile, False))
    assert lab.run("--runs", 1).returncode == 0
    assert lab.calls()[-1]["query"] == hostile
