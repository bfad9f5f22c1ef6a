"""`skillserve search` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.conftest import MakeSkill
from tests.server.test_cli import run

SEARCH = {
    "type": "object",
    "required": ["matches"],
    "properties": {
        "matches": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "id", "score", "band", "path", "relative", "weak", "why", "uri"],
                "properties": {
                    "id": {"type": "string", "pattern": "-[0-9a-f]{12}$"},
                    "score": {"type": "number"},
                    "band": {"enum": ["trace", "broad", "specific", "high"]},
                },
            },
        }
    },
}


@pytest.fixture
def skills(make_skill: MakeSkill) -> Path:
    make_skill("gas-leak", description="Gas.", body="leak", fields="tags: [emergency]")
    make_skill("plumbing", description="Fix a leak.", body="one two three four", fields="tags: [Water, emergency]")
    return make_skill("garden", description="Trees.", body="one", fields="tags: [outdoor]").parent


def matches(*arguments: object) -> list[dict[str, Any]]:
    done = run("search", *arguments, "--json")
    answer = json.loads(done.stdout)
    Draft202012Validator(SEARCH).validate(answer)
    assert done.returncode == (0 if answer["matches"] else 1)
    return list(answer["matches"])


def test_search_prints_the_documented_object(skills: Path) -> None:
    best, second = matches("a leaking pipe", skills)
    assert (best["name"], second["name"]) == ("gas-leak", "plumbing")
    assert best["path"] == str(skills / "gas-leak")
    assert best["relative"] == 1.0
    assert second["why"] == {"description": ["leaking"]}


def test_the_lexical_ranking_is_adk_skills_score(skills: Path) -> None:
    found = matches("leak", skills, "--ranking", "lexical")
    assert [(match["name"], match["score"], match["band"]) for match in found] == [
        ("gas-leak", 5.0, "high"),
        ("plumbing", 1.25, "broad"),
    ]
    assert matches("leak", skills, "--ranking", "lexical", "--min-score", 2)[1:] == []
    assert [m["score"] for m in matches("leak", skills, "--ranking", "lexical", "--min-score", 0)] == [5.0, 1.25, 0.0]


@pytest.mark.parametrize("ranking", ["lexical", "default"])
def test_search_takes_tags_and_a_limit_in_either_ranking(skills: Path, ranking: str) -> None:
    def names(query: str, *flags: object) -> list[str]:
        return [match["name"] for match in matches(query, skills, "--ranking", ranking, *flags)]

    assert names("leak", "--limit", 1) == ["gas-leak"]
    assert names("leak", "--tag", "WATER") == ["plumbing"]
    assert names("leak", "--exclude-tag", "water") == ["gas-leak"]
    assert names("", "--tag", "emergency", "--tag", "outdoor") == ["garden", "gas-leak", "plumbing"]
    assert names("zebra") == []


def test_people_get_a_table_or_are_told_that_nothing_matches(skills: Path) -> None:
    done = run("search", "leak", skills)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split()[0] == "gas-leak"
    done = run("search", "zebra", skills)
    assert done.returncode == 1
    assert "No skill matches" in done.stdout


def test_an_unknown_ranking_is_wrong_use(skills: Path) -> None:
    assert run("search", "leak", skills, "--ranking", "best").returncode == 2
