"""Fetched skills are written to folders exactly as verified, or not at all."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from server.capabilities.remote.operations import Fetched, fetch_skills
from server.capabilities.remote.skills import RemoteSkill, list_skills
from skills_core.remote.installation import ORIGIN_FILE
from tests.capabilities.remote.helpers import ANSWER, codes, connected, skillserve, tree, varied, verified
from tests.capabilities.remote.hostile import Hostile, running, serve_skill
from tests.conftest import MakeSkill
from tests.server.sessions import http_server


async def fetched(app: Hostile, root: Path, *, force: bool = False) -> dict[str, Fetched]:
    async with connected(app) as server:
        every = await list_skills(server)
        async with aclosing(fetch_skills(server, every, every, root, force=force)) as fetching:
            return {result.skill.uri: result async for result in fetching}


async def test_a_fetched_folder_equals_its_source_and_verifies_again(
    skills: Path, make_skill: MakeSkill, tmp_path: Path
) -> None:
    varied(make_skill)
    copies = tmp_path / "copies"
    async with http_server(skills) as url:
        done = await skillserve("fetch", url, "--to", copies, "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        Draft202012Validator(ANSWER).validate(result)
        states = {skill["uri"]: skill["state"] for skill in result["skills"]}
        assert states.pop("skill://outer/inner/SKILL.md") == "included"
        assert set(states.values()) == {"written"}
        again = json.loads((await skillserve("fetch", url, "--to", copies, "--json")).stdout)
        assert {skill["state"] for skill in again["skills"]} == {"unchanged", "included"}
    assert tree(copies) == tree(skills)
    async with http_server(copies) as url:
        done = await skillserve("verify", url)
    assert done.returncode == 0
    assert "6 verified, 0 failed" in done.stdout.decode()


async def test_skills_that_share_a_name_are_written_to_their_paths(tmp_path: Path) -> None:
    app = Hostile([serve_skill("acme/billing/one"), serve_skill("corp/one"), serve_skill("x/two")])
    async with running(app) as url:
        done = await skillserve("fetch", url, "one", "--to", tmp_path)
        assert done.returncode == 2
        assert b"skill://acme/billing/one/SKILL.md, skill://corp/one/SKILL.md" in done.stderr
        assert list(tmp_path.iterdir()) == []
        done = await skillserve("fetch", url, "skill://corp/one/SKILL.md", "two", "--to", tmp_path)
        assert done.returncode == 0
    assert tree(tmp_path).keys() == {"corp/one/SKILL.md", "two/SKILL.md"}
    assert (await fetched(app, tmp_path))["skill://acme/billing/one/SKILL.md"].folder == str(
        tmp_path / "acme" / "billing" / "one"
    )


async def test_no_fetched_folder_is_inside_another(tmp_path: Path) -> None:
    app = Hostile(
        [serve_skill("acme/one"), serve_skill("b/one"), serve_skill("x/acme"), serve_skill("acme/one", scheme="y:")]
    )
    found = await fetched(app, tmp_path)
    assert {uri: result.state for uri, result in found.items()} == {
        "skill://acme/one/SKILL.md": "written",
        "skill://b/one/SKILL.md": "written",
        "skill://x/acme/SKILL.md": "written",
        "y:acme/one/SKILL.md": "refused",
    }
    assert tree(tmp_path).keys() == {"acme/one/SKILL.md", "b/one/SKILL.md", "x/acme/SKILL.md"}
    assert codes(found["y:acme/one/SKILL.md"].faults) == {"name_collision"}
    app = Hostile([serve_skill("a/acme"), serve_skill("acme/one"), serve_skill("b/one")])
    found = await fetched(app, tmp_path / "other")
    assert [result.state for result in found.values()] == ["written", "refused", "written"]
    assert codes(found["skill://acme/one/SKILL.md"].faults) == {"name_collision"}


async def test_only_verified_skills_are_written(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one"), serve_skill("two"), serve_skill("outer"), serve_skill("outer/inner")])
    app.one.resources[0]["size"] += 1
    outer = app.skills[2]
    outer.add("skill://outer/inner/SKILL.md", app.skills[3].contents["skill://outer/inner/SKILL.md"])
    outer.add("skill://outer/bad.md", b"x")
    outer.contents["skill://outer/bad.md"] = b"y"
    found = await fetched(app, tmp_path)
    assert {result.skill.name: result.state for result in found.values()} == {
        "one": "refused",
        "two": "written",
        "outer": "refused",
        "inner": "written",
    }
    assert tree(tmp_path).keys() == {"two/SKILL.md", "inner/SKILL.md"}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (("a.md", "A.md"), "name_collision"),
        (("caf%C3%A9", "cafe%CC%81"), "name_collision"),
        ((".git/config",), "unsupported_name"),
        ((ORIGIN_FILE,), "name_collision"),
        (("a" * 300,), "unsupported_name"),
    ],
)
async def test_a_verified_skill_that_cannot_be_written_is_refused_but_counts_as_verified(
    tmp_path: Path, files: tuple[str, ...], reason: str
) -> None:
    app = Hostile([serve_skill("one", dict.fromkeys(files, b"x"))])
    (result,) = (await fetched(app, tmp_path)).values()
    assert result.skill.valid
    assert codes(result.faults) == {reason}
    assert list(tmp_path.iterdir()) == []
    async with running(app) as url:
        (skill,) = (await verified(url)).results
    assert isinstance(skill, RemoteSkill)
    assert skill.valid
    assert {fault.code.value for fault in skill.diagnostics} == {reason}


async def test_a_nested_skill_is_refused_with_its_enclosing_one(tmp_path: Path) -> None:
    app = Hostile([serve_skill("outer"), serve_skill("outer/inner")])
    app.one.add("skill://outer/inner/SKILL.md", app.skills[1].contents["skill://outer/inner/SKILL.md"])
    (tmp_path / "outer").mkdir()
    found = await fetched(app, tmp_path)
    assert {result.state for result in found.values()} == {"refused"}
    assert tree(tmp_path) == {}
    assert {r.skill.name: r.state for r in (await fetched(app, tmp_path, force=True)).values()} == {
        "outer": "replaced",
        "inner": "included",
    }


async def test_the_origin_is_recorded_without_credentials_and_edits_are_kept(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one", {"a.md": b"a"})])
    async with running(app) as url:
        secret = url.replace("http://", "http://me:pass@") + "?key=secret"
        assert (await skillserve("fetch", secret, "--to", tmp_path, "--header", "X-Key: secret")).returncode == 0
        record = (tmp_path / "one" / ORIGIN_FILE).read_text(encoding="utf-8")
        assert json.loads(record)["server"] == url
        assert "pass" not in record
        assert "secret" not in record
        (tmp_path / "one" / "a.md").write_bytes(b"mine")
        done = await skillserve("fetch", url, "one", "--to", tmp_path, "--json")
        assert done.returncode == 1
        (skill,) = json.loads(done.stdout)["skills"]
        assert (skill["verified"], skill["state"], skill["folder"]) == (True, "refused", None)
        assert skill["diagnostics"][0]["code"] == "edited_copy"
        assert "a.md" in skill["diagnostics"][0]["message"]
        assert (await skillserve("fetch", url, "one", "--to", tmp_path, "--force")).returncode == 0
    assert (tmp_path / "one" / "a.md").read_bytes() == b"a"
