"""Which conversations a server forgets when there are too many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.access import Principal, PrincipalKind
from server.hosting.changes import OfferChanges
from server.protocol import conversations as module
from server.protocol.conversations import Conversation, Conversations
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


def test_the_conversation_that_was_used_least_recently_is_forgotten(
    kept: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CONVERSATIONS", 3)
    first, second, third = (of(kept, name, "s") for name in ("anna", "ben", "cleo"))
    assert of(kept, "anna", "s") is first
    of(kept, "dora", "s")
    assert (of(kept, "anna", "s") is first, of(kept, "cleo", "s") is third) == (True, True)
    assert of(kept, "ben", "s") is not second


def test_the_connection_of_a_thread_that_is_in_use_is_remembered(
    kept: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CONVERSATIONS", 4)
    connection = of(kept, "anna", "a")
    for number in range(10):
        of(kept, "anna", "a", "t")
        of(kept, "ben", f"b{number}")
    assert of(kept, "anna", "a") is connection


def test_the_end_of_a_session_ends_its_threads_and_no_other_session(kept: Conversations) -> None:
    for thread in ("", "1", "2"):
        of(kept, "anna", "a", thread)
    of(kept, "ben", "b")
    kept.forget("a")
    kept.forget("never there")
    assert len(kept._kept) == 1


NAMES = st.sampled_from("abc")


@given(st.lists(st.tuples(NAMES, NAMES, st.sampled_from(["", *"12345"])), max_size=80))
@settings(max_examples=examples(100))
def test_there_are_never_too_many_and_the_conversation_of_a_request_is_there(asked: list[tuple[str, str, str]]) -> None:
    kept = Conversations(local=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_CONVERSATIONS", 7)
        for principal, session, thread in asked:
            key = f"{principal}{session}"
            assert of(kept, principal, key, thread) is of(kept, principal, key, thread)
            assert len(kept._kept) <= 7
    for principal, session, _ in asked:
        kept.forget(f"{principal}{session}")
    assert len(kept._kept) == 0
