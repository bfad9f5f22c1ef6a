"""Profiles over HTTP: chosen by path or header, within what the caller may use."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.client.streamable_http import streamable_http_client

from server.capabilities.login.static_tokens import TokenFile
from server.config.machine import tokens_file
from server.config.settings.model import Settings
from server.conversation.client_requests import Caller
from server.hosting.views import role_rule
from server.transport.profiles import ProfileSessions
from tests.server.hosting.two_views import host_of, serving_http, write_skills
from tests.server.hosting.walking import over_http
from tests.server.settings import make_settings

ROLES = {"common": ["plain"], "red": ["quokka-main"], "blue": ["wombat-main"]}
PROFILES = {"reds": ["red"], "both": ["red", "blue", "common"], "empty": [], "health": ["red"]}
HEADER = "Skillserve-Profile"
ACCEPT = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@asynccontextmanager
async def serving(tmp_path: Path, **more: Any) -> AsyncGenerator[str]:
    access = {"access_roles": ROLES, "access_profiles": PROFILES, "access_default_roles": ("common",), **more}
    settings: Settings = make_settings(**access)
    async with serving_http(host_of(write_skills(tmp_path), role_rule(settings.access), **access)) as url:
        yield url


async def names(url: str, mode: ConnectMode, **headers: str) -> set[str]:
    """Return the skills that the SDK's client is offered."""
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        listed = (await client.list_resources()).resources
        return {str(each.uri).split("/")[-2] for each in listed if str(each.uri).endswith("/SKILL.md")}


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The token of a caller with the role `red`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return TokenFile(tokens_file()).add("anna", ("red",), None)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_profile_narrows_what_the_caller_sees_and_adds_nothing(
    tmp_path: Path, token: str, mode: ConnectMode
) -> None:
    expected = {
        None: {"plain", "quokka-main"},
        "reds": {"quokka-main"},
        "both": {"plain", "quokka-main"},
        "empty": set(),
    }
    bearer = {"Authorization": f"Bearer {token}"}
    async with serving(tmp_path, login_tokens=True) as url:
        by_path = {each: await names(f"{url}/{each}" if each else url, mode, **bearer) for each in expected}
        by_header = {each: await names(url, mode, **bearer, **({HEADER: each} if each else {})) for each in expected}
    assert by_path == expected
    assert by_header == expected


async def test_without_a_login_callers_have_the_default_roles(tmp_path: Path) -> None:
    async with serving(tmp_path) as url:
        seen = {each: await names(f"{url}/{each}", "2026-07-28") for each in ("reds", "both", "empty")}
    assert seen == {"reds": set(), "both": {"plain"}, "empty": set()}


PATHS = [
    "/mcp/other",
    "/mcp/REDS",
    "/mcp/reds/",
    "/mcp/reds/x",
    "/mcp//reds",
    "/mcp%2Freds",
    "/mcp%2freds",
    "/mcp/%72eds",
    "/mcp/reds%2F",
    "/mcp/../mcp/reds",
    "/mcp/reds/..",
    "/mcp/./reds",
    "/mcp/reds;a",
    "/mcp/reds%00",
    "/mcp/reds/../both",
    "/mcp/%2e%2e/mcp",
    "/reds",
]


async def raw(url: str, path: str, headers: list[tuple[str, str]]) -> tuple[int, bytes]:
    """Send an `initialize` to a path that no client library rewrites; return status, and the rest without the date."""
    address = httpx2.URL(url)
    body = json.dumps(INITIALIZE).encode()
    lines = [
        *(f"POST {path} HTTP/1.1", f"Host: {address.host}:{address.port}", "Connection: close"),
        *("Content-Type: application/json", f"Content-Length: {len(body)}", f"Accept: {ACCEPT['Accept']}"),
        *(f"{name}: {value}" for name, value in headers),
    ]
    async with await anyio.connect_tcp(str(address.host), address.port or 80) as stream:
        await stream.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        received = b""
        while True:
            try:
                received += await stream.receive()
            except anyio.EndOfStream:
                break
    head, _, rest = received.partition(b"\r\n\r\n")
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"date:", b"mcp-session-id:"))]
    return int(head.split()[1]), b"\n".join([*kept, rest])


async def test_what_names_no_profile_is_answered_like_any_unknown_path(tmp_path: Path) -> None:
    async with serving(tmp_path) as url:
        unknown = await raw(url, "/no/such/path", [])
        by_path = {path: await raw(url, path, []) for path in PATHS}
        values = ["other", "REDS", "", "reds, both", "../reds", "reds\x00"[:4] + "\xe9"]
        by_header = {value: await raw(url, "/mcp", [(HEADER, value)]) for value in values}
        served = await raw(url, "/mcp/reds", [])
    assert unknown[0] == 404
    assert {path for path, answer in by_path.items() if answer != unknown} == set()
    assert {value for value, answer in by_header.items() if answer != unknown} == set()
    assert served[0] == 200


