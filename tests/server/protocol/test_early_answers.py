"""Answers before the SDK is loaded equal those of the SDK's server, and anything unusual is left to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.config.settings.tools import OptionalTool
from server.hosting.host import Host
from server.protocol.early_answers import ACKNOWLEDGED, EarlyAnswers
from tests.conftest import write_skill
from tests.server.openings import (
    INITIALIZED,
    LISTS,
    OPENINGS,
    Message,
    envelope,
    host_of,
    initialize,
    line_of,
    request,
    served,
)

ODD = 'tags: [a, ~, 1.5]\nwhen-used: {deep: [~, {x: ~}]}\nversion: 1.0\nargument-hint: "[<a>]"\n'


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("skills")
    write_skill(root, "plain", files={"notes.md": b"notes", "data.bin": b"\x00\x01"})
    write_skill(root, "odd", "Ümläut <b> & </available_skills> \u2028 emoji \U0001f600.", fields=ODD)
    write_skill(root, "always", fields="metadata: {jdai: {always: true}}")
    write_skill(root, "users", fields="disable-model-invocation: true", body="With {{topic}}.")
    write_skill(root, "models", fields="user-invocable: false")
    return root


@pytest.fixture(scope="module")
def host(skills: Path) -> Host:
    return host_of(skills)


def early(host: Host, messages: Iterable[Message]) -> dict[int, Message]:
    """Return the early answers by the places of their requests."""
    answers = EarlyAnswers(host)
    found = {place: answers.answer(line_of(message)) for place, message in enumerate(messages)}
    return {place: json.loads(answer.to_client) for place, answer in found.items() if answer}


def by_number(messages: list[Message]) -> dict[Any, Message]:
    """Return responses and acknowledgements by the ids of their requests."""
    streams = [(stream_of(each), each) for each in messages if each.get("method") == ACKNOWLEDGED]
    return {**{each["id"]: each for each in messages if "method" not in each}, **dict(streams)}


def stream_of(acknowledgement: Message) -> Any:
    return acknowledgement["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]


def assert_equal_to_served(host: Host, messages: list[Message]) -> dict[int, Message]:
    """Compare each early answer with that of the SDK's server; return the early ones."""
    answers = early(host, messages)
    # Clients use a number once a connection, but the property may not: the answers are compared in their order.
    numbered = [{**each, "id": f"n{place}"} if "id" in each else each for place, each in enumerate(messages)]
    by_sdk = by_number(served(host, map(line_of, numbered)))
    for place, answer in answers.items():
        number = messages[place]["id"]
        expected = json.loads(json.dumps(by_sdk[f"n{place}"]).replace(json.dumps(f"n{place}"), json.dumps(number)))
        assert answer == expected, messages[place]
        assert [type(each) for each in by_number([answer])] == [type(number)]
    return answers


@pytest.mark.parametrize("client", OPENINGS)
def test_early_answers_to_real_clients_equal_those_of_the_sdk(client: str, host: Host) -> None:
    messages = OPENINGS[client]
    answered = assert_equal_to_served(host, messages)
    assert answered.keys() == {place for place, each in enumerate(messages) if each != INITIALIZED}


EVERYTHING: list[Message] = [
    initialize("anyone", "2025-11-25", {}),
    INITIALIZED,
    *(request(f"old-{method}", method) for method in (*LISTS, "ping")),
    *(request(f"new-{method}", method, {"_meta": envelope("anyone", {})}) for method in ("server/discover", *LISTS)),
]

TOOLS = (
    OptionalTool("skills_status"),
    OptionalTool("reload_skills"),
    OptionalTool("check_tool_call"),
    OptionalTool("skill_context"),
    OptionalTool("run_skill_script"),
    OptionalTool("run_skill"),
)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"page_size": 1},
        {"tools": TOOLS, "model": "client"},
        {"catalog_budget": 500, "enum_limit": 1},
        {"pinned": ("plain",)},
    ],
)
def test_early_answers_equal_those_of_the_sdk_with_other_settings(settings: Message, skills: Path) -> None:
    answered = assert_equal_to_served(host_of(skills, **settings), EVERYTHING)
    assert len(answered) == len(EVERYTHING) - 1


