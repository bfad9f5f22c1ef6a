"""Histories are those of sources: a caller learns of the commits, files and words of skills that it sees alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.hosting.views import ViewName, ViewRule
from skills_core import Skill
from skills_core.history.store import open_history
from tests.conftest import write_skill
from tests.server.hosting.two_views import WORDS, host_of, serving_http, view_of, write_skills
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


OTHER = "---\nname: plan\ndescription: Plans things.\ntags: [TAGS]\n---\n\nTEXT\n"


def by_tag(view: ViewName, skill: Skill) -> bool:
    """Show a skill with the tag of a team to the team alone."""
    return WORDS.keys() & set(skill.frontmatter.tags) <= view


@pytest.fixture
def becoming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a source with a skill that was hidden from the blue team, then seen, then hidden, and is seen again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    source = tmp_path / "source"
    folder = write_skill(source, "plan")
    with open_history(source.resolve(), tmp_path / "state" / "skillserve") as history:
        for number, tags in enumerate(("red", "all", "red", "all")):
            text = f"{'quokka' if tags == 'red' else 'Seen'} {number}"
            (folder / "SKILL.md").write_text(OTHER.replace("TAGS", tags).replace("TEXT", text))
            (folder / "notes.txt").write_text(text)
            history.record(["plan"], "improvement", f"It is: {text}", trace_id=f"trace of {text}")
    return source


async def test_versions_that_a_caller_would_not_have_seen_do_not_exist(becoming: Path) -> None:
    host = host_of((becoming,), ViewRule(view_of, by_tag), history=(str(becoming),))
    async with serving_http(host) as url:
        async with over_http(url, "modern", "red-client") as red:
            whole = await red.call("skill_history", name="plan")
        revs = [each["rev"] for each in whole["structuredContent"]["commits"]]
        assert len(revs) >= 4
        async with over_http(url, "modern", "blue-client") as blue:
            seen = await blue.call("skill_history", name="plan")
            diffs = [await blue.call("skill_history", name="plan", diff=True)]
            diffs += [await blue.call("skill_history", name="plan", diff=True, rev=rev) for rev in revs]
            refused = [await blue.call("rollback_skill", name="plan", rev=revs[number]) for number in (1, 3)]
            assert "Seen 3" in (becoming / "plan" / "SKILL.md").read_text()
            (becoming / "plan" / "SKILL.md").write_text(OTHER.replace("TAGS", "red").replace("TEXT", "quokka 4"))
            # The disk is ahead of the catalog.
            late = [
                await blue.call("skill_history", name="plan", diff=True),
                await blue.call("rollback_skill", name="plan", rev=revs[2]),
            ]
            assert "quokka 4" in (becoming / "plan" / "SKILL.md").read_text()
    assert "quokka" not in json.dumps([seen, *diffs, *refused, *late])
    assert all(each["isError"] for each in (*refused, late[1]))
    # It came, went and came again; what commits say of the way from hidden to seen is not for the blue team.
    assert [each["message"] for each in seen["structuredContent"]["commits"]] == ["improvement"] * 3


async def test_a_rollback_to_a_version_that_was_seen_is_made(becoming: Path) -> None:
    host = host_of((becoming,), ViewRule(view_of, by_tag), history=(str(becoming),))
    async with serving_http(host) as url, over_http(url, "modern", "blue-client") as blue:
        found = await blue.call("skill_history", name="plan")
        revs = [each["rev"] for each in found["structuredContent"]["commits"]]
        done = await blue.call("rollback_skill", name="plan", rev=revs[2])
        assert done["structuredContent"]["changed"] is True
        assert "Seen 1" in (becoming / "plan" / "SKILL.md").read_text()
