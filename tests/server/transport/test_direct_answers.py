"""Plain requests are answered without the SDK's transport: with the same bytes, and the same records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from server.requests import RequestRecord
from tests.conftest import MakeSkill
from tests.server.serving import MODERN_META, Served, modern, modern_headers, serving

BY_THE_SDK = [("X-Again", "1"), ("X-Again", "2")]
"""A request with a repeated header is not plain."""

MAIN = "skill://notes/SKILL.md"


def activation(**arguments: Any) -> dict[str, Any]:
    return modern("tools/call", {"name": "activate_skill", "arguments": arguments})


def reading(**arguments: Any) -> dict[str, Any]:
    return modern("tools/call", {"name": "read_skill_file", "arguments": arguments})


PLAIN: dict[str, dict[str, Any]] = {
    "tools": modern("tools/list"),
    "prompts": modern("prompts/list"),
    "resources": modern("resources/list"),
    "templates": modern("resources/templates/list"),
    "skills": modern("skills/list"),
    "skill": modern("skills/get", {"uri": MAIN}),
    "read": modern("resources/read", {"uri": MAIN}),
    "binary": modern("resources/read", {"uri": "skill://notes/logo.bin"}),
    "activation": activation(name="notes"),
    "activation with values": activation(name="notes", arguments={"topic": "Käse \u2028"}, message="now"),
    "activation with a receipt": activation(name="notes", have="0" * 12),
    "file": reading(skill="notes", path="more.md"),
    "another id": {**modern("tools/list"), "id": "a-7"},
    "a negative id": {**modern("skills/list"), "id": -12},
    "a known client": modern(
        "tools/list", None, **{"io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.0"}}
    ),
    "progress": modern("tools/list", None, progressToken="p-1"),
    "a view": modern(
        "tools/call", {"name": "activate_skill", "arguments": {"name": "notes"}}, **{"skillserve/view": True}
    ),
    "no such cursor": modern("skills/list", {"cursor": "x"}),
    "a cursor for one page": modern("tools/list", {"cursor": "x"}),
    "no such skill": modern("skills/get", {"uri": "skill://none/SKILL.md"}),
    "no skill's main file": modern("skills/get", {"uri": "skill://notes/more.md"}),
    "no such file": modern("resources/read", {"uri": "skill://notes/None"}),
    "no such name": activation(name="note"),
    "no name": activation(),
    "another argument": activation(name="notes", nome="x"),
    "a wrong argument": activation(name=["notes"]),
    "a wrong range": reading(skill="notes", path="more.md", offset=10**30),
}


def changed(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**message, "params": {**message["params"], **more}}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in MODERN_META.items() if not name.endswith(key)}


OTHER: dict[str, bytes] = {
    "a further field": json.dumps(changed(modern("tools/list"), other=1)).encode(),
    "state": json.dumps(changed(activation(name="notes"), requestState="x")).encode(),
    "no metadata": json.dumps({**modern("tools/list"), "params": {}}).encode(),
    "no version": json.dumps(changed(modern("tools/list"), _meta=without("protocolVersion"))).encode(),
    "no capabilities": json.dumps(changed(modern("tools/list"), _meta=without("clientCapabilities"))).encode(),
    "another version": json.dumps(
        changed(modern("tools/list"), _meta={**MODERN_META, "io.modelcontextprotocol/protocolVersion": "1900-01-01"})
    ).encode(),
    "wrong metadata": json.dumps(modern("tools/list", None, progressToken=[1])).encode(),
    "a number of another kind": json.dumps({**modern("tools/list"), "id": 1.0}).encode(),
    "a large id": json.dumps({**modern("tools/list"), "id": 10**30}).encode(),
    "an escaped id": json.dumps({**modern("tools/list"), "id": 'Ä"\\'}).encode(),
    "no id": json.dumps({key: value for key, value in modern("tools/list").items() if key != "id"}).encode(),
    "another protocol": json.dumps({**modern("tools/list"), "jsonrpc": "1.0"}).encode(),
    "half a pair": json.dumps(activation(name="\ud800")).encode(),
    "not a number": json.dumps(activation(name=float("nan"))).encode(),
    "no JSON": b"{",
    "no object": b'"tools/list"',
    "another tool": json.dumps(modern("tools/call", {"name": "find_skills", "arguments": {"query": "notes"}})).encode(),
    "an unknown tool": json.dumps(modern("tools/call", {"name": "none", "arguments": {}})).encode(),
    "null for arguments": json.dumps(modern("tools/call", {"name": "activate_skill", "arguments": None})).encode(),
    "no text for a cursor": json.dumps(modern("skills/list", {"cursor": 1})).encode(),
    "an unknown method": json.dumps(modern("none")).encode(),
    "a prompt": json.dumps(modern("prompts/get", {"name": "notes"})).encode(),
}


@pytest.fixture
def library(skills: Path, make_skill: MakeSkill) -> Path:
    body = "Notes on {{topic}}, with “quotes” and a \x7f.\n"
    make_skill("notes", body=body, files={"more.md": "Ünïcode\n".encode(), "logo.bin": bytes(range(256))})
    make_skill("other")
    return skills


@pytest.fixture
def asked_of_sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the methods of the requests that the SDK's transport answers, as their headers name them."""
    found: list[str] = []
    sdk = import_module("mcp.server.streamable_http_manager")
    original = sdk.handle_modern_request

    async def noting(*arguments: Any) -> None:
        found.append(dict(arguments[4]["headers"]).get(b"mcp-method", b"").decode())
        await original(*arguments)

    monkeypatch.setattr(sdk, "handle_modern_request", noting)
    return iter([found])