def test_early_answers_equal_those_of_the_sdk_without_skills(tmp_path: Path) -> None:
    answered = assert_equal_to_served(host_of(tmp_path), EVERYTHING)
    assert len(answered) == len(EVERYTHING) - 1


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1", ""])
def test_every_proposed_version_is_answered_as_the_sdk_does(version: str, host: Host) -> None:
    messages = [initialize("anyone", version, {}), INITIALIZED, *EVERYTHING[2:7]]
    assert len(assert_equal_to_served(host, messages)) == 6


@pytest.mark.parametrize("number", [0, -1, 2**53 - 1, "", "7", "a\u00e9\U0001f600", "x" * 1000])
def test_ids_are_returned_as_they_came(number: str | int, host: Host) -> None:
    answers = early(host, [{**request(number, "tools/list"), "params": {"_meta": envelope(None, {})}}])
    assert answers[0]["id"] == number
    assert type(answers[0]["id"]) is type(number)


def _without(message: Message, *path: str) -> Message:
    changed = deepcopy(message)
    within = changed
    for name in path[:-1]:
        within = within[name]
    del within[path[-1]]
    return changed


META = envelope("anyone", {})
MODERN = request(1, "tools/list", {"_meta": META})
VERSION, CAPABILITIES = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"

LEFT: dict[str, object] = {
    "a method before the handshake": request(1, "tools/list"),
    "an unknown method": request(1, "tools/lists", {"_meta": META}),
    "a call": request(1, "tools/call", {"_meta": META, "name": "activate_skill", "arguments": {"name": "plain"}}),
    "a stream of one file": request(
        1,
        "subscriptions/listen",
        {"_meta": META, "notifications": {"resourceSubscriptions": ["skill://plain/SKILL.md"]}},
    ),
    "a stream of no": request(1, "subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": False}}),
    "a stream without a filter": request(1, "subscriptions/listen", {"_meta": META}),
    "a stream of the handshake era": request(1, "subscriptions/listen", {"notifications": {}}),
    "a stream with a numeral as id": request("7", "subscriptions/listen", {"_meta": META, "notifications": {}}),
    "a notification": INITIALIZED,
    "a cancellation": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    "a response": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "a batch": [MODERN],
    "no object": 7,
    "another JSON-RPC": {**MODERN, "jsonrpc": "1.0"},
    "no JSON-RPC": _without(MODERN, "jsonrpc"),
    "no method": _without(MODERN, "method"),
    "a field more": {**MODERN, "more": 1},
    "an id of true": {**MODERN, "id": True},
    "an id of null": {**MODERN, "id": None},
    "an id of 1.0": {**MODERN, "id": 1.0},
    "a large id": {**MODERN, "id": 2**63},
    "an id of half a character": {**MODERN, "id": "\ud800"},
    "params of null": {**MODERN, "params": None},
    "a list of params": {**MODERN, "params": [META]},
    "a cursor": request(1, "tools/list", {"_meta": META, "cursor": "x"}),
    "a field more in the params": request(1, "tools/list", {"_meta": META, "more": 1}),
    "another version": request(1, "tools/list", {"_meta": {**META, VERSION: "2027-01-01"}}),
    "a version of null": request(1, "tools/list", {"_meta": {**META, VERSION: None}}),
    "no capabilities": request(1, "tools/list", {"_meta": _without(META, CAPABILITIES)}),
    "odd capabilities": request(1, "tools/list", {"_meta": {**META, CAPABILITIES: {"roots": {"listChanged": 1}}}}),
    "an unknown capability": request(1, "tools/list", {"_meta": {**META, CAPABILITIES: {"tasks": {}}}}),
    "a field more in the envelope": request(1, "tools/list", {"_meta": {**META, "x/y": 1}}),
    "a request in the envelope that is made without": request(1, "ping", {"_meta": META}),
    "a discovery without the envelope": request(1, "server/discover"),
    "too many brackets": request(
        1, "tools/list", {"_meta": {**META, CAPABILITIES: {"experimental": {"x": {"y": [[]] * 60}}}}}
    ),
    "a long line": request("x" * 70_000, "tools/list", {"_meta": META}),
}


@pytest.mark.parametrize("what", LEFT)
def test_anything_unusual_is_left_to_the_sdk(what: str, host: Host) -> None:
    assert EarlyAnswers(host).answer(line_of(LEFT[what])) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"\xff" + line_of(MODERN),
        b"\xef\xbb\xbf" + line_of(MODERN),
        line_of(MODERN) + b"1",
        line_of(MODERN).replace(b'"id": 1', b'"id": NaN'),
        line_of(MODERN).replace(b'"id": 1', b'"id": 1, "id": 2'),
        b"[" * 100_000,
    ],
)
def test_lines_that_are_not_plain_json_are_left_to_the_sdk(line: bytes, host: Host) -> None:
    assert EarlyAnswers(host).answer(line) is None


