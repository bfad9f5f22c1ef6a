"""Senders of invented tokens do not keep the provider from being asked about the tokens of others."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx2
import pytest

from server.capabilities.login.introspection import Introspection, sender_of
from server.capabilities.login.provider import ProviderUnavailableError
from tests.capabilities.login.conftest import ISSUER, JWKS, FakeProvider, settings
from tests.capabilities.login.serving import serving, write_skill
from tests.capabilities.login.test_http_login import bearer
from tests.capabilities.login.test_introspection import ACTIVE
from tests.capabilities.login.test_limits import MODERN, MODERN_HEADERS

STRANGER, USER = "203.0.113.66", "198.51.100.7"
OPTIONS = {
    "login_issuer": ISSUER,
    "login_jwks_url": JWKS,
    "login_introspection_url": f"{ISSUER}/introspect",
    "login_introspection_client_id": "skillserve",
    "login_introspection_client_secret": "a secret of the client",
    "trusted_proxies": ("127.0.0.0/8",),
}


def is_invented(text: str) -> bool:
    return text.startswith("invented")


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not is_so():  # noqa: ASYNC110 - what it waits for makes no event
            await anyio.sleep(0.005)


@pytest.fixture
def slow_for_invented(provider: FakeProvider) -> FakeProvider:
    provider.gate, provider.holds = anyio.Event(), is_invented
    return provider


@pytest.fixture
def soon_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no answer of the provider be fresh."""
    monkeypatch.setattr("server.capabilities.login.introspection._VALID_SECONDS", 0.0)


@asynccontextmanager
async def flood(asking: Introspection, addresses: list[str]) -> AsyncIterator[None]:
    """Ask about an invented token from each address, and wait for the answers in vain."""

    async def ask(number: int, address: str) -> None:
        with suppress(ProviderUnavailableError):
            await asking.verify(f"invented {number}", address)

    async with anyio.create_task_group() as tasks:
        for number, address in enumerate(addresses):
            tasks.start_soon(ask, number, address)
        await anyio.wait_all_tasks_blocked()
        yield
        tasks.cancel_scope.cancel()


async def test_the_invented_tokens_of_one_sender_leave_turns_to_all_others(slow_for_invented: FakeProvider) -> None:
    slow_for_invented.answers |= {"users": ACTIVE, "another": ACTIVE}
    asking = Introspection(settings(), slow_for_invented)
    async with flood(asking, [STRANGER] * 200):
        assert await asking.verify("users", USER) is not None
        with pytest.raises(ProviderUnavailableError):
            await asking.verify("another", STRANGER)
    assert await asking.verify("another", STRANGER) is not None


