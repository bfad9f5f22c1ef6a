"""`GET /admin/events` streams what happens: first the kept events, then new ones, to those who prove the role."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import httpx2
import pytest

from server.capabilities.operation import events
from server.hosting.activity import MAX_EVENTS
from server.requests import ADMIN_METHOD, RequestDecision
from tests.conftest import MakeSkill
from tests.server.server_processes import served_by_process
from tests.server.serving import Served, bearer, serving

TOKEN = "0123456789abcdef-not-to-be-told"  # noqa: S105 - for tests


async def read(served: Served, **headers: str) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """Yield the kind, the id and the object of each event."""
    given = {**bearer(TOKEN), **headers}
    async with served.client.stream("GET", served.at("/admin/events"), headers=given) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        async for event in parsed(response):
            yield event


async def parsed(response: httpx2.Response) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            yield fields["event"], fields.get("id", ""), json.loads(fields["data"])
            fields = {}


async def test_a_reader_gets_the_kept_events_and_then_what_happens(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills, admin_token=TOKEN) as served:
        await served.call("activate_skill", name="one")
        with anyio.fail_after(60):
            stream = read(served)
            kind, _, about = await anext(stream)
            assert (kind, about["skills"], about["transport"], about["coming"]) == ("server", 1, "http", [])
            kind, number, event = await anext(stream)
            assert (kind, event["kind"], event["skill"], event["client"]) == ("activity", "activation", "one", "raw 1")
            await served.call("activate_skill", name="two")
            kind, _, event = await anext(stream)
            assert (event["kind"], event["target"], event["is_trouble"]) == ("invalid", "two", True)
            again = read(served, **{"Last-Event-ID": number})
            assert [(await anext(again))[0], (await anext(again))[2]["kind"]] == ["server", "invalid"]
            other = read(served, **{"Last-Event-ID": "another-server-7"})
            assert [(await anext(other))[0], (await anext(other))[2]["kind"]] == ["server", "activation"]
            for each in (stream, again, other):
                await each.aclose()  # type: ignore[attr-defined] # a generator
        assert all(each.decision is RequestDecision.ALLOWED for each in served.found if each.method == ADMIN_METHOD)


async def test_without_the_token_there_are_no_events(skills: Path) -> None:
    async with serving(skills, admin_token=TOKEN) as served:
        refused = await served.client.get(served.at("/admin/events"))
        assert refused.status_code == 401
        assert [(event.kind, event.reason) for event in served.host.activity.events] == [("denied", "role")]
    async with serving(skills) as served:
        assert (await served.client.get(served.at("/admin/events"))).status_code == 404


async def test_the_server_tells_about_itself_again_and_again(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BEAT_SECONDS", 0.01)
    async with serving(skills, admin_token=TOKEN) as served:
        with anyio.fail_after(60):
            stream = read(served)
            assert (await anext(stream))[2]["skills"] == 0
            make_skill("one")
            await served.host.reload()
            while (found := await anext(stream))[0] != "server" or not found[2]["skills"]:
                pass
            await stream.aclose()  # type: ignore[attr-defined] # a generator


async def test_a_reader_that_takes_nothing_holds_nobody_up(skills: Path) -> None:
    async with serving(skills, admin_token=TOKEN) as served:
        stuck = socket.create_connection(("127.0.0.1", urlsplit(served.url).port or 0))
        head = f"GET /admin/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        stuck.sendall(head.encode())
        with anyio.fail_after(60):
            stream = read(served)
            await anext(stream)
            for number in range(30 * MAX_EVENTS):
                served.host.activity.add("test", f"{number} {'x' * 500}")
                if number % 100 == 0:
                    await anyio.lowlevel.checkpoint()
            # The other reader goes on, and learns what it has missed.
            while (found := await anext(stream))[2].get("number") != 30 * MAX_EVENTS:
                assert found[0] in {"activity", "missed"}
            assert (await served.ask("tools/list")).status_code == 200
            await stream.aclose()  # type: ignore[attr-defined] # a generator
        # What it did not take is lost, and it is told so when it reads again.
        stuck.setblocking(False)
        taken = b""
        with anyio.fail_after(60):
            while b"event: missed" not in taken:
                await anyio.wait_readable(stuck)
                taken += stuck.recv(1 << 20)
        stuck.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
async def test_a_stream_ends_when_the_server_begins_to_stop(skills: Path) -> None:
    settings = {"SKILLSERVE_ADMIN_TOKEN": TOKEN, "SKILLSERVE_DRAIN_SECONDS": "300"}
    async with served_by_process(skills, **settings) as served, httpx2.AsyncClient(timeout=60) as client:
        async with client.stream("GET", f"{served.root}/admin/events", headers=bearer(TOKEN)) as response:
            kinds = []
            async for kind, _, _ in parsed(response):
                kinds.append(kind)
                if kind == "server":
                    served.process.send_signal(signal.SIGTERM)
            assert kinds == ["server", "end"]
        assert await served.end() == -signal.SIGTERM
        assert "cancelled" not in served.log
        assert "Traceback" not in served.log
