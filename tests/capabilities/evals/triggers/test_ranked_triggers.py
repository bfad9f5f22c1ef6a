"""`skillserve triggers --no-model`: ranks, what clients show, limits and errors."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.conftest import MakeSkill, write_skill
from tests.server.cli.test_cli import REPOSITORY, run

RATE = {
    "type": "object",
    "required": ["hits", "total", "rate", "interval"],
    "properties": {"rate": {"type": ["number", "null"]}, "interval": {"type": "array", "minItems": 2, "maxItems": 2}},
}
TRIGGERS = {
    "type": "object",
    "required": ["queries", "summary", "clients", "catalog", "skill", "file"],
    "properties": {
        "queries": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "query", "should_trigger", "rank", "shown", "pass", "above", "weak"],
                "properties": {
                    "query": {"type": "string"},
                    "should_trigger": {"type": "boolean"},
                    "rank": {"type": ["integer", "null"], "minimum": 1},
                    "shown": {"type": "boolean"},
                },
            },
        },
        "summary": {
            "type": "object",
            "required": ["recall_at_1", "recall_at_5", "false_triggers", "confusions", "verdict", "reasons"],
            "properties": dict.fromkeys(("recall_at_1", "recall_at_5", "false_triggers", "expected_first"), RATE),
        },
    },
}

QUERIES: list[dict[str, Any]] = [
    {"query": "averages and charts of a csv file", "should_trigger": True},
    {"query": "upload the csv to postgres", "should_trigger": True},
    {"query": "load csv rows into our database", "should_trigger": False, "expected_skill": "csv-import"},
    {"query": "fix the sink", "should_trigger": False},
]


def as_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture
def skill(make_skill: MakeSkill) -> Path:
    make_skill("csv-import", description="Upload CSV rows to a database such as Postgres.")
    make_skill("poems", description="Write a poem.")
    files = {"evals/eval_queries.json": as_bytes(QUERIES)}
    return make_skill("csv-insights", description="Analyze CSV files: averages and charts.", files=files)


def triggers(*arguments: object, code: int = 0, **environment: str) -> dict[str, Any]:
    done = run("triggers", *arguments, "--no-model", "--json", **environment)
    assert done.returncode == code, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    Draft202012Validator(TRIGGERS).validate(answer)
    return answer


def refusal(*arguments: object) -> str:
    done = run("triggers", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_each_query_has_its_rank_and_its_confusions(skill: Path, skills: Path) -> None:
    answer = triggers(skill, "--catalog", skills)
    found = [(each["query"], each["should_trigger"], each["rank"], each["shown"]) for each in answer["queries"]]
    expected = [(each["query"], each["should_trigger"]) for each in QUERIES]
    assert [each[:2] for each in found] == expected
    assert [each[2:] for each in found] == [(1, True), (2, True), (2, True), (None, True)]
    assert answer["queries"][1]["above"] == ["csv-import"]
    assert answer["queries"][2]["expected_rank"] == 1
    summary = answer["summary"]
    assert summary["recall_at_1"] == {"hits": 1, "total": 2, "rate": 0.5, "interval": [0.0945, 0.9055]}
    assert summary["recall_at_5"]["rate"] == 1.0
    assert summary["false_triggers"]["hits"] == 0
    assert summary["confusions"] == [{"rival": "csv-import", "above": ["2"], "displaced": []}]
    assert summary["verdict"] == "no verdict"


def test_the_rank_is_that_of_find_skills(skill: Path, skills: Path) -> None:
    found = json.loads(run("search", QUERIES[1]["query"], skills, "--json").stdout)["matches"]
    names = [match["name"] for match in found]
    assert names.index("csv-insights") + 1 == triggers(skill, "--catalog", skills)["queries"][1]["rank"]


def test_a_skill_that_models_may_not_activate_is_no_rival(skill: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("csv-import", description="Upload CSV rows.", fields="disable-model-invocation: true")
    answer = triggers(skill, "--catalog", skills)
    assert answer["catalog"] == {"skills": 2}
    assert answer["queries"][1]["rank"] == 1


def test_the_skill_may_lie_outside_the_catalog_and_takes_the_place_of_an_installed_twin(
    tmp_path: Path, skill: Path, skills: Path
) -> None:
    files = {"evals/trigger_queries.json": as_bytes(QUERIES)}
    edited = write_skill(tmp_path / "draft", "csv-insights", description="Turn numbers into averages.", files=files)
    answer = triggers(edited, "--catalog", skills)
    assert answer["catalog"] == {"skills": 3}
    assert answer["file"] == "evals/trigger_queries.json"
    assert skill.exists()
    assert answer["queries"][0]["above"] == []


def test_the_budget_of_the_catalog_decides_how_much_of_the_entry_is_shown(
    skill: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("csv-insights", description="Analyze CSV files: " + "averages and charts, " * 30)
    for budget, entry in (("16000", "whole"), ("500", "shortened")):
        answer = triggers(skill, "--catalog", skills, SKILLSERVE_CATALOG_BUDGET=budget)
        assert answer["queries"][0]["shown"] is True
        assert (answer["clients"][0]["sight"], answer["clients"][0]["entry"]) == ("described", entry)


def test_each_chosen_client_is_reported(skill: Path, skills: Path) -> None:
    answer = triggers(skill, "--catalog", skills, "--client", "claude-code@2.1.200", "--client", "codex")
    assert [(each["client"], each["version"]) for each in answer["clients"]] == [
        ("claude-code", "2.1.200"),
        ("codex", None),
    ]
    assert [each["shown"] for each in answer["clients"]][1] is False
    assert answer["queries"][0]["shown"] is False
    every = [each["client"] for each in triggers(skill, "--catalog", skills, "--client", "all")["clients"]]
    assert {"claude-code", "codex", "gemini", "unknown"} <= set(every)
    assert len(set(every)) == len(every)


def many(should: int, should_not: int) -> list[dict[str, Any]]:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    return [
        *({"query": f"averages and charts of a csv, {word}", "should_trigger": True} for word in words[:should]),
        *({"query": f"averages and charts of bees, {word}", "should_trigger": False} for word in words[:should_not]),
    ]


def test_limits_decide_the_exit_code(tmp_path: Path, skill: Path, skills: Path) -> None:
    file = tmp_path / "queries.json"
    file.write_bytes(as_bytes(many(8, 8)))
    arguments = (skill, "--catalog", skills, "--queries", file)
    assert triggers(*arguments, "--min-recall", 1)["summary"]["verdict"] == "pass"
    failed = triggers(*arguments, "--min-recall", 1, "--max-false", 0.5, code=1)["summary"]
    assert (failed["verdict"], len(failed["reasons"])) == ("fail", 1)
    assert failed["false_triggers"]["rate"] == 1.0
    assert triggers(*arguments)["summary"]["verdict"] is None


def test_a_limit_that_too_few_queries_cannot_judge_fails(skill: Path, skills: Path) -> None:
    summary = triggers(skill, "--catalog", skills, "--min-recall", 0.1, code=1)["summary"]
    assert summary["verdict"] == "no verdict"
    assert "6 more than there are" in summary["reasons"][0]


def test_the_table_names_rivals_and_says_why_there_is_no_verdict(skill: Path, skills: Path) -> None:
    done = run("triggers", skill, "--no-model", "--catalog", skills)
    assert done.returncode == 0
    assert "csv-insights among 3 skills" in done.stdout
    assert "confused with csv-import, which ranks above it for 2" in done.stdout
    assert "1 of 2 = 0.50 (95 %: 0.09 to 0.91)" in done.stdout
    assert "no verdict: a verdict takes 8 queries that should trigger, 6 more than there are" in done.stdout


def test_an_expected_skill_that_the_catalog_lacks_is_reported(tmp_path: Path, skill: Path, skills: Path) -> None:
    file = tmp_path / "queries.json"
    file.write_bytes(as_bytes([{"query": "sink", "should_trigger": False, "expected_skill": "plumbing\x1b[31m"}]))
    answer = triggers(skill, "--catalog", skills, "--queries", file)
    assert len(answer["summary"]["unknown_skills"]) == 1
    text = run("triggers", skill, "--no-model", "--catalog", skills, "--queries", file).stdout
    assert "is not a skill of the catalog" in text
    assert "\x1b[31m" not in text


def test_without_a_model_the_mode_has_to_be_named(skill: Path) -> None:
    assert "--no-model" in refusal(skill)


def test_errors_name_the_file_and_what_was_expected(tmp_path: Path, skill: Path, make_skill: MakeSkill) -> None:
    file = skill / "evals/eval_queries.json"
    assert "expected evals/eval_queries.json" in refusal(make_skill("bare"), "--no-model")
    assert "there is no such file" in refusal(skill, "--no-model", "--queries", tmp_path / "none.json")
    assert "is not known; did you mean 'codex'" in refusal(skill, "--no-model", "--client", "codx")
    assert "no SKILL.md in this folder" in refusal(skill.parent, "--no-model", "--queries", file)
    assert "there is no such directory" in refusal(skill, "--no-model", "--catalog", tmp_path / "none")
    assert "none: there is no such folder" in refusal(tmp_path / "none", "--no-model")
    assert "SKILL.md: this is not a folder; name the folder of the skill" in refusal(skill / "SKILL.md", "--no-model")
    assert "none: there is no such folder" in refusal(tmp_path / "none", "--write-queries")
    file.write_text('[{"query": "q"}]')
    assert "[0]: should_trigger is missing" in refusal(skill, "--no-model")


def test_a_link_in_the_place_of_the_queries_is_not_followed(tmp_path: Path, skill: Path) -> None:
    file = skill / "evals/eval_queries.json"
    (tmp_path / "secret.json").write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(tmp_path / "secret.json")
    assert "eval_queries.json" in refusal(skill, "--no-model")


def test_a_skill_that_is_not_served_is_refused_with_its_state(make_skill: MakeSkill) -> None:
    files = {"evals/eval_queries.json": as_bytes(QUERIES)}
    invalid = make_skill("broken", description="''", files=files)
    assert "the skill is invalid" in refusal(invalid, "--no-model")
    hidden = make_skill("hidden", fields="disable-model-invocation: true", files=files)
    assert "models may not activate it" in refusal(hidden, "--no-model")


def test_the_reranker_of_the_settings_ranks(tmp_path: Path, skill: Path, skills: Path) -> None:
    source = "def order(query, skills):\n    return [skill for skill in skills if skill.name == 'poems']\n"
    (tmp_path / "backwards.py").write_text(source)
    path = os.pathsep.join(map(str, (REPOSITORY, tmp_path)))
    answer = triggers(skill, "--catalog", skills, SKILLSERVE_RERANKER="backwards:order", PYTHONPATH=path)
    assert answer["queries"][3]["above"] == ["poems"]