@pytest.mark.usefixtures("soon_asked_again")
async def test_a_token_that_was_valid_is_asked_about_while_invented_ones_take_all_turns(
    slow_for_invented: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.login.introspection._OUTAGE_SECONDS", 0.0)
    slow_for_invented.answers["users"] = ACTIVE
    asking = Introspection(settings(), slow_for_invented)
    assert await asking.verify("users", STRANGER) is not None
    async with flood(asking, [f"203.0.113.{number}" for number in range(200)]):
        assert len(slow_for_invented.asked) == 1 + 64
        assert await asking.verify("users", STRANGER) is not None
    assert slow_for_invented.asked.count("users") == 2


@pytest.mark.usefixtures("soon_asked_again")
async def test_a_token_at_which_the_provider_fails_holds_up_its_own_sender_only(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.login.introspection._AWAY_SECONDS", 3600.0)
    monkeypatch.setattr("server.capabilities.login.introspection._OUTAGE_SECONDS", 0.0)
    provider.answers |= {"known": ACTIVE, "users": ACTIVE, "another": ACTIVE}
    provider.answers["invented"] = ProviderUnavailableError("HTTP 500", status=500)
    asking = Introspection(settings(), provider)
    assert await asking.verify("known", STRANGER) is not None
    with pytest.raises(ProviderUnavailableError):
        await asking.verify("invented", STRANGER)
    assert await asking.verify("users", USER) is not None
    assert await asking.verify("known", STRANGER) is not None
    with pytest.raises(ProviderUnavailableError):
        await asking.verify("another", STRANGER)
    assert "another" not in provider.asked


@pytest.mark.usefixtures("soon_asked_again")
async def test_a_token_that_was_valid_is_accepted_for_a_while_if_the_provider_cannot_be_asked(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.login.introspection._RETRY_SECONDS", 0.0)
    provider.answers["text"] = ACTIVE
    asking = Introspection(settings(), provider)
    assert await asking.verify("text") is not None
    provider.answers["text"] = ProviderUnavailableError("HTTP 429", status=429)
    assert await asking.verify("text") is not None
    assert provider.asked == ["text", "text"]
    monkeypatch.setattr("server.capabilities.login.introspection._OUTAGE_SECONDS", 0.0)
    with pytest.raises(ProviderUnavailableError):
        await asking.verify("text")


@pytest.mark.usefixtures("soon_asked_again")
async def test_a_refusal_ends_what_the_outage_before_it_allowed(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.login.introspection._RETRY_SECONDS", 0.0)
    monkeypatch.setattr("server.capabilities.login.introspection._INVALID_SECONDS", 0.0)
    provider.answers["text"] = ACTIVE
    asking = Introspection(settings(), provider)
    assert await asking.verify("text") is not None
    limited = ProviderUnavailableError("HTTP 429", status=429)
    provider.answers["text"] = limited
    assert await asking.verify("text") is not None
    provider.answers["text"] = {"active": False}
    assert await asking.verify("text") is None
    provider.answers["text"] = limited
    with pytest.raises(ProviderUnavailableError):
        await asking.verify("text")


@pytest.mark.usefixtures("soon_asked_again")
async def test_no_outage_prolongs_the_life_of_a_token(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider.answers["text"] = {**ACTIVE, "exp": int(time.time()) + 100}
    asking = Introspection(settings(), provider)
    assert await asking.verify("text") is not None
    provider.away = True
    later = time.time() + 101
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(ProviderUnavailableError):
        await asking.verify("text")


@pytest.mark.usefixtures("soon_asked_again")
async def test_during_an_outage_a_token_is_not_asked_about_with_each_request(provider: FakeProvider) -> None:
    provider.answers["text"] = ACTIVE
    asking = Introspection(settings(), provider)
    for _ in range(5):
        assert await asking.verify("text") is not None
        provider.away = True
    assert provider.asked == ["text", "text"]


async def test_requests_that_wait_for_a_failing_question_fail_with_it(provider: FakeProvider) -> None:
    provider.gate = anyio.Event()
    provider.answers["text"] = ProviderUnavailableError("HTTP 429", status=429)
    asking = Introspection(settings(), provider)
    faults: list[str] = []

    async def verify() -> None:
        with pytest.raises(ProviderUnavailableError) as caught:
            await asking.verify("text")
        faults.append(str(caught.value))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(verify)
        await anyio.wait_all_tasks_blocked()
        provider.gate.set()
    assert faults == ["HTTP 429"] * 3
    assert provider.asked == ["text"]


@pytest.mark.parametrize(
    ("address", "sender"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_a_sender_is_an_ipv4_address_or_an_ipv6_network(address: str, sender: str) -> None:
    assert sender_of(address) == sender


@pytest.mark.usefixtures("soon_asked_again")
async def test_an_anonymous_flood_over_http_locks_nobody_else_out(
    tmp_path: Path, slow_for_invented: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.login.login.Provider", lambda: slow_for_invented)
    answered: list[int] = []
    async with (
        serving(write_skill(tmp_path / "skills"), **OPTIONS) as url,
        httpx2.AsyncClient(timeout=60) as client,
        anyio.create_task_group() as tasks,
    ):
        slow_for_invented.answers |= {text: {**ACTIVE, "aud": url} for text in ("known", "users")}

        async def status(text: str, address: str) -> int:
            given = {**MODERN_HEADERS, **bearer(text), "X-Forwarded-For": address}
            return (await client.post(url, json=MODERN, headers=given)).status_code

        async def invent(number: int) -> None:
            answered.append(await status(f"invented{number}", STRANGER))

        assert await status("known", STRANGER) == 200
        for number in range(80):
            tasks.start_soon(invent, number)
        await until(lambda: len(answered) == 80 - 32)
        assert set(answered) == {503}
        assert [await status("known", STRANGER), await status("users", USER)] == [200, 200]
        assert slow_for_invented.asked.count("known") == 2
        tasks.cancel_scope.cancel()
