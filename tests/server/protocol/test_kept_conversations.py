"""Which conversations a server forgets when there are too many: never those of others than of whoever has most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.access.principal import Principal, PrincipalKind
from server.hosting.offer_changes import OfferChanges
from server.protocol import conversations as module
from server.protocol.conversations import MAX_CONVERSATIONS, MAX_THREADS, Conversation, Conversations
from tests.thoroughness import examples

CHANGES = OfferChanges()


def request(principal: str, session: str, thread: str = "") -> Any:
    """Return what a conversation is found by: a request of the handshake era over HTTP."""
    user = SimpleNamespace(access_token=SimpleNamespace(principal=Principal(principal, PrincipalKind.TOKEN)))
    http = SimpleNamespace(headers={"mcp-session-id": session}, scope={"user": user})
    meta = {"threadId": thread} if thread else {}
    return SimpleNamespace(protocol_version="2025-11-25", request=http, meta=meta)


def of(kept: Conversations, principal: str, session: str, thread: str = "") -> Conversation:
    return kept.of(request(principal, session, thread), CHANGES)


@pytest.fixture
def kept() -> Conversations:
    return Conversations(local=False)


def test_the_threads_of_one_session_displace_no_conversation_of_another_principal(kept: Conversations) -> None:
    bens = of(kept, "ben", "b", "t")
    for number in range(2 * MAX_CONVERSATIONS):
        of(kept, "anna", "a", f"t{number}")
    assert of(kept, "ben", "b", "t") is bens
    assert len(kept) == 1 + MAX_THREADS


def test_the_sessions_of_one_principal_displace_no_conversation_of_another(kept: Conversations) -> None:
    bens = [of(kept, "ben", "b", thread) for thread in ("", "1", "2")]
    for number in range(2 * MAX_CONVERSATIONS):
        of(kept, "anna", f"a{number}", "t")
    assert [of(kept, "ben", "b", thread) for thread in ("", "1", "2")] == bens
    assert len(kept) == MAX_CONVERSATIONS


def test_the_threads_of_one_session_displace_no_other_session_of_the_same_principal(
    kept: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CONVERSATIONS", 10)
    other = of(kept, "local", "one", "t")
    for number in range(50):
        of(kept, "local", "two", f"t{number}")
    assert of(kept, "local", "one", "t") is other


def test_of_equal_ones_the_one_that_was_used_least_recently_is_forgotten(
    kept: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CONVERSATIONS", 3)
    first, second, third = (of(kept, name, "s") for name in ("anna", "ben", "cleo"))
    assert of(kept, "anna", "s") is first
    of(kept, "dora", "s")
    assert (of(kept, "anna", "s") is first, of(kept, "cleo", "s") is third) == (True, True)
    assert of(kept, "ben", "s") is not second


def test_the_threads_that_were_used_last_are_remembered(kept: Conversations) -> None:
    threads = [of(kept, "anna", "a", f"t{number}") for number in range(MAX_THREADS)]
    assert of(kept, "anna", "a", "t0") is threads[0]
    of(kept, "anna", "a", "new")
    assert of(kept, "anna", "a", "t0") is threads[0]
    assert of(kept, "anna", "a", "t1") is not threads[1]


def test_the_end_of_a_session_ends_its_threads_and_no_other_session(kept: Conversations) -> None:
    for thread in ("", "1", "2"):
        of(kept, "anna", "a", thread)
    of(kept, "ben", "b")
    kept.forget("a")
    kept.forget("never there")
    assert len(kept) == 1


NAMES = st.sampled_from("abc")


@given(st.lists(st.tuples(NAMES, NAMES, st.sampled_from(["", *"12345"])), max_size=80))
@settings(max_examples=examples(100))
def test_there_are_never_too_many_and_the_conversation_of_a_request_is_there(asked: list[tuple[str, str, str]]) -> None:
    kept = Conversations(local=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_CONVERSATIONS", 7)
        patch.setattr(module, "MAX_THREADS", 4)
        for principal, session, thread in asked:
            key = f"{principal}{session}"
            assert of(kept, principal, key, thread) is of(kept, principal, key, thread)
            assert len(kept) <= 7
    for principal, session, _ in asked:
        kept.forget(f"{principal}{session}")
    assert len(kept) == 0
