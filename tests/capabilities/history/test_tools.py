"""The tools `skill_history` and `rollback_skill`, and what clients hear of a rollback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator

from tests.capabilities.history.helpers import environment, run, write_skill
from tests.conftest import MakeSkill
from tests.server.sessions import Connect, Session

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

MAIN = "skill://deploy/SKILL.md"
NEWS = ["tools", f"updated {MAIN}"]


def settings_of(tmp_path: Path, **more: str) -> dict[str, str]:
    tools = {"SKILLSERVE_TOOLS": "skill_history,rollback_skill", "SKILLSERVE_HISTORY": "explicit"}
    return environment(tmp_path, **tools, **more)


def edit(main: Path, raw: bytes) -> None:
    """Edit a file at once: the server, which runs in this process, must not see and record an empty one meanwhile."""
    draft = main.parent.parent / "draft"
    draft.write_bytes(raw)
    draft.replace(main)


async def answer(session: Session, tool: str, **arguments: Any) -> Any:
    tools = {each.name: each for each in (await session.client.list_tools()).tools}
    result = await session.client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    Draft202012Validator(tools[tool].output_schema).validate(result.structured_content)
    return result.structured_content


async def recorded(session: Session, name: str, count: int) -> list[dict[str, Any]]:
    """Return the commits of a skill once there are so many: the server records edits while it serves."""
    with anyio.fail_after(60):
        while True:
            result = await session.client.call_tool("skill_history", {"name": name})
            found = [] if result.is_error else result.structured_content["commits"]
            if len(found) >= count:
                return found
            await anyio.sleep(0.02)


async def test_a_rollback_is_a_commit_and_is_announced_like_an_edit(
    connect: Connect, make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("deploy", description="The old one.")
    main = skills / "deploy" / "SKILL.md"
    before = main.read_bytes()
    async with connect((MAIN,), **settings_of(tmp_path)) as session:
        tools = {each.name: each for each in (await session.client.list_tools()).tools}
        hints = tools["rollback_skill"].annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (False, True, False)
        assert tools["skill_history"].annotations.read_only_hint is True
        await recorded(session, "deploy", 1)
        edit(main, before.replace(b"old", b"new"))
        await session.until_all_told(NEWS)
        heard = max(map(session.told.count, NEWS))
        done = await answer(session, "rollback_skill", name="deploy")
        assert (done["changed"], done["commit"]["cause"]) == (True, "rollback")
        assert main.read_bytes() == before
        await session.until_all_told(NEWS, heard + 1)
        assert "The old one." in str(await session.client.list_tools())
        found = await answer(session, "skill_history", name="deploy", diff=True)
        assert [each["cause"] for each in found["commits"]] == ["rollback", "manual", "initial"]
        assert "-description: The new one." in found["diff"]
        # A rollback of another process is announced by the watcher.
        heard = max(map(session.told.count, NEWS))
        assert run(tmp_path, "rollback", "deploy", found["commits"][1]["rev"], skills).returncode == 0
        await session.until_all_told(NEWS, heard + 1)
        assert "The new one." in str(await session.client.list_tools())
        # The folder is another one, and is watched all the same.
        heard = max(map(session.told.count, NEWS))
        edit(main, before.replace(b"old", b"last"))
        await session.until_all_told(NEWS, heard + 1)


async def test_a_rollback_is_announced_without_a_watcher(
    connect: Connect, make_skill: MakeSkill, tmp_path: Path
) -> None:
    make_skill("deploy", description="The old one.")
    async with connect((MAIN,), **settings_of(tmp_path, SKILLSERVE_WATCH="off")) as session:
        (first,) = await recorded(session, "deploy", 1)
        make_skill("deploy", description="The new one.")
        assert (await answer(session, "rollback_skill", name="deploy", rev=first["rev"]))["changed"] is True
        assert (await answer(session, "rollback_skill", name="deploy", rev=first["rev"])) == {
            "changed": False,
            "commit": None,
        }
        # Nothing is watched, so only the call itself can have announced it.
        assert "The old one." in str(await session.client.list_tools())


async def test_mistakes_are_explained(connect: Connect, make_skill: MakeSkill, skills: Path, tmp_path: Path) -> None:
    make_skill("deploy", files={"evals/evals.json": b'{"answer": "secret"}'})
    async with connect(**settings_of(tmp_path)) as session:
        await recorded(session, "deploy", 1)
        (skills / "deploy" / "evals" / "evals.json").write_text("{}")
        # A model that performs the skill must not see what its tests expect.
        assert "secret" not in json.dumps(await answer(session, "skill_history", name="deploy", diff=True))
        for arguments, text in (
            ({"name": "nope"}, "there is no skill 'nope'"),
            ({"name": "deploy", "rev": "beef"}, "no such commit"),
            ({"name": "deploy", "rev": "HEAD"}, "at least 4"),
            ({}, "name"),
        ):
            result = await session.client.call_tool("rollback_skill", arguments)
            assert result.is_error
            assert text in result.content[0].text
    off = {"SKILLSERVE_HISTORY": "", "SKILLSERVE_HISTORY_AUTOMATIC": "false"}
    async with connect(**{**settings_of(tmp_path / "other"), **off}) as session:
        result = await session.client.call_tool("skill_history", {"name": "deploy"})
        assert result.is_error
        assert "history.sources" in result.content[0].text


async def test_the_tools_are_off_by_default(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("deploy")
    async with connect() as session:
        names = {each.name for each in (await session.client.list_tools()).tools}
        assert not names & {"skill_history", "rollback_skill"}


def test_a_server_completes_what_was_interrupted_before_it_reads_skills(tmp_path: Path) -> None:
    # The journal of a change that was begun and never applied is dropped.
    source = tmp_path / "source"
    write_skill(source, "deploy")
    assert run(tmp_path, "history", "deploy", source, SKILLSERVE_HISTORY="explicit").returncode == 0
    (folder,) = (tmp_path / "xdg_state_home" / "skillserve" / "history").iterdir()
    (folder / "pending.json").write_text("{")
    done = run(tmp_path, "serve", source)
    assert "this file is damaged" in done.stderr
    assert done.returncode == 0
