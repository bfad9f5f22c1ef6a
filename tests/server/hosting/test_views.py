"""Two views on one server: no answer to one team tells that the other team has skills of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.server.hosting.two_views import WORDS, host_of, remove_team, serving_http, write_skills
from tests.server.hosting.walking import Answer, Asker, comparable, over_http, over_stdio, probe, spellings, walk
from tests.server.sessions import Era, Transport

OTHER = {"red": "blue", "blue": "red"}
CACHEABLE = {
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "skills/list",
    "skills/get",
}


@asynccontextmanager
async def asking(sources: tuple[Path, ...], transport: Transport, era: Era, team: str) -> AsyncGenerator[Asker]:
    """Connect a client of a team to a server with both views, which has a client of the other team as well."""
    if transport == "stdio":
        async with over_stdio(sources, era, f"{team}-client") as asker:
            yield asker
        return
    async with serving_http(host_of(sources)) as url, over_http(url, era, f"{OTHER[team]}-client") as other:
        # What the other team asks first must not become what this one is answered.
        for query in ("things", "xylophone"):
            await other.call("find_skills", query=query)
            await other.call("skill_context", message=query)
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list"):
            await other.ask(method)
        async with over_http(url, era, f"{team}-client") as asker:
            yield asker


@pytest.mark.every_way
@pytest.mark.parametrize("team", WORDS)
async def test_no_answer_to_a_team_contains_a_word_of_the_other(
    tmp_path: Path, transport: Transport, era: Era, team: str
) -> None:
    sources = write_skills(tmp_path)
    async with asking(sources, transport, era, team) as asker:
        await walk(asker)
    text = "\n".join(asker.seen).lower()
    assert WORDS[OTHER[team]] not in text
    assert f"{OTHER[team]}-dependent" not in text
    assert f"{OTHER[team]}/" not in text
    assert_walk_is_whole(asker, WORDS[team])


def assert_walk_is_whole(asker: Asker, word: str) -> None:
    """See that each kind of answer tells a team of its own skills: else the walk would prove nothing of that kind."""
    telling = {label.partition(" ")[0] for label, answer in asker.answers.items() if word in json.dumps(answer)}
    opening = "initialize" if asker.era == "handshake" else "server/discover"
    assert telling >= {opening, "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list"}
    assert telling >= {"resources/read", "resources/directory/read", "completion/complete", "skills/list", "skills/get"}
    tools = ("activate_skill", "read_skill_file", "find_skills", "skill_context", "skills_status")
    calls = {label: json.dumps(answer) for label, answer in asker.answers.items() if label.startswith("tools/call")}
    assert [tool for tool in tools if not any(tool in label and word in text for label, text in calls.items())] == []
    everything = "\n".join(asker.seen)
    parts = ("tag", "a", "key", "tool", "argument", "broken", "gated", "inner", "absent", "dependent")
    assert [part for part in parts if f"{word}-{part}" not in everything and f"-{part}" not in everything] == []


@pytest.mark.parametrize("team", WORDS)
async def test_a_view_answers_as_a_server_that_has_nothing_else(
    tmp_path: Path, transport: Transport, era: Era, team: str
) -> None:
    mixed = await asked(tmp_path / "mixed", transport, era, team)
    alone = await asked(tmp_path / "alone", transport, era, team, alone=True)
    assert mixed.keys() == alone.keys()
    assert [label for label in mixed if mixed[label] != alone[label]] == []


async def asked(root: Path, transport: Transport, era: Era, team: str, *, alone: bool = False) -> dict[str, Answer]:
    """Return the answers to a walk, and to requests for what the other team has, which is not there if `alone`."""
    sources = write_skills(root)
    other, word = OTHER[team], WORDS[OTHER[team]]
    if alone:
        remove_team(root, other)
    async with asking(sources, transport, era, team) as asker:
        await walk(asker)
        names = (f"{word}-main", f"{word}-inner", f"{word}-gated", f"{word}-broken", f"{other}-dependent")
        for asked_for in spellings(names, other):
            await probe(asker, asked_for)
        await probe(asker, f"common/outer/{other}")
    return comparable(asker.answers, root)


async def test_answers_are_private_where_views_differ_and_shared_where_they_do_not(tmp_path: Path) -> None:
    sources = write_skills(tmp_path)
    scopes: dict[bool, dict[str, set[str]]] = {}
    for differ in (True, False):
        host = host_of(sources) if differ else host_of(sources, rule=None)
        async with serving_http(host) as url, over_http(url, "modern", "blue-client") as asker:
            await walk(asker)
        scopes[differ] = {}
        for label, answer in asker.answers.items():
            if "cacheScope" in answer:
                scopes[differ].setdefault(label.partition(" ")[0], set()).add(answer["cacheScope"])
    assert {method: scopes[True].get(method) for method in CACHEABLE} == {key: {"private"} for key in CACHEABLE}
    assert all("public" in scopes[False][method] for method in CACHEABLE - {"server/discover", "tools/list"})


async def test_a_caller_without_a_team_sees_what_is_common(tmp_path: Path) -> None:
    async with serving_http(host_of(write_skills(tmp_path))) as url, over_http(url, "modern", "green-client") as asker:
        await walk(asker)
        listed = [skill["uri"] for skill in await asker.pages("skills/list", "skills")]
    assert listed == ["skill://common/outer/SKILL.md", "skill://common/plain/SKILL.md", "skill://lowest/SKILL.md"]
    assert [word for word in WORDS.values() if word in "\n".join(asker.seen)] == []


@pytest.mark.parametrize("differ", [True, False])
async def test_the_number_of_skills_is_public_only_where_all_see_the_same(tmp_path: Path, *, differ: bool) -> None:
    sources = write_skills(tmp_path)
    host = host_of(sources) if differ else host_of(sources, rule=None)
    async with serving_http(host) as url, httpx2.AsyncClient() as client:
        health = (await client.get(url.removesuffix("mcp") + "health")).json()
    assert health == ({"status": "ok"} if differ else {"status": "ok", "skills": len(host.everything.active)})


async def test_the_operator_sees_everything(tmp_path: Path) -> None:
    host = host_of(write_skills(tmp_path), admin_token="x" * 32)
    async with serving_http(host) as url, httpx2.AsyncClient() as client:
        headers = {"Authorization": f"Bearer {'x' * 32}"}
        status = (await client.get(url.removesuffix("mcp") + "admin/status", headers=headers)).text
    assert [word for word in WORDS.values() if f"{word}-main" not in status] == []


async def test_headers_of_a_call_are_compared_with_the_tools_of_the_caller(tmp_path: Path) -> None:
    async with serving_http(host_of(write_skills(tmp_path))) as url, over_http(url, "modern", "blue-client") as asker:
        answer = await asker.call("quokka-main__quokka-tool", x="y")
        absent = await asker.call("numbat-main__numbat-tool", x="y")
    assert json.dumps(answer) == json.dumps(absent).replace("numbat", "quokka")
