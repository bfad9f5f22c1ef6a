"""Histories are those of sources: a caller learns of the commits, files and words of skills that it sees alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skills_core.history.store import open_history
from tests.conftest import write_skill
from tests.server.hosting.two_views import host_of, serving_http, write_skills
from tests.server.hosting.walking import over_http

OUTER, INNER = "common/outer", "common/outer/red/quokka-inner"


@pytest.fixture
def high(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a source whose history has commits of a common skill, of a hidden one inside it, and of both."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    high, _ = write_skills(tmp_path)
    with open_history(high.resolve(), tmp_path / "state" / "skillserve") as history:
        history.record([OUTER], "manual", "The beginning")
        (high / OUTER / "own.txt").write_text("Second.")
        history.record([OUTER], "manual", "Second words")
        for number in range(3):
            (high / INNER / "quokka.txt").write_text(f"Many a quokka {number}.")
            if number == 1:
                (high / OUTER / "own.txt").write_text("Third.")
            history.record([OUTER], "improvement", f"A quokka {number}", trace_id="quokka-run")
    return high


async def test_commits_and_differences_are_those_of_what_is_seen(tmp_path: Path, high: Path) -> None:
    host = host_of((high, tmp_path / "low"), history=(str(high),))
    async with serving_http(host) as url:
        async with over_http(url, "modern", "blue-client") as blue:
            hidden = await blue.call("skill_history", name="outer", diff=True)
            versions = [each["rev"] for each in hidden["structuredContent"]["commits"]]
            diffs = [await blue.call("skill_history", name="outer", diff=True, rev=rev) for rev in versions]
        async with over_http(url, "modern", "red-client") as red:
            seen = await red.call("skill_history", name="outer", diff=True)
    assert "quokka" not in json.dumps([hidden, *diffs])
    messages = [each["message"] for each in hidden["structuredContent"]["commits"]]
    assert messages[:2] == ["improvement", "Second words"]
    assert len(messages) == 3
    assert "-Second." in hidden["structuredContent"]["diff"]
    assert [each["message"] for each in seen["structuredContent"]["commits"]][:3] == [
        f"A quokka {n}" for n in (2, 1, 0)
    ]
    assert "Many a quokka 2" in seen["structuredContent"]["diff"]


async def test_a_rollback_leaves_hidden_skills_as_they_are(tmp_path: Path, high: Path) -> None:
    host = host_of((high, tmp_path / "low"), history=(str(high),))
    async with serving_http(host) as url, over_http(url, "modern", "blue-client") as blue:
        done = await blue.call("rollback_skill", name="outer")
        assert (high / OUTER / "own.txt").read_text() == "Second."
        assert (high / INNER / "quokka.txt").read_text() == "Many a quokka 2."
        write_skill(high / OUTER / "red", "quokka-newer", "A newer quokka.")
        again = await blue.call("rollback_skill", name="outer")
    assert done["structuredContent"]["commit"]["skills"] == [OUTER]
    assert "quokka" not in json.dumps([done, again])
    assert (high / OUTER / "own.txt").read_text() == "Third."
    assert (high / OUTER / "red" / "quokka-newer" / "SKILL.md").exists()
    assert (high / INNER / "quokka.txt").read_text() == "Many a quokka 2."
