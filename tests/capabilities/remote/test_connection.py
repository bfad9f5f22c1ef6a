"""Answers that are late, too large, truncated, or from another kind of server."""

from __future__ import annotations

import json
import socket
from typing import Any

import anyio
import httpx2
import pytest

from server.capabilities.remote.client import RemoteError
from server.capabilities.remote.operations import verify_server
from server.capabilities.remote.skills import list_skills, verify_files
from server.wire.address import Address, AddressError
from server.wire.http_client import HttpExchange
from skills_core import Reason
from tests.capabilities.remote.helpers import MIB, connected, faults, verified
from tests.capabilities.remote.hostile import Hostile, Raw, running, serve_skill


async def test_reading_stops_at_the_bound_and_the_connection_is_closed() -> None:
    app = Hostile([serve_skill("one")], {"resources/read": Raw(b'"' + b"x" * 65536, endless=True)})
    async with running(app) as url:
        await verified(url)
        with anyio.fail_after(10):
            await app.hung_up.wait()
    # What the sockets between hold was sent and never taken.
    assert app.sent < 64 * MIB


async def test_one_failed_answer_does_not_end_the_connection() -> None:
    app = Hostile([serve_skill("one", {"cut.md": b"cut", "fine.md": b"fine"})])
    length = {"content-type": "application/json", "content-length": "1000"}

    def read(params: Any) -> Any:
        uri = params["uri"]
        return Raw(b"{", headers=length) if "cut" in uri else app.blob(uri, app.one.contents[uri])

    app.answers["resources/read"] = read
    async with connected(app) as server:
        (skill,) = await list_skills(server)
        checked = await verify_files(server, skill)
    assert checked.contents.keys() == {"SKILL.md", "fine.md"}
    assert [(fault.code, fault.path) for fault in checked.diagnostics] == [(Reason.SERVER_ERROR, "skill://one/cut.md")]


async def test_a_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.wire.http_client._SILENCE_SECONDS", 0.2)
    app = Hostile(
        [serve_skill("one")], {"resources/read": Raw(b"", headers={"content-length": "10"} | Raw(b"").headers)}
    )
    never = anyio.Event()
    respond = app._respond

    async def silent(response: Raw, receive: Any, send: Any) -> None:
        if response.headers.get("content-length") == "10":
            await never.wait()
        await respond(response, receive, send)

    app._respond = silent  # type: ignore[method-assign]  # to answer nothing at all is no answer
    async with connected(app) as server:
        with pytest.raises(RemoteError) as caught:
            await server.read("skill://one/SKILL.md", 100)
        assert caught.value.reason is Reason.TIMED_OUT
        assert await server.entries()
        never.set()


async def test_a_slowly_dripping_answer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.capabilities.remote.client._ANSWER_SECONDS", 0.3)
    app = Hostile([serve_skill("one")], {"resources/read": Raw(b" ", endless=True)})
    async with connected(app) as server:
        with pytest.raises(RemoteError) as caught:
            await server.read("skill://one/SKILL.md", 16 * MIB)
    assert caught.value.reason in {Reason.TIMED_OUT, Reason.TOO_LARGE}


async def test_answers_may_come_as_events_in_small_parts() -> None:
    app = Hostile([serve_skill("one", {"a.md": b'quoted "\\" text\n' * 20_000})])
    plain = app._response

    def events(scope: dict[str, Any], body: bytes) -> Raw:
        response = plain(scope, body)
        if response.status != 200:
            return response
        data = b": a comment\r\n\r\nevent: message\r\ndata: " + response.body + b"\r\n\r\n"
        return Raw(data, headers={"content-type": "text/event-stream"})

    app._response = events  # type: ignore[method-assign]  # the same answers in another form
    async with running(app) as url:
        assert faults(await verified(url)) == set()


async def test_a_redirect_to_another_host_is_not_followed() -> None:
    elsewhere = Hostile([serve_skill("one")])
    app = Hostile([])
    async with running(elsewhere) as other, running(app) as url:
        target = other.replace("127.0.0.1", "localhost")
        app.always = Raw(b"", 307, headers={"location": target})
        outcome = await verified(url)
    assert faults(outcome) == {"not_mcp"}
    assert elsewhere.asked == []


