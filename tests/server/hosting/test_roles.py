"""Roles of real tokens: no answer to a caller tells of the skills of other roles."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.capabilities.login.static_tokens import TokenFile
from server.config.machine import tokens_file
from server.config.settings.model import Settings
from server.hosting.host import Host
from server.hosting.views import role_rule
from tests.server.hosting.two_views import (
    WORDS,
    host_of,
    remove_team,
    serving_http,
    write_skills,
    write_workflows,
)
from tests.server.hosting.walking import Answer, Asker, comparable, over_http, probe, spellings, walk
from tests.server.sessions import Era
from tests.server.settings import make_settings
from tests.thoroughness import combined

ROLES = {
    "common": ["plain", "outer", "lowest"],
    **{team: [f"{word}-*", f"{team}-dependent"] for team, word in WORDS.items()},
}
HELD = {"red": ("red",), "blue": ("blue", "unknown"), "green": ("unknown",)}
"""Roles in the tokens of three callers, who all have the role `common` too."""

ERAS: tuple[Era, ...] = ("handshake", "modern")
HIDDEN = {"red": {"wombat"}, "blue": {"quokka"}, "green": {"wombat", "quokka"}}


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = TokenFile(tokens_file())
    return {name: file.add(name, roles, None) for name, roles in HELD.items()}


def settings() -> Settings:
    return make_settings(access_roles=ROLES, access_default_roles=("common",))


def served(sources: tuple[Path, ...], **more: Any) -> Host:
    return host_of(sources, role_rule(settings().access), login_tokens=True, **more)


@asynccontextmanager
async def asking(sources: tuple[Path, ...], era: Era, name: str, tokens: dict[str, str]) -> AsyncGenerator[Asker]:
    """Connect a caller to a server whose other callers have asked already; all clients have the same name."""
    async with serving_http(served(sources, **write_workflows(sources[0].parent))) as url:
        for other in HELD.keys() - {name}:
            async with over_http(url, era, "client", tokens[other]) as asker:
                await asker.call("find_skills", query="things")
                for method in (
                    "tools/list",
                    "prompts/list",
                    "resources/list",
                    "resources/templates/list",
                    "skills/list",
                ):
                    await asker.ask(method)
        async with over_http(url, era, "client", tokens[name]) as asker:
            yield asker


@pytest.mark.parametrize("name", HELD)
async def test_no_answer_tells_of_the_skills_of_other_roles(tmp_path: Path, tokens: dict[str, str], name: str) -> None:
    async with asking(write_skills(tmp_path), "modern", name, tokens) as asker:
        await walk(asker)
    text = "\n".join(asker.seen).lower()
    assert [word for word in HIDDEN[name] if word in text] == []
    own = WORDS.keys() & set(HELD[name])
    assert all(WORDS[team] in text for team in own)
    assert "skill://common/plain" in text
    # Nor which other roles there are.
    assert [role for role in ("unknown-role", *HELD.keys() - {name}) if f'"{role}"' in text] == []


@pytest.mark.parametrize(("era", "name"), combined(ERAS, HELD))
async def test_a_caller_is_answered_as_by_a_server_that_has_nothing_else(
    tmp_path: Path, tokens: dict[str, str], era: Era, name: str
) -> None:
    mixed = await asked(tmp_path / "mixed", era, name, tokens)
    alone = await asked(tmp_path / "alone", era, name, tokens, alone=True)
    assert mixed.keys() == alone.keys()
    assert [label for label in mixed if mixed[label] != alone[label]] == []


async def asked(root: Path, era: Era, name: str, tokens: dict[str, str], *, alone: bool = False) -> dict[str, Answer]:
    """Return the answers to a walk, and to requests for hidden skills, which are not there if `alone`."""
    sources = write_skills(root)
    others = [team for team in WORDS if team not in HELD[name]]
    if alone:
        for team in others:
            remove_team(root, team)
    async with asking(sources, era, name, tokens) as asker:
        await walk(asker)
        for team in others:
            word = WORDS[team]
            hidden = (f"{word}-main", f"{word}-inner", f"{word}-gated", f"{word}-broken", f"{team}-dependent")
            for asked_for in spellings(hidden, team):
                await probe(asker, asked_for)
            await asker.call("run_workflow", name=f"{word}-flow")
    return comparable(asker.answers, root)


async def test_the_token_of_each_request_decides_not_the_name_of_the_client(
    tmp_path: Path, tokens: dict[str, str]
) -> None:
    async with serving_http(served(write_skills(tmp_path))) as url:
        listed = {}
        for name in HELD:
            async with over_http(url, "modern", "red-client", tokens[name]) as asker:
                listed[name] = {skill["uri"].split("/")[-2] for skill in await asker.pages("skills/list", "skills")}
    assert listed["green"] == {"plain", "outer", "lowest"}
    assert {"quokka-main", "red-dependent"} <= listed["red"]
    assert {"wombat-main", "blue-dependent"} <= listed["blue"]


async def test_a_session_cannot_be_used_with_the_token_of_another_caller(
    tmp_path: Path, tokens: dict[str, str]
) -> None:
    opening = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
    }
    accept = {"Accept": "application/json, text/event-stream"}
    async with (
        serving_http(served(write_skills(tmp_path))) as url,
        httpx2.AsyncClient(headers=accept) as client,
    ):
        opened = await client.post(url, json=opening, headers={"Authorization": f"Bearer {tokens['green']}"})
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Authorization": f"Bearer {tokens['red']}"}
        answer = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=session)
    assert answer.status_code == 404
    assert "quokka" not in answer.text
