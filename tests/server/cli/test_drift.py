"""`skillserve search --record` and `skillserve drift`: queries are kept, and what moved is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run

PLACE = {
    "type": ["object", "null"],
    "required": ["name", "rank", "score", "band", "id"],
    "properties": {"rank": {"type": "integer", "minimum": 1}, "band": {"enum": ["trace", "broad", "specific", "high"]}},
}
DRIFT = {
    "type": "object",
    "required": ["file", "moved", "new", "queries"],
    "properties": {
        "queries": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["query", "ranking", "new", "moved"],
                "properties": {
                    "moved": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name", "moves", "edited", "before", "now"],
                            "properties": {
                                "moves": {"items": {"enum": ["lost", "new", "rank", "band", "score"]}},
                                "before": PLACE,
                                "now": PLACE,
                            },
                        },
                    }
                },
            },
        }
    },
}


@pytest.fixture
def skills(make_skill: MakeSkill) -> Path:
    make_skill("plumber", description="Find and stop a gas leak.", body="one two")
    make_skill("water", description="Fix a water leak.", body="one two")
    return make_skill("garden", description="Trees.", body="one").parent


@pytest.fixture
def kept(skills: Path, tmp_path: Path) -> Path:
    file = tmp_path / "queries.json"
    assert run("search", "gas leak", skills, "--ranking", "lexical", "--record", file).returncode == 0
    assert run("search", "trees", skills, "--record", file).returncode == 0
    return file


def drift(*arguments: object, code: int) -> dict[str, Any]:
    done = run("drift", *arguments, "--json")
    assert done.returncode == code, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    Draft202012Validator(DRIFT).validate(answer)
    return answer


def test_kept_queries_have_their_ranking_and_what_they_found(kept: Path, skills: Path) -> None:
    first, second = json.loads(kept.read_text())["queries"]
    assert (first["query"], first["ranking"], first["limit"]) == ("gas leak", "lexical", 10)
    assert [each["name"] for each in first["matches"]] == ["plumber", "water"]
    assert (second["query"], second["ranking"]) == ("trees", "default")
    before = kept.read_bytes()
    run("search", "gas leak", skills, "--ranking", "lexical", "--record", kept)
    assert kept.read_bytes() == before


def test_nothing_moves_in_the_same_catalog(kept: Path, skills: Path) -> None:
    assert drift(kept, skills, code=0)["moved"] == 0
    done = run("drift", kept, skills)
    assert (done.returncode, done.stdout) == (0, "0 of 2 queries moved.\n")


def test_a_description_that_lost_its_words_is_told_with_rank_score_and_edit(
    kept: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("plumber", description="Emergencies with a leak.", body="one two three four")
    answer = drift(kept, skills, code=1)
    assert answer["moved"] == 1
    (gas, trees) = answer["queries"]
    assert trees["moved"] == []
    moved = {each["name"]: each for each in gas["moved"]}
    assert {"rank", "score"} <= {*moved["plumber"]["moves"]}
    assert moved["plumber"]["edited"]
    assert moved["plumber"]["before"]["rank"] < moved["plumber"]["now"]["rank"]
    done = run("drift", kept, skills)
    assert done.returncode == 1
    assert "gas leak" in done.stdout
    assert "its text was edited" in done.stdout
    assert done.stdout.endswith("1 of 2 queries moved.\n")


def test_an_update_accepts_what_moved(kept: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("plumber", description="Pipes.", body="one two")
    assert run("drift", kept, skills, "--update").returncode == 0
    assert drift(kept, skills, code=0)["moved"] == 0
    assert [each["name"] for each in json.loads(kept.read_text())["queries"][0]["matches"]] == ["water"]


def test_queries_written_by_hand_have_no_result_until_an_update(skills: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.json"
    file.write_text(json.dumps(["gas leak", {"query": "trees", "ranking": "lexical"}]))
    assert drift(file, skills, code=1)["new"] == 2
    assert run("drift", file, skills, "--update").returncode == 0
    assert drift(file, skills, code=0)["new"] == 0


def test_a_score_moves_only_by_more_than_the_tolerance(kept: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("garden", description="Trees.", body="one. trees")
    moved = drift(kept, skills, "--tolerance", "0", code=1)["queries"][1]["moved"]
    assert [(each["name"], each["moves"]) for each in moved] == [("garden", ["score"])]
    drift(kept, skills, "--tolerance", "1", code=0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "skillserve search QUERY --record FILE"),
        ("[", "is not JSON"),
        ("7", "expected a list of queries"),
        ('{"queries": [{"query": 1}]}', "query 1: query must be a string"),
        ("[" * 100_000, "is not JSON"),
    ],
)
@pytest.mark.parametrize("command", ["drift", "search"])
def test_a_file_of_something_else_is_an_error_and_stays(
    command: str, content: str | None, told: str, skills: Path, tmp_path: Path
) -> None:
    file = tmp_path / "queries.json"
    if content is not None:
        file.write_text(content)
    elif command == "search":
        file.mkdir()
    arguments = ("drift", file, skills) if command == "drift" else ("search", "leak", skills, "--record", file)
    done = run(*arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert content is None or file.read_text() == content
