"""Clients that declare MCP Apps receive pages for some tools; for all others nothing changes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp.server import apps as sdk

from server.capabilities.apps import EXTENSION, MIME_TYPE, TOOLS
from server.capabilities.apps.pages import page_of
from server.capabilities.apps.settings import AppsMode
from server.config.settings.tools import OptionalTool
from server.listing.extensions import META_STRUCTURE
from server.protocol.conversations import META_VIEW
from server.protocol.early_answers import EarlyAnswers
from tests.conftest import write_skill
from tests.server.openings import INITIALIZED, Message, envelope, host_of, initialize, line_of, request, served

DECLARED = {"extensions": {EXTENSION: {"mimeTypes": [MIME_TYPE]}}}
OTHERS: list[Message] = [
    {},
    {"extensions": {}},
    {"extensions": {EXTENSION: {}}},
    {"extensions": {EXTENSION: {"mimeTypes": ["text/html"]}}},
    {"extensions": {EXTENSION: {"mimeTypes": MIME_TYPE}}},
    {"extensions": {"another": {"mimeTypes": [MIME_TYPE]}}},
]
ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
FIND: Message = {"name": "find_skills", "arguments": {"query": "PDF"}}
ACTIVATE: Message = {"name": "activate_skill", "arguments": {"name": "pdf"}}
PAGES = sorted(TOOLS)


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    write_skill(root, "pdf", "Fills PDF forms.")
    return root


def asked(
    skills: Path, capabilities: Message, requests: list[tuple[str, Message]], *, modern: bool, **settings: Any
) -> list[Message]:
    """Return the answers to requests of a client with these capabilities."""
    meta = {"_meta": envelope("a client", capabilities)} if modern else {}
    lines = [] if modern else [initialize("a client", "2025-11-25", capabilities), INITIALIZED]
    for number, (method, params) in enumerate(requests, 1):
        given = {**params, "_meta": {**params.get("_meta", {}), **meta.get("_meta", {})}}
        lines.append(request(number, method, given if given["_meta"] else params))
    answers = {each["id"]: each for each in served(host_of(skills, **settings), map(line_of, lines)) if "id" in each}
    return [answers[number] for number in range(1, len(requests) + 1)]


def result(answer: Message) -> Message:
    found: Message = answer["result"]
    return found


def test_the_names_are_those_of_the_sdk() -> None:
    assert (EXTENSION, MIME_TYPE) == (sdk.EXTENSION_ID, sdk.APP_MIME_TYPE)


@ERAS
@pytest.mark.parametrize("capabilities", OTHERS)
def test_for_other_clients_nothing_changes(skills: Path, capabilities: Message, *, modern: bool) -> None:
    requests: list[tuple[str, Message]] = [
        *([("server/discover", {})] if modern else []),
        *((method, {}) for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list")),
        ("tools/call", FIND),
        ("tools/call", ACTIVATE),
        *(("resources/read", {"uri": f"ui://skillserve/{tool}"}) for tool in PAGES),
    ]
    tools = (OptionalTool("run_skill"),)
    as_ever = asked(skills, capabilities, requests, modern=modern, apps=AppsMode.OFF, tools=tools, model="client")
    now = asked(skills, capabilities, requests, modern=modern, tools=tools, model="client")
    assert json.dumps(now) == json.dumps(as_ever)
    assert not [mark for mark in ("ui://", EXTENSION, META_STRUCTURE) if mark in json.dumps(now[: -len(PAGES)])]
    assert all("error" in each for each in now[-len(PAGES) :])


@ERAS
def test_a_client_that_declares_it_receives_pages_and_the_same_texts(skills: Path, *, modern: bool) -> None:
    requests: list[tuple[str, Message]] = [("tools/list", {}), ("tools/call", FIND), ("tools/call", ACTIVATE)]
    as_ever = [result(each) for each in asked(skills, {}, requests, modern=modern)]
    listed, *results = [result(each) for each in asked(skills, DECLARED, requests, modern=modern)]
    for tool, before in zip(listed["tools"], as_ever[0]["tools"], strict=True):
        added = {key: tool["_meta"].pop(key) for key in ("ui", "ui/resourceUri") if key in tool["_meta"]}
        assert tool == before
        uri = f"ui://skillserve/{tool['name']}"
        assert added == ({"ui": {"resourceUri": uri}, "ui/resourceUri": uri} if tool["name"] in TOOLS else {})
    for told, before in zip(results, as_ever[1:], strict=True):
        assert (told["content"], told["isError"]) == (before["content"], before["isError"])
        assert "structuredContent" not in told
    assert [match["name"] for match in results[0]["_meta"][META_STRUCTURE]["matches"]] == ["pdf"]


@ERAS
def test_a_page_is_read_and_not_listed(skills: Path, *, modern: bool) -> None:
    reads: list[tuple[str, Message]] = [("resources/read", {"uri": f"ui://skillserve/{tool}"}) for tool in PAGES]
    listed, unknown, *read = asked(
        skills,
        DECLARED,
        [("resources/list", {}), ("resources/read", {"uri": "ui://skillserve/../x"}), *reads],
        modern=modern,
    )
    assert "ui://" not in json.dumps(listed)
    assert "error" in unknown
    for tool, answer in zip(PAGES, read, strict=True):
        (contents,) = result(answer)["contents"]
        assert (contents["uri"], contents["mimeType"]) == (f"ui://skillserve/{tool}", MIME_TYPE)
        assert contents["text"] == page_of(tool)
        assert result(answer).get("cacheScope") == ("private" if modern else None)


def test_in_the_modern_era_each_request_declares_for_itself(skills: Path) -> None:
    first, other = (
        request(number, "tools/list", {"_meta": envelope("a client", capabilities)})
        for number, capabilities in ((1, DECLARED), (2, {}))
    )
    answers = {
        each["id"]: json.dumps(each)
        for each in served(
            host_of(skills),
            map(
                line_of,
                [
                    first,
                    other,
                ],
            ),
        )
    }
    assert ("ui://" in answers[1], "ui://" in answers[2]) == (True, False)


def test_the_server_declares_the_extension_to_those_who_do(skills: Path) -> None:
    for capabilities, expected in ((DECLARED, {}), ({}, None)):
        (answer,) = asked(skills, capabilities, [("server/discover", {})], modern=True)
        assert result(answer)["capabilities"]["extensions"].get(EXTENSION) == expected


@ERAS
def test_the_setting_decides_for_all_clients(skills: Path, *, modern: bool) -> None:
    for mode, capabilities, expected in ((AppsMode.ON, {}, True), (AppsMode.OFF, DECLARED, False)):
        (listed,) = asked(skills, capabilities, [("tools/list", {})], modern=modern, apps=mode)
        assert ("ui://" in json.dumps(listed)) is expected


@pytest.mark.parametrize("capabilities", [DECLARED, *OTHERS])
def test_answers_before_the_sdk_is_loaded_equal_those_of_its_server(skills: Path, capabilities: Message) -> None:
    meta = {"_meta": envelope("a client", capabilities)}
    for messages in (
        [request(1, method, meta) for method in ("server/discover", "tools/list")],
        [initialize("a client", "2025-11-25", capabilities), INITIALIZED, request(2, "tools/list")],
    ):
        host = host_of(skills)
        early = EarlyAnswers(host)
        for message in messages:
            answer = early.answer(line_of(message))
            if "id" in message:
                assert answer is not None
                lines = map(line_of, messages[: messages.index(message) + 1])
                found = [each for each in served(host, lines) if each.get("id") == message["id"]]
                assert json.loads(answer.to_client) in found


@ERAS
def test_calls_of_a_page_tell_the_model_nothing_and_count_as_nothing_told(skills: Path, *, modern: bool) -> None:
    of_page = {**ACTIVATE, "_meta": {META_VIEW: True}}
    calls = [of_page, of_page, ACTIVATE, ACTIVATE]
    answers = [
        result(each) for each in asked(skills, DECLARED, [("tools/call", each) for each in calls], modern=modern)
    ]
    texts = [each["content"][0]["text"] for each in answers]
    # The model gets the whole text after the page had it, and the short answer only when it had the text itself.
    assert texts[0] == texts[1] == texts[2]
    assert "has not changed" in texts[3]


@pytest.mark.parametrize("tool", PAGES)
def test_a_page_is_one_file_that_asks_for_nothing_and_sets_no_markup(tool: str) -> None:
    page = page_of(tool)
    assert "{{" not in page
    assert re.findall(r"https?:|\bsrc=|href=|url\(|@import|\bfetch\b|XMLHttpRequest|WebSocket|\bimport\b", page) == []
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", page) == []
    assert f'data-tool="{tool}"' in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1].split("script-src")[1].split(";")[0]
