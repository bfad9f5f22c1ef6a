from __future__ import annotations

import logging
import time
from typing import Any

import anyio
import pytest

from server.access import PrincipalKind
from server.capabilities.login.access_token import ProviderUnavailableError
from server.capabilities.login.introspection import Introspection
from tests.capabilities.login.conftest import AUDIENCE, ISSUER, FakeProvider, settings

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
    assert refused.startswith("a token is refused: it is bound to a key of its client (cnf, as with DPoP or mTLS)")


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
