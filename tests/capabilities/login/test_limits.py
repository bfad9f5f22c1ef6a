"""Limits of principals over real HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from server.capabilities.login.static_tokens import TokenFile
from server.requests import LIMIT_METHOD, Records, RequestDecision, RequestReason, RequestRecord
from server.transport import sessions
from tests.capabilities.login.serving import serving
from tests.capabilities.login.test_http_login import ACCEPT, INITIALIZE, PING, bearer, open_session
from tests.server.serving import until

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": _META}}
MODERN_HEADERS = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}


async def test_a_principal_that_asks_too_fast_waits_and_others_do_not(
    skills: Path, file: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    anna, ben = file.add("anna", (), None), file.add("ben", (), None)
    limits = {"limits_requests_per_second": 0.01, "limits_burst": 2}
    caplog.set_level(logging.INFO)
    async with serving(skills, login_tokens=True, **limits) as url, httpx2.AsyncClient() as client:
        answers = [await client.post(url, json=MODERN, headers={**MODERN_HEADERS, **bearer(anna)}) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        answer = answers[-1]
        assert 90 <= int(answer.headers["retry-after"]) <= 100
        assert answer.headers["cache-control"] == "no-store"
        body = answer.json()
        assert (body["jsonrpc"], body["id"], body["error"]["code"]) == ("2.0", None, -32000)
        assert body["error"]["message"] == "too many requests; at most 0.01 a second for long"
        other = await client.post(url, json=MODERN, headers={**MODERN_HEADERS, **bearer(ben)})
        assert other.status_code == 200
    assert "request refused: limit of rate" in caplog.messages
    assert "anna" not in caplog.text


async def test_the_limit_holds_for_a_session_of_the_handshake_era(skills: Path, file: TokenFile) -> None:
    anna = file.add("anna", (), None)
    limits = {"limits_requests_per_second": 0.01, "limits_burst": 2}
    async with serving(skills, login_tokens=True, **limits) as url, httpx2.AsyncClient() as client:
        session = {**await open_session(client, url, anna), **ACCEPT}
        assert (await client.post(url, json=PING, headers=session)).status_code == 200
        assert (await client.post(url, json=PING, headers=session)).status_code == 429


async def test_an_open_stream_is_a_request_in_progress_until_it_ends(skills: Path, file: TokenFile) -> None:
    anna = file.add("anna", (), None)
    async with (
        serving(skills, login_tokens=True, limits_concurrent_requests=1) as url,
        httpx2.AsyncClient() as client,
    ):
        session = await open_session(client, url, anna)
        async with client.stream("GET", url, headers=session) as stream:
            assert stream.status_code == 200
            refused = await client.post(url, json=PING, headers={**session, **ACCEPT})
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "1"
            assert "event streams included" in refused.json()["error"]["message"]


async def test_refused_logins_are_not_counted_for_the_principal(skills: Path, file: TokenFile) -> None:
    anna = file.add("anna", (), None)
    limits = {"limits_requests_per_second": 0.01, "limits_burst": 1}
    async with serving(skills, login_tokens=True, **limits) as url, httpx2.AsyncClient() as client:
        for _ in range(3):
            assert (await client.post(url, json=MODERN, headers={**MODERN_HEADERS})).status_code == 401
        answer = await client.post(url, json=MODERN, headers={**MODERN_HEADERS, **bearer(anna)})
        assert answer.status_code == 200


async def in_chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 512):
        yield b" " * 512


@pytest.mark.parametrize("sent", ["whole", "in chunks"])
async def test_a_body_beyond_the_limit_is_refused_without_a_login_too(skills: Path, sent: str) -> None:
    async with serving(skills, limits_request_bytes=2048) as url, httpx2.AsyncClient() as client:
        for size, expected in ((1024, 400), (4096, 413)):
            content = in_chunks(size) if sent == "in chunks" else b" " * size
            answer = await client.post(url, content=content, headers={**ACCEPT, "Content-Type": "application/json"})
            assert answer.status_code == expected, answer.text


async def test_a_principal_opens_as_many_sessions_as_it_may_and_another_when_one_has_ended(
    skills: Path, file: TokenFile
) -> None:
    anna, ben = file.add("anna", (), None), file.add("ben", (), None)
    async with serving(skills, login_tokens=True, limits_sessions=2) as url, httpx2.AsyncClient() as client:
        first, _ = await open_session(client, url, anna), await open_session(client, url, anna)
        refused = await client.post(url, json=INITIALIZE, headers={**ACCEPT, **bearer(anna)})
        assert refused.status_code == 429
        assert "too many sessions; at most 2" in refused.json()["error"]["message"]
        await open_session(client, url, ben)
        modern = await client.post(url, json=MODERN, headers={**MODERN_HEADERS, **bearer(anna)})
        assert modern.status_code == 200
        assert (await client.delete(url, headers=first)).status_code == 200
        await open_session(client, url, anna)


@pytest.mark.parametrize("again", [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Session-Id", "0" * 32)])
async def test_a_repeated_header_opens_no_session_beyond_the_limit(
    skills: Path, file: TokenFile, again: tuple[str, str]
) -> None:
    anna = file.add("anna", (), None)
    async with serving(skills, login_tokens=True, limits_sessions=1) as url, httpx2.AsyncClient() as client:
        await open_session(client, url, anna)
        headers = [*{**ACCEPT, **bearer(anna)}.items(), ("MCP-Protocol-Version", "2025-06-18"), again]
        answer = await client.post(url, json=INITIALIZE, headers=headers)
    assert "mcp-session-id" not in answer.headers
    assert answer.status_code in {404, 429}


async def test_a_session_that_ended_unconfirmed_leaves_room(
    skills: Path, file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "AWAKE_SECONDS", 0.05)
    monkeypatch.setattr(sessions, "UNCONFIRMED_SECONDS", 0.1)
    anna = file.add("anna", (), None)
    async with serving(skills, login_tokens=True, limits_sessions=1) as url, httpx2.AsyncClient() as client:
        await client.post(url, json=INITIALIZE, headers={**ACCEPT, **bearer(anna)})

        async def opens_another() -> bool:
            answer = await client.post(url, json=INITIALIZE, headers={**ACCEPT, **bearer(anna)})
            return answer.status_code == 200

        await until(opens_another)


async def test_requests_that_open_no_session_leave_room(skills: Path, file: TokenFile) -> None:
    anna = file.add("anna", (), None)
    async with serving(skills, login_tokens=True, limits_sessions=1) as url, httpx2.AsyncClient() as client:
        for _ in range(3):
            broken = await client.post(url, content=b"{", headers={**ACCEPT, **bearer(anna)})
            assert broken.status_code == 400
        await open_session(client, url, anna)


async def test_a_refused_request_is_recorded_with_its_principal(skills: Path, file: TokenFile) -> None:
    anna = file.add("anna", (), None)
    records, found = Records(), list[RequestRecord]()
    records.add(found.append)
    limits = {"limits_requests_per_second": 0.01, "limits_burst": 1}
    async with serving(skills, records=records, login_tokens=True, **limits) as url, httpx2.AsyncClient() as client:
        for _ in range(2):
            await client.post(url, json=MODERN, headers={**MODERN_HEADERS, **bearer(anna)})
    allowed, refused = found
    assert allowed.decision is RequestDecision.ALLOWED
    assert (refused.method, refused.decision, refused.reason) == (
        LIMIT_METHOD,
        RequestDecision.DENIED,
        RequestReason.LIMIT,
    )
    assert (refused.principal.subject, refused.address, refused.target) == ("anna", "127.0.0.1", "/mcp")


@pytest.mark.parametrize(("trusted", "address"), [((), "127.0.0.1"), (("127.0.0.0/8",), "203.0.113.7")])
async def test_the_address_of_a_client_is_what_a_trusted_proxy_says(
    skills: Path, file: TokenFile, trusted: tuple[str, ...], address: str
) -> None:
    anna = file.add("anna", (), None)
    records, found = Records(), list[RequestRecord]()
    records.add(found.append)
    forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7"}
    given = {"records": records, "login_tokens": True, "trusted_proxies": trusted}
    async with serving(skills, **given) as url, httpx2.AsyncClient() as client:
        for token in (bearer(anna), {}):
            await client.post(url, json=MODERN, headers={**MODERN_HEADERS, **forwarded, **token})
    assert [record.address for record in found] == [address, address]


@pytest.mark.parametrize("sent", ["whole", "in chunks"])
async def test_the_bodies_of_open_streams_count_together(skills: Path, file: TokenFile, sent: str) -> None:
    anna, ben = file.add("anna", (), None), file.add("ben", (), None)
    listen = {
        **MODERN,
        "method": "subscriptions/listen",
        "params": {"_meta": _META, "notifications": {"toolsListChanged": True}},
    }
    body = json.dumps(listen).encode().ljust(40_000)

    async def chunks() -> AsyncIterator[bytes]:
        yield body

    def headers(token: str) -> dict[str, str]:
        return {
            **MODERN_HEADERS,
            **bearer(token),
            "Mcp-Method": "subscriptions/listen",
            "Content-Type": "application/json",
        }

    limits = {"limits_bytes_in_progress": 100_000, "limits_request_bytes": 60_000}
    texts: list[AsyncIterator[str]] = []
    async with (
        serving(skills, login_tokens=True, **limits) as url,
        httpx2.AsyncClient() as client,
        AsyncExitStack() as streams,
    ):
        for token, expected in ((anna, 200), (anna, 200), (anna, 429), (ben, 200)):
            content = body if sent == "whole" else chunks()
            stream = client.stream("POST", url, content=content, headers=headers(token))
            answer = await streams.enter_async_context(stream)
            assert answer.status_code == expected
            texts.append(answer.aiter_text())
            assert ("requests in progress are too large" in await anext(texts[-1])) == (expected == 429)
        small = await client.post(url, json=MODERN, headers={**MODERN_HEADERS, **bearer(anna)})
        assert small.status_code == 200
