"""`skillserve search`: output, filters and rerankers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from jsonschema import Draft202012Validator

from tests.conftest import MakeSkill, write_skill
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, ConnectHosted, server_environment

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


def test_text_output_is_a_table_or_says_that_nothing_matches(skills: Path) -> None:
    done = run("search", "leak", skills)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split()[0] == "gas-leak"
    done = run("search", "zebra", skills)
    assert done.returncode == 1
    assert "No skill matches" in done.stdout


def test_an_unknown_ranking_is_a_usage_error(skills: Path) -> None:
    assert run("search", "leak", skills, "--ranking", "best").returncode == 2


def test_the_configured_reranker_orders_the_matches(tmp_path: Path) -> None:
    skills = tmp_path / "two"
    write_skill(skills, "pdf-forms", description="Fill in forms.")
    write_skill(skills, "travel", description="Plan a trip.")
    (tmp_path / "rerankers.py").write_text(
        "def backwards(query, skills):\n    return sorted(skills, key=lambda skill: skill.name, reverse=True)\n"
        "nothing = 3\n"
    )
    path = {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{tmp_path}"}

    def found(reranker: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "server", "search", "forms", str(skills), "--json"]
        environment = server_environment(SKILLSERVE_RERANKER=reranker, **path)
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)

    assert [match["name"] for match in json.loads(found("rerankers:backwards").stdout)["matches"]] == [
        "pdf-forms",
        "travel",
    ]
    assert [match["name"] for match in json.loads(found("").stdout)["matches"]] == ["pdf-forms"]
    for wrong, why in {
        "rerankers:nothing": "expected a function",
        "rerankers:gone": "AttributeError",
        "no_such_module:f": "ModuleNotFoundError",
        "not a name": "reranker",
    }.items():
        failed = found(wrong)
        assert failed.returncode == 2
        assert why in failed.stderr
        assert "Traceback" not in failed.stderr


SLOW = """
import threading

asked, go_on = threading.Semaphore(0), threading.Event()


def slow(query, skills):
    asked.release()
    go_on.wait(20)
    return skills
"""


async def test_searches_that_wait_for_a_reranker_do_not_block_file_reads(
    skills: Path, in_memory: ConnectHosted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_rerankers.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    async with in_memory(skills, watch=False, reranker="slow_rerankers:slow") as session:
        rerankers = sys.modules["slow_rerankers"]
        async with anyio.create_task_group() as tasks:
            for _ in range(60):
                tasks.start_soon(session.client.call_tool, "find_skills", {"query": "forms"})
            await anyio.wait_all_tasks_blocked()
            try:
                with anyio.fail_after(10):
                    await anyio.to_thread.run_sync(rerankers.asked.acquire)
                    await session.host.reload()
                    path = {"skill": "gas-leak", "path": "SKILL.md"}
                    assert "gas-leak" in (await session.client.call_tool("read_skill_file", path)).content[0].text
            finally:
                rerankers.go_on.set()