async def test_the_headers_are_sent_with_every_request() -> None:
    app = Hostile([serve_skill("one")], required_header=(b"authorization", b"Bearer secret"))
    async with running(app) as url:
        assert faults(await verified(url)) == {"access_denied"}
        address = Address.parse(url, ["Authorization: Bearer secret"])
        assert (await verify_server(address, (), lambda _: None)).succeeded


async def test_no_server_and_no_mcp_server_are_distinguished() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert faults(await verified(f"http://127.0.0.1:{unused.getsockname()[1]}/mcp")) == {"unreachable"}
    app = Hostile([serve_skill("one")])
    async with running(app) as url:
        assert faults(await verified(url.replace("http:", "https:"))) == {"unreachable"}
        for response in (Raw(b"", 404), Raw(b"<p>", headers={"content-type": "text/html"}), Raw(b"[]"), Raw(b"", 500)):
            app.always = response
            assert faults(await verified(url)) == {"not_mcp"}


async def test_a_lost_server_ends_the_operation() -> None:
    app = Hostile([serve_skill("one", {f"{number}.md": b"" for number in range(100)})])
    async with connected(app) as server:
        (skill,) = await list_skills(server)
        app.leave()
        await app.stopped.wait()
        with pytest.raises(RemoteError) as caught:
            await verify_files(server, skill)
    assert caught.value.reason is Reason.UNREACHABLE


def bounded(*chunks: bytes, limit: int = 10_000, structure: int = 10_000) -> HttpExchange:
    exchange = HttpExchange(limit, structure)
    exchange.start_response()
    for chunk in chunks:
        exchange.receive(chunk)
    return exchange


@pytest.mark.parametrize("text", ['{"a": "b\\"c", "\\\\": [1, "\\\\\\""]}', '["\\u0022", "", "x\\ny"]', "[]"])
def test_bytes_outside_of_strings_are_counted_with_any_chunks(text: str) -> None:
    raw = text.encode()
    outside = len(json.dumps(json.loads(text), separators=(",", ":")))  # spaces are all that is left to tell apart
    whole = bounded(raw)._structure
    assert 0 < whole <= outside + raw.count(b" ")
    for at in range(len(raw)):
        assert bounded(raw[:at], raw[at:])._structure == whole
    assert bounded(*(raw[at : at + 1] for at in range(len(raw))))._structure == whole


def test_bytes_inside_of_strings_count_only_for_the_size() -> None:
    raw = b'{"a":"' + b"[]," * 1000 + b'"}'
    assert bounded(raw)._structure == 7
    for limit, structure, cut in ((3007, 100, raw), (9000, 6, raw), (9000, 100, b'{"a\n":1}')):
        with pytest.raises(httpx2.StreamError):
            bounded(cut, limit=limit, structure=structure)


def test_the_number_of_responses_to_a_request_is_limited() -> None:
    exchange = HttpExchange(10, 10)
    assert [exchange.start_response() for _ in range(30)] == [True] * 20 + [False] * 10


@pytest.mark.parametrize(
    "url",
    ["", "example.com", "ftp://example.com/mcp", "http://", "http:///mcp", "http://a b/", "http://[::1", "http://h:x/"],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(AddressError):
        Address.parse(url)


@pytest.mark.parametrize("header", ["", "x", ": y", "a b: c", "a: b\r\nc: d", "a: caf\u00e9", "a\n: b"])
def test_an_invalid_header_is_refused(header: str) -> None:
    with pytest.raises(AddressError):
        Address.parse("http://example.com/mcp", [header])


def test_no_secret_is_ever_shown() -> None:
    address = Address.parse("https://me:pass@[::1]:8443/mcp?key=1#x", ["Authorization: Bearer token"])
    assert address.shown == "https://[::1]:8443/mcp"
    assert not {"pass", "key", "token"} & set(repr(address).replace("'", " ").split())
    assert address.headers == (("Authorization", "Bearer token"),)
