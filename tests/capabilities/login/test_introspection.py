"""Opaque tokens: what the provider says of them, how long that counts, and who may ask while others invent tokens."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from server.access import PrincipalKind
from server.capabilities.login.introspection import Introspection, sender_of
from server.capabilities.login.provider_requests import ProviderUnavailableError
from server.capabilities.login.refusals import fingerprint
from tests.capabilities.login.conftest import AUDIENCE, ISSUER, JWKS, FakeProvider, settings
from tests.capabilities.login.serving import serving, write_skill
from tests.capabilities.login.test_http_login import bearer
from tests.capabilities.login.test_limits import MODERN, MODERN_HEADERS

ACTIVE = {"active": True, "sub": "anna", "aud": [AUDIENCE], "iss": ISSUER, "scope": "read", "roles": ["a"]}


async def test_an_active_token_for_this_server_is_accepted_and_remembered(provider: FakeProvider) -> None:
    provider.answers["text"] = {**ACTIVE, "client_id": "app", "exp": int(time.time()) + 90}
    asking = Introspection(settings(), provider)
    first, second = await asking.verify("text"), await asking.verify("text")
    assert first is not None
    assert first is second
    assert (first.principal.subject, first.principal.kind) == ("anna", PrincipalKind.OPAQUE)
    assert (first.principal.roles, first.principal.scopes, first.token) == (frozenset({"a"}), frozenset({"read"}), "")
    assert provider.asked == ["text"]


@pytest.mark.parametrize(
    "changed",
    [
        {"active": False},
        {"active": "true"},
        {"active": 1},
        {"aud": "https://other.example.com"},
        {"aud": None},
        {"aud": {AUDIENCE: 1}},
        {"iss": "https://evil.example.com"},
        {"exp": int(time.time()) - 60},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": 10**400},
        {"exp": "tomorrow"},
        {"nbf": int(time.time()) + 80_000},
        {"nbf": "soon"},
        {"sub": None},
        {"sub": {"a": 1}},
        {"nbf": float("nan")},
        {"cnf": {"jkt": "thumbprint"}},
        {"typ": "Refresh"},
        {"token_use": "refresh_token"},
        {"token_use": "id"},
        {"token_type": "refresh_token"},
        {"token_type": "id_token"},
    ],
)
async def test_all_other_answers_refuse_the_token(provider: FakeProvider, changed: dict[str, Any]) -> None:
    provider.answers["text"] = {**ACTIVE, **changed}
    asking = Introspection(settings(), provider)
    assert await asking.verify("text") is None
    assert await asking.verify("text") is None
    assert provider.asked == ["text"]


async def test_the_log_says_that_a_token_is_bound_to_a_key_of_its_client(
    provider: FakeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "server.capabilities.login")
    provider.answers["text"] = {**ACTIVE, "cnf": {"jkt": "thumbprint"}}
    assert await Introspection(settings(), provider).verify("text") is None
    (refused,) = caplog.messages
    assert refused.startswith(
        f"login refused: token {fingerprint('text')}: it is bound to a key of its client (cnf, as with DPoP or mTLS)"
    )


async def test_a_remembered_answer_ends_with_the_token(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider.answers["text"] = {**ACTIVE, "exp": int(time.time()) + 10}
    asking = Introspection(settings(leeway_seconds=0), provider)
    assert await asking.verify("text") is not None
    later = time.monotonic() + 20
    monkeypatch.setattr(time, "monotonic", lambda: later)
    provider.answers["text"] = {"active": False}
    assert await asking.verify("text") is None


async def test_a_failed_provider_is_not_asked_for_each_token(provider: FakeProvider) -> None:
    provider.away = True
    asking = Introspection(settings(), provider)
    for number in range(20):
        with pytest.raises(ProviderUnavailableError):
            await asking.verify(f"token {number}")
    assert len(provider.asked) == 1


@pytest.mark.parametrize("status", [400, 403, 413, 429])
async def test_a_question_that_the_provider_refuses_is_no_outage(provider: FakeProvider, status: int) -> None:
    provider.answers |= {"odd": ProviderUnavailableError(f"HTTP {status}", status=status), "text": ACTIVE}
    asking = Introspection(settings(), provider)
    with pytest.raises(ProviderUnavailableError):
        await asking.verify("odd")
    assert await asking.verify("text") is not None


async def test_faults_that_an_operator_can_correct_are_logged_once_in_a_while(
    provider: FakeProvider, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.login.introspection._QUIET_SECONDS", 3600.0)
    statuses = {"odd": 400, "forbidden": 403, "too many": 429}
    provider.answers |= {
        text: ProviderUnavailableError(f"HTTP {status}", status=status) for text, status in statuses.items()
    }
    asking = Introspection(settings(), provider)
    for text in statuses:
        with pytest.raises(ProviderUnavailableError):
            await asking.verify(text)
    assert caplog.messages == ["the identity provider does not judge a token: HTTP 403"]


async def test_an_outage_is_logged(provider: FakeProvider, caplog: pytest.LogCaptureFixture) -> None:
    provider.away = True
    with pytest.raises(ProviderUnavailableError):
        await Introspection(settings(), provider).verify("text")
    assert caplog.messages == ["the identity provider cannot be asked about tokens: away"]


async def test_a_request_that_waits_for_another_ones_answer_asks_itself_if_that_one_is_cancelled(
    provider: FakeProvider,
) -> None:
    provider.gate, provider.answers["text"] = anyio.Event(), ACTIVE
    asking = Introspection(settings(), provider)
    found: list[object] = []

    async def verify(scope: anyio.CancelScope) -> None:
        with scope:
            found.append(await asking.verify("text"))

    first, second = anyio.CancelScope(), anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(verify, first)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(verify, second)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        provider.gate.set()
    assert len(found) == 1
    assert found[0] is not None


async def test_requests_with_a_token_that_expires_now_all_get_its_answer(provider: FakeProvider) -> None:
    # Its answer is not remembered, but the clock of the provider may differ.
    provider.gate, provider.answers["text"] = anyio.Event(), {**ACTIVE, "exp": int(time.time()) - 1}
    asking = Introspection(settings(leeway_seconds=60), provider)
    found: list[object] = []

    async def verify() -> None:
        found.append(await asking.verify("text"))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(verify)
        await anyio.wait_all_tasks_blocked()
        provider.gate.set()
    assert len(found) == 3
    assert None not in found


async def test_remembered_tokens_continue_while_the_provider_is_away(provider: FakeProvider) -> None:
    provider.answers["text"] = ACTIVE
    asking = Introspection(settings(), provider)
    assert await asking.verify("text") is not None
    provider.away = True
    assert await asking.verify("text") is not None


async def test_invented_tokens_do_not_displace_valid_ones(provider: FakeProvider) -> None:
    provider.answers["text"] = ACTIVE
    asking = Introspection(settings(), provider)
    assert await asking.verify("text") is not None
    for number in range(1100):
        provider.answers[f"invented {number}"] = {"active": False}
        assert await asking.verify(f"invented {number}") is None
    assert await asking.verify("text") is not None
    assert provider.asked.count("text") == 1
    assert len(asking._invalid) == 1024


async def test_one_question_a_token_is_open_and_a_sender_has_half_of_64(provider: FakeProvider) -> None:
    provider.gate = anyio.Event()
    provider.answers |= {f"token {number}": ACTIVE for number in range(32)}
    asking = Introspection(settings(), provider)
    found: list[object] = []

    async def verify(text: str) -> None:
        found.append(await asking.verify(text))

    async with anyio.create_task_group() as tasks:
        for number in range(32):
            tasks.start_soon(verify, f"token {number}")
            tasks.start_soon(verify, f"token {number}")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ProviderUnavailableError):
            await asking.verify("one more")
        provider.gate.set()
    assert len(found) == 64
    assert None not in found
    assert len(provider.asked) == 32


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