async def post(
    served: Served, body: bytes, headers: dict[str, str], more: list[tuple[str, str]] | None = None
) -> tuple[int, bytes, list[tuple[str, str]]]:
    sent = [("Content-Type", "application/json"), *headers.items(), *(more or ())]
    answer: httpx2.Response = await served.client.post(served.url, content=body, headers=sent)
    return answer.status_code, answer.content, sorted(each for each in answer.headers.items() if each[0] != "date")


def comparable(record: RequestRecord) -> RequestRecord:
    return msgspec.structs.replace(record, request_id="", seconds=0.0)


@pytest.mark.parametrize("streams", [False, True])
async def test_plain_requests_get_the_answers_of_the_sdk(
    *, streams: bool, library: Path, asked_of_sdk: Iterator[list[str]]
) -> None:
    by_sdk = next(asked_of_sdk)
    async with serving(library, streams=streams) as served:
        for name, message in PLAIN.items():
            body, headers = json.dumps(message).encode(), modern_headers(message)
            served.found.clear()
            # Twice, as results are kept.
            direct = [await post(served, body, headers) for _ in range(2)]
            assert not by_sdk, name
            expected = await post(served, body, headers, BY_THE_SDK)
            assert by_sdk, name
            by_sdk.clear()
            assert direct == [expected, expected], name
            first, second, third = map(comparable, served.found)
            assert first == second == third, name


async def test_views_of_roles_are_those_of_the_sdk(library: Path) -> None:
    roles: dict[str, Any] = {"access_roles": {"reader": ("other",)}, "access_default_roles": ("reader",)}
    async with serving(library, **roles) as served:
        for name, message in PLAIN.items():
            body, headers = json.dumps(message).encode(), modern_headers(message)
            served.found.clear()
            assert await post(served, body, headers) == await post(served, body, headers, BY_THE_SDK), name
            first, second = map(comparable, served.found)
            assert first == second, name


async def test_what_is_not_plain_is_left_to_the_sdk(library: Path, asked_of_sdk: Iterator[list[str]]) -> None:
    by_sdk = next(asked_of_sdk)
    async with serving(library) as served:
        for name, body in OTHER.items():
            try:
                message = json.loads(body)
                headers = modern_headers(message)
            except (ValueError, TypeError, KeyError):
                headers = modern_headers(modern("tools/list"))
            headers = {key: value for key, value in headers.items() if value.isascii()}
            answer = await post(served, body, headers)
            assert len(by_sdk) == 1, name
            assert answer == await post(served, body, headers, BY_THE_SDK), name
            by_sdk.clear()


HEADS: dict[str, dict[str, str]] = {
    "a foreign host": {"Host": "evil.example"},
    "a foreign origin": {"Origin": "https://evil.example"},
    "another method": {"Mcp-Method": "prompts/list"},
    "another name": {"Mcp-Name": "other"},
    "another type": {"Content-Type": "text/plain"},
    "another answer": {"Accept": "text/html"},
    "another version": {"Mcp-Protocol-Version": "1900-01-01"},
    "an encoded name": {"Mcp-Name": "=?base64?YWN0aXZhdGVfc2tpbGw=?="},
    "a header for a parameter": {"Mcp-Param-Name": "notes"},
}


@pytest.mark.parametrize("head", HEADS)
async def test_a_head_that_was_accepted_vouches_for_no_other(head: str, library: Path) -> None:
    """The Host and the Origin are checked for each request, also after good ones."""
    message = activation(name="notes")
    async with serving(library) as served:
        body, good = json.dumps(message).encode(), modern_headers(message)
        assert (await post(served, body, good))[0] == 200
        more = HEADS[head]
        headers = {"Content-Type": "application/json", **good, **more}
        sent = [*headers.items()]
        answers = []
        for again in ([], BY_THE_SDK):
            answer = await served.client.post(served.url, content=body, headers=[*sent, *again])
            answers.append((answer.status_code, answer.content))
        assert answers[0] == answers[1]
        assert (answers[0][0] == 200) == (head in {"an encoded name", "a header for a parameter"})
        records = [comparable(each) for each in served.found[-2:]]
        assert records[0] == records[1]


async def test_a_reload_ends_what_was_kept(library: Path, make_skill: MakeSkill) -> None:
    async with serving(library) as served:
        requests = [PLAIN[name] for name in ("tools", "prompts", "resources", "skills", "skill", "read", "activation")]
        before = [await post(served, json.dumps(each).encode(), modern_headers(each)) for each in requests]
        make_skill("notes", description="Quite another description.", body="Quite another text.\n")
        await served.host.reload()
        for message, old in zip(requests, before, strict=True):
            new = await post(served, json.dumps(message).encode(), modern_headers(message))
            assert new != old, message["method"]
            assert new == await post(served, json.dumps(message).encode(), modern_headers(message), BY_THE_SDK)