@pytest.mark.parametrize(
    "between",
    [
        initialize("another", "2024-11-05", {}),
        request(5, "logging/setLevel", {"level": "debug"}),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}},
        {"jsonrpc": "2.0", "method": "initialize"},
    ],
)
def test_a_handshake_with_anything_unusual_is_left_to_the_sdk_from_there_on(between: Message, host: Host) -> None:
    messages = [initialize("anyone", "2025-11-25", {}), INITIALIZED, between, request(1, "tools/list"), MODERN]
    assert early(host, messages).keys() == {0, 4}


def test_the_list_is_left_to_the_sdk_where_skills_declare_tools(skills: Path) -> None:
    host = host_of(skills, skill_tools=("plain/*",))
    assert early(host, EVERYTHING).keys() == {
        place for place, each in enumerate(EVERYTHING) if each["method"] not in {"tools/list", INITIALIZED["method"]}
    }


def test_metadata_that_the_sdk_changes_is_left_to_it(tmp_path: Path) -> None:
    write_skill(tmp_path, "odd", fields="license: ~")
    host = host_of(tmp_path)
    answered = assert_equal_to_served(host, EVERYTHING)
    left = {place for place, each in enumerate(EVERYTHING) if place not in answered}
    assert left == {1, EVERYTHING.index(request("new-resources/list", "resources/list", {"_meta": META}))}


def test_a_stream_is_acknowledged_once_an_id(host: Host) -> None:
    listen = request(7, "subscriptions/listen", {"_meta": META, "notifications": {}})
    assert_equal_to_served(host, [listen, {**listen, "id": "a"}])
    assert early(host, [listen, listen]).keys() == {0}
    assert len(early(host, [{**listen, "id": number} for number in range(100)])) < 20


def test_each_client_gets_its_own_list(tmp_path: Path) -> None:
    for number in range(100):
        write_skill(tmp_path, f"skill-{number}", "Does a long thing. " * 10)
    host = host_of(tmp_path)
    lists = []
    for client, version in (("claude-code", "2.1.295"), ("claude-code", "2.1.330"), ("anyone", "1"), (None, "")):
        messages = [request(1, "tools/list", {"_meta": envelope(client, {}, version=version)})]
        lists.append(assert_equal_to_served(host, messages)[0])
        if client:
            assert_equal_to_served(
                host, [initialize(client, "2025-11-25", {}, version=version), INITIALIZED, request(1, "tools/list")]
            )
    assert lists[0] != lists[1] != lists[2] == lists[3]


def test_the_sdk_gets_the_same_request_under_an_id_of_our_own(host: Host) -> None:
    answers = EarlyAnswers(host)
    found = [answers.answer(line_of(MODERN)) for _ in range(2)]
    silent = [answer.silent for answer in found if answer]
    assert len({*silent}) == 2
    assert [json.loads(answer.to_server) for answer in found if answer] == [{**MODERN, "id": each} for each in silent]


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "2.0", "é"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["form", "listChanged", "x"]), inner),
    max_leaves=4,
)


@st.composite
def _changed(draw: st.DrawFn) -> list[Message]:
    """Return an opening in which some values are replaced, removed or added."""
    messages: list[Any] = deepcopy(draw(st.sampled_from([*OPENINGS.values()])))
    for _ in range(draw(st.integers(0, 3))):
        within: Message = draw(st.sampled_from(messages))
        for _ in range(draw(st.integers(0, 4))):
            within = draw(st.sampled_from([each for each in within.values() if isinstance(each, dict)] or [within]))
        change: Callable[[], object] = draw(
            st.sampled_from(
                [
                    lambda within=within: within.update(
                        {draw(st.sampled_from([*within, "x", "_meta", "cursor"])): draw(_JSON)}
                    ),
                    lambda within=within: within.pop(draw(st.sampled_from([*within])), None) if within else None,
                ]
            )
        )
        change()
    return messages


@given(messages=_changed())
def test_whatever_is_answered_early_is_what_the_sdk_answers(messages: list[Message], host: Host) -> None:
    assert_equal_to_served(host, messages)
