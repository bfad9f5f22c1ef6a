"""Responses to opaque tokens that the identity provider revokes, or cannot be asked about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from server.capabilities.login.login import Login
from server.capabilities.login.provider_requests import ProviderUnavailableError
from server.capabilities.login.token_claims import LoginToken
from tests.capabilities.login.conftest import FakeProvider, requiring_login, settings
from tests.capabilities.login.serving import serving
from tests.capabilities.login.test_http_login import PING, bearer, open_session
from tests.capabilities.login.test_introspection import ACTIVE, OPTIONS, until

REVOKED = {"active": False}
AWAY = ProviderUnavailableError("HTTP 503", status=503)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server ask about the tokens of open responses all the time."""
    monkeypatch.setattr("server.capabilities.login.introspection._CHECK_SECONDS", 0.01)
    monkeypatch.setattr("server.capabilities.login.introspection._VALID_SECONDS", 0.0)
    monkeypatch.setattr("server.capabilities.login.introspection._RETRY_SECONDS", 0.0)
    monkeypatch.setattr("server.capabilities.login.introspection._AWAY_SECONDS", 0.0)


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch, provider: FakeProvider) -> FakeProvider:
    monkeypatch.setattr("server.capabilities.login.login.Provider", lambda: provider)
    return provider


def is_asked_again(provider: FakeProvider, text: str) -> Callable[[], bool]:
    """Return whether the provider was asked several times more about a token, and its first answers have counted."""
    before = provider.asked.count(text)
    return lambda: provider.asked.count(text) > before + 3


async def until_end(stream: httpx2.Response) -> None:
    with anyio.fail_after(60):
        async for _ in stream.aiter_bytes():
            pass


@pytest.mark.parametrize(
    "changed", [REVOKED, {"roles": ["other"]}, {"scope": "write"}, {"sub": "bob"}, {"aud": "https://other.example.com"}]
)
async def test_the_streams_of_a_token_that_the_provider_revokes_or_changes_end_and_no_others(
    skills: Path, issuer: FakeProvider, changed: dict[str, Any]
) -> None:
    async with serving(skills, **OPTIONS) as url, httpx2.AsyncClient(timeout=60) as client:
        issuer.answers |= {text: {**ACTIVE, "aud": url} for text in ("annas", "bobs")}
        sessions = [await open_session(client, url, text) for text in ("annas", "bobs")]
        async with (
            client.stream("GET", url, headers=sessions[0]) as annas,
            client.stream("GET", url, headers=sessions[1]) as bobs,
        ):
            await until(is_asked_again(issuer, "annas"))
            issuer.answers["annas"] = {**issuer.answers["annas"], **changed}
            await until_end(annas)
            await until(is_asked_again(issuer, "bobs"))
            issuer.answers["bobs"] = REVOKED
            await until_end(bobs)


async def test_a_stream_outlasts_an_outage_of_the_provider_as_long_as_its_last_answer_counts(
    skills: Path, issuer: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(skills, **OPTIONS) as url, httpx2.AsyncClient(timeout=60) as client:
        issuer.answers["text"] = {**ACTIVE, "aud": url}
        session = await open_session(client, url, "text")
        async with client.stream("GET", url, headers=session) as stream:
            issuer.answers["text"] = AWAY
            await until(is_asked_again(issuer, "text"))
            monkeypatch.setattr("server.capabilities.login.introspection._OUTAGE_SECONDS", 0.0)
            await until_end(stream)


async def test_a_token_without_open_responses_is_not_asked_about(skills: Path, issuer: FakeProvider) -> None:
    async with serving(skills, **OPTIONS) as url, httpx2.AsyncClient(timeout=60) as client:
        issuer.answers |= {text: {**ACTIVE, "aud": url} for text in ("ended", "open")}
        sessions = [await open_session(client, url, text) for text in ("ended", "open")]
        async with client.stream("GET", url, headers=sessions[1]):
            await until(is_asked_again(issuer, "open"))
            before = issuer.asked.count("ended")
            await until(is_asked_again(issuer, "open"))
            assert issuer.asked.count("ended") == before


@pytest.mark.parametrize(
    ("answer", "status", "error"), [(REVOKED, 401, "invalid_token"), (AWAY, 503, "temporarily_unavailable")]
)
async def test_a_request_that_is_ended_before_its_answer_begins_learns_why(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: object, status: int, error: str
) -> None:
    monkeypatch.setattr("server.capabilities.login.introspection._OUTAGE_SECONDS", 0.0)
    provider.answers["text"] = ACTIVE
    login = Login(settings(), tmp_path / "tokens.json", provider)

    async def app(*_: object) -> None:
        provider.answers["text"] = answer
        await anyio.sleep_forever()

    transport = httpx2.ASGITransport(requiring_login(app, login))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(login.run)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            with anyio.fail_after(60):
                found = await client.post("/mcp", json=PING, headers=bearer("text"))
        tasks.cancel_scope.cancel()
    assert (found.status_code, found.json()["error"]) == (status, error)


async def test_many_open_tokens_are_all_asked_about(
    provider: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"token{number}" for number in range(100)]
    provider.answers |= dict.fromkeys(texts, ACTIVE)
    login = Login(settings(), tmp_path / "tokens.json", provider)
    monkeypatch.setattr("server.capabilities.login.introspection._OUTAGE_SECONDS", 0.0)
    ended: list[str] = []

    async def respond(text: str, token: LoginToken) -> None:
        with login.lasting(token, {"headers": [(b"authorization", f"Bearer {text}".encode())]}):
            await anyio.sleep_forever()
        ended.append(text)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for text in texts:
                token = await login.verify_token(text)
                assert token is not None
                tasks.start_soon(respond, text, token)
            # Each question lets other tasks ask before it is answered.
            provider.gate = anyio.Event()
            provider.gate.set()
            async with anyio.create_task_group() as beside:
                beside.start_soon(login.run)
                await until(lambda: all(provider.asked.count(text) > 2 for text in texts))
                assert ended == []
                provider.answers |= dict.fromkeys(texts, REVOKED)
                await until(lambda: len(ended) == len(texts))
                beside.cancel_scope.cancel()