async def test_a_header_is_not_ignored_by_a_server_without_profiles(tmp_path: Path) -> None:
    async with serving(tmp_path, access_profiles={}) as url:
        answers = [await raw(url, path, [(HEADER, "reds")]) for path in ("/mcp", "/no/such/path")]
    assert answers[0] == answers[1]
    assert answers[0][0] == 404


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/mcp", [(HEADER, "reds"), (HEADER, "reds")]),
        ("/mcp", [(HEADER, "reds"), (HEADER.lower(), "both")]),
        ("/mcp/reds", [(HEADER, "both")]),
        ("/mcp/reds", [(HEADER, "other")]),
        ("/mcp/reds", [(HEADER, "")]),
        ("/mcp/reds", [(HEADER, "reds"), (HEADER, "reds")]),
    ],
)
async def test_several_names_are_refused(tmp_path: Path, path: str, headers: list[tuple[str, str]]) -> None:
    async with serving(tmp_path) as url:
        status, text = await raw(url, path, headers)
    assert status == 400
    assert b"name one profile" in text


async def test_a_profile_takes_no_path_from_another_route(tmp_path: Path) -> None:
    async with serving(tmp_path, path="/") as url, httpx2.AsyncClient(headers=ACCEPT) as client:
        health = await client.get(f"{url}health")
        reds = await client.post(f"{url}reds", json=INITIALIZE)
        by_header = await client.post(url, json=INITIALIZE, headers={HEADER: "health"})
    assert health.json()["status"] == "ok"
    assert (reds.status_code, by_header.status_code) == (200, 200)


async def test_a_session_belongs_to_the_profile_that_opened_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, httpx2.AsyncClient(headers=ACCEPT) as client:
        for opener, others in (("/both", ("", "/reds")), ("", ("/both", "/reds"))):
            opened = await client.post(url + opener, json=INITIALIZE)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            absent = await client.post(url, json=PING, headers={"Mcp-Session-Id": "0" * 32})
            for method, other in ((method, other) for method in ("GET", "POST", "DELETE") for other in others):
                answer = await client.request(method, url + other, json=PING, headers=session)
                assert (answer.status_code, answer.content) == (404, absent.content)
            own = await client.post(url + opener, json=PING, headers=session)
            ended = await client.delete(url + opener, headers=session)
            again = await client.post(url + opener, json=PING, headers=session)
            assert (own.status_code, ended.status_code, again.status_code) == (200, 200, 404)
        by_header = await client.post(url, json=INITIALIZE, headers={HEADER: "both"})
        session = {"Mcp-Session-Id": by_header.headers["mcp-session-id"]}
        codes = [
            (await client.post(url + path, json=PING, headers={**session, **headers})).status_code
            for path, headers in (("", {HEADER: "both"}), ("/both", {}), ("", {}), ("", {HEADER: "reds"}))
        ]
    assert codes == [200, 200, 404, 404]


def test_sessions_are_forgotten_when_they_can_be_used_no_more() -> None:
    now = 0.0
    sessions = ProfileSessions(10, lambda: now)
    for number in range(3):
        sessions.opened(f"s{number}", "reds")
    with sessions.used("s0"):
        now = 9.0
        with sessions.used("s1"):
            pass
        now = 12.0
        sessions.opened("s3", "both")
        assert [sessions.belongs(f"s{number}", "reds") for number in range(4)] == [True, True, False, False]
        assert sessions.belongs("s3", "both")
        sessions.ended("s3")
    assert len(sessions) == 2
    now = 40.0
    sessions.opened("s4", "reds")
    assert len(sessions) == 1


def test_a_resume_token_of_another_profile_is_that_of_another_caller() -> None:
    plain, reds = Caller(modern=True), Caller(modern=True, profile="reds")
    assert plain != reds
    assert str(plain) == "[true, null, null]"
    assert str(plain) != str(reds)


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_no_answer_within_a_profile_tells_of_what_is_outside(tmp_path: Path, token: str, era: Any) -> None:
    async with serving(tmp_path, login_tokens=True) as url, over_http(f"{url}/empty", era, "client", token) as asker:
        for method in ("tools/list", "prompts/list", "resources/list", "skills/list"):
            await asker.ask(method)
        for name in ("quokka-main", "plain"):
            await asker.call("activate_skill", name=name)
            await asker.ask("resources/read", uri=f"skill://red/{name}/SKILL.md")
    assert "Does" not in "".join(asker.seen)
    assert "many a quokka" not in "".join(asker.seen)
