"""What a new server is told of a session, and what the client is told about the end of the one before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.transport.session_replay import SessionReplay
from tests.server.openings import INITIALIZED, Message, envelope, initialize, line_of, request

OPENING = initialize("anyone", "2025-11-25", {})
LISTEN = request(
    "events",
    "subscriptions/listen",
    {"_meta": envelope("anyone", {}), "notifications": {"toolsListChanged": True, "promptsListChanged": False}},
)


def notification(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answer(number: Any, **parts: Any) -> Message:
    return {"jsonrpc": "2.0", "id": number, **(parts or {"result": {}})}


ACKNOWLEDGED = notification(
    "notifications/subscriptions/acknowledged",
    _meta={"io.modelcontextprotocol/subscriptionId": "events"},
    notifications={"toolsListChanged": True},
)


def send(session: SessionReplay, *messages: object) -> None:
    for message in messages:
        session.sent(line_of(message) + b"\n")


def receive(session: SessionReplay, *messages: object) -> list[Message]:
    """Return what the client gets for the messages of a server."""
    return messages_in(b"".join(session.received(line_of(message) + b"\n") for message in messages))


def messages_in(lines: bytes) -> list[Message]:
    return [json.loads(line) for line in lines.splitlines()]


def end(session: SessionReplay) -> tuple[list[Message], list[Message]]:
    """End the server; return what the client is told, and what the next server gets and is taken to have got."""
    told = messages_in(session.lost())
    again = [*session.again()]
    for line in again:
        session.sent(line)
    return told, messages_in(b"".join(again))


def opened() -> SessionReplay:
    session = SessionReplay()
    send(session, OPENING)
    receive(session, answer(OPENING["id"]))
    send(session, INITIALIZED)
    return session


def methods(messages: list[Message]) -> list[str]:
    return [each.get("method", "") for each in messages]


def test_the_handshake_is_replayed_and_its_answer_becomes_news_of_changes() -> None:
    session = opened()
    told, again = end(session)
    assert told == []
    assert [{**each, "id": 0} for each in again] == [{**OPENING, "id": 0}, {**INITIALIZED, "id": 0}]
    number = again[0]["id"]
    assert number != OPENING["id"]
    assert methods(receive(session, answer(number))) == [
        f"notifications/{each}/list_changed" for each in ("tools", "prompts", "resources")
    ]
    # It is told once, and the next end brings the same.
    assert receive(session, answer(number)) == [answer(number)]
    assert methods(end(session)[1]) == ["initialize", "notifications/initialized"]


def test_a_handshake_without_an_answer_is_sent_again_as_it_was() -> None:
    session = SessionReplay()
    send(session, OPENING)
    assert end(session) == ([], [OPENING])
    assert receive(session, answer(OPENING["id"])) == [answer(OPENING["id"])]


def test_a_handshake_that_was_refused_is_not_replayed() -> None:
    session = SessionReplay()
    send(session, OPENING)
    receive(session, answer(OPENING["id"], error={"code": -1, "message": "no"}))
    assert end(session) == ([], [])


def test_subscriptions_to_resources_are_replayed_until_they_are_ended() -> None:
    session = opened()
    for number, method in enumerate(("subscribe", "subscribe", "unsubscribe")):
        uri = "skill://a" if number != 1 else "skill://b"
        send(session, request(10 + number, f"resources/{method}", {"uri": uri}))
        receive(session, answer(10 + number))
    _, again = end(session)
    assert [each["params"] for each in again if each["method"] == "resources/subscribe"] == [{"uri": "skill://b"}]
    assert receive(session, answer(again[-1]["id"])) == []


@pytest.mark.parametrize("method", ["tools/list", "resources/read", "prompts/get", "skills/list", "ping"])
def test_an_open_request_that_only_reads_goes_to_one_more_server(method: str) -> None:
    session, asked = opened(), request(5, method)
    send(session, asked)
    told, again = end(session)
    assert (told, again[-1]) == ([], asked)
    told, again = end(session)
    assert (told[0]["id"], asked in again) == (5, False)
    assert "started again" in told[0]["error"]["message"]


def test_an_open_call_of_a_tool_is_answered_with_an_error_and_not_made_again() -> None:
    session = opened()
    send(session, request(5, "tools/call", {"name": "run_skill"}))
    told, again = end(session)
    assert [each["id"] for each in told] == [5]
    assert methods(again) == ["initialize", "notifications/initialized"]


def test_requests_with_an_answer_and_cancelled_ones_are_over() -> None:
    session = opened()
    send(session, request(5, "tools/call"), request("6", "tools/list"), request(7, "tools/call"))
    assert receive(session, answer(5, error={"code": -1, "message": "no"}), answer("6"))
    send(session, notification("notifications/cancelled", requestId=7))
    told, again = end(session)
    assert (told, methods(again)) == ([], ["initialize", "notifications/initialized"])


def test_requests_of_the_server_that_ended_are_cancelled_unless_they_are_answered() -> None:
    session = opened()
    receive(session, request(0, "sampling/createMessage"), request(1, "elicitation/create"))
    send(session, answer(0))
    told, _ = end(session)
    assert [(each["method"], each["params"]["requestId"]) for each in told] == [("notifications/cancelled", 1)]
    assert end(session)[0] == []


def test_a_stream_of_events_goes_on_and_tells_of_changes_instead_of_its_acknowledgement() -> None:
    session = SessionReplay()
    send(session, LISTEN)
    assert receive(session, ACKNOWLEDGED) == [ACKNOWLEDGED]
    for _ in range(3):
        assert end(session) == ([], [LISTEN])
        changes = receive(session, ACKNOWLEDGED)
        assert methods(changes) == ["notifications/tools/list_changed"]
        assert changes[0]["params"]["_meta"] == ACKNOWLEDGED["params"]["_meta"]


def test_the_first_acknowledgement_of_a_stream_comes_from_the_server_that_gives_it() -> None:
    session = SessionReplay()
    send(session, LISTEN)
    end(session)
    assert receive(session, ACKNOWLEDGED) == [ACKNOWLEDGED]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no JSON",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}}',
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "no"}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": "\\ud800"}',
    ],
)
def test_lines_that_say_nothing_of_a_session_pass_unchanged(line: bytes) -> None:
    session = opened()
    send(session, request(5, "tools/list"))
    session.sent(line + b"\n")
    assert session.received(line + b"\n") == line + b"\n"
    assert methods(end(session)[1])[:2] == ["initialize", "notifications/initialized"]
