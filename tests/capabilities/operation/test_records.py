"""Each request is recorded once, with who sent it, what it used and how it was decided, and without texts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, PaginatedRequestParams

from server.access import LOCAL
from server.config.machine import current_environment
from server.hosting.host import Host
from server.protocol.server import SkillServer
from server.protocol.subscriptions import BURST
from server.requests import OTHER_METHOD, Records, RequestDecision, RequestReason, RequestRecord, Use, note_denied
from skills_core import Library, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.conftest import MakeSkill
from tests.server.serving import serving
from tests.server.settings import make_settings
from tests.server.transport.test_event_streams import HandshakeClient

Recorded: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Client, list[RequestRecord]]]]


@pytest.fixture(params=["handshake", "modern"])
def recorded(skills: Path, request: pytest.FixtureRequest) -> Recorded:
    """Connect to a server in this process that records requests."""

    @asynccontextmanager
    async def recorded(**settings: Any) -> AsyncGenerator[tuple[Client, list[RequestRecord]]]:
        library = Library(explicit_sources([skills]), current_environment)
        host, found = Host(library, make_settings(watch=WatchMode.OFF, **settings)), list[RequestRecord]()
        host.records.add(found.append)
        server = SkillServer(host, local=True)
        name = Implementation(name="tester", version="2.1")
        mode: Any = "2026-07-28" if request.param == "modern" else "legacy"
        async with server.exchanges.serving(), Client(server, mode=mode, client_info=name, cache=None) as client:
            yield client, found

    return recorded


def last(found: list[RequestRecord]) -> RequestRecord:
    """Return the last record; the client lists tools of its own accord."""
    return next(each for each in reversed(found) if each.method != "tools/list")


async def test_a_record_names_caller_client_skill_and_digest(
    recorded: Recorded, make_skill: MakeSkill, request: pytest.FixtureRequest
) -> None:
    make_skill("one")
    async with recorded() as (client, found):
        await client.call_tool("activate_skill", {"name": "one", "message": "my secret"})
    record = last(found)
    assert (record.method, record.tool, record.skill, record.use) == (
        "tools/call",
        "activate_skill",
        "one",
        "activated",
    )
    assert record.digest.startswith("sha256:")
    assert (record.principal, record.client) == (LOCAL, ("tester", "2.1"))
    assert record.era in request.node.name
    assert (record.decision, record.reason) == (RequestDecision.ALLOWED, RequestReason.NONE)
    assert record.seconds > 0
    assert "my secret" not in repr(found)
    assert len({each.request_id for each in found}) == len(found)


async def test_each_way_to_use_a_skill_is_recorded(recorded: Recorded, make_skill: MakeSkill) -> None:
    make_skill("one", files={"notes.md": b"text"})
    async with recorded() as (client, found):
        await client.get_prompt("one")
        assert (last(found).use, last(found).skill, last(found).target) == (Use.ACTIVATED, "one", "one")
        await client.read_resource("skill://one/notes.md")
        assert (last(found).use, last(found).skill, last(found).target) == (Use.READ, "one", "skill://one/notes.md")
        await client.call_tool("read_skill_file", {"skill": "one", "path": "notes.md"})
        assert (last(found).use, last(found).skill, last(found).tool) == (Use.READ, "one", "read_skill_file")
        await client.call_tool("find_skills", {"query": "one"})
        assert (last(found).found, last(found).use) == (("one",), None)


async def test_invalid_requests_are_recorded_with_their_reason(recorded: Recorded, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with recorded() as (client, found):
        await client.call_tool("activate_skill", {"name": "none"})
        assert (last(found).decision, last(found).reason) == (RequestDecision.INVALID, RequestReason.UNKNOWN_SKILL)
        assert (last(found).skill, last(found).target) == ("", "none")
        await client.call_tool("read_skill_file", {"skill": "one", "path": "none.md"})
        assert (last(found).decision, last(found).reason) == (RequestDecision.INVALID, RequestReason.UNKNOWN_FILE)
        with pytest.raises(MCPError):
            await client.call_tool("no_such_tool", {})
        assert (last(found).decision, last(found).reason) == (RequestDecision.INVALID, RequestReason.UNKNOWN_TOOL)
        assert last(found).tool == ""
        with pytest.raises(MCPError):
            await client.read_resource("skill://none/SKILL.md")
        assert (last(found).decision, last(found).reason) == (RequestDecision.INVALID, RequestReason.INVALID_REQUEST)


async def test_a_call_that_the_guard_denies_is_recorded_as_denied(recorded: Recorded, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with recorded(tools=("check_tool_call",), danger_patterns=("rm -rf",)) as (client, found):
        await client.call_tool("check_tool_call", {"tool": "Bash", "arguments": {"command": "rm -rf x"}})
    assert (last(found).decision, last(found).reason) == (RequestDecision.DENIED, RequestReason.GUARD)


async def test_long_names_of_clients_and_targets_are_cut(recorded: Recorded, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with recorded() as (client, found):
        await client.call_tool("activate_skill", {"name": "x\n" * 10_000})
    assert len(last(found).target) < 1000
    assert "\n" not in last(found).target


async def cancelled(skills: Path, note: Callable[[], None] = lambda: None) -> list[tuple[RequestDecision, str]]:
    """Cancel a request whose handler has called `note`; return how it was decided."""
    library = Library(explicit_sources([skills]), current_environment)
    records, found = Records(), list[RequestRecord]()
    records.add(found.append)
    server = SkillServer(Host(library, make_settings(watch=WatchMode.OFF), records=records), local=True)
    reached = anyio.Event()

    async def never(*_: object) -> dict[str, Any]:
        note()
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    server.add_request_handler("prompts/list", PaginatedRequestParams, never)
    async with Client(server, mode="2026-07-28", cache=None) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.list_prompts)
        await reached.wait()
        tasks.cancel_scope.cancel()
    return [(each.decision, each.reason) for each in found if each.method == "prompts/list"]


async def test_a_cancelled_request_is_recorded(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    assert await cancelled(skills) == [(RequestDecision.FAILED, RequestReason.CANCELLED)]


async def test_what_was_decided_of_a_request_still_holds_when_it_is_cancelled(skills: Path) -> None:
    decided = await cancelled(skills, lambda: note_denied(RequestReason.DECLINED))
    assert decided == [(RequestDecision.DENIED, RequestReason.DECLINED)]


async def test_a_sink_that_fails_affects_neither_requests_nor_other_sinks(
    skills: Path, make_skill: MakeSkill, caplog: pytest.LogCaptureFixture
) -> None:
    make_skill("one")
    records, found = Records(), list[RequestRecord]()

    def fail(_: RequestRecord) -> None:
        raise OSError("full")

    records.add(fail)
    records.add(found.append)
    library = Library(explicit_sources([skills]), current_environment)
    server = SkillServer(Host(library, make_settings(watch=WatchMode.OFF), records=records), local=True)
    async with Client(server, mode="2026-07-28", cache=None) as client:
        assert (await client.list_tools()).tools
    assert found
    assert "a record of a request was lost" in caplog.text


async def test_a_tool_that_does_not_exist_is_the_target_of_its_call(recorded: Recorded, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with recorded() as (client, found):
        with pytest.raises(MCPError):
            await client.call_tool("no_such_tool", {"name": "a text"})
    assert (last(found).tool, last(found).target) == ("", "no_such_tool")


async def test_a_method_that_does_not_exist_is_recorded_without_its_name(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills) as served:
        await served.ask("invented/method")
    assert [(each.method, each.reason) for each in served.found] == [(OTHER_METHOD, RequestReason.UNKNOWN_METHOD)]
    assert "invented" not in repr(served.found)


async def test_subscriptions_beyond_the_limit_are_recorded_as_denied(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow this machine is.
    monkeypatch.setattr("server.protocol.subscriptions.REFILL_PER_SECOND", 0.001)
    make_skill("one")
    async with serving(skills) as served:
        client = await HandshakeClient(served.client, served.url).open()
        for _ in range(BURST + 1):
            await client.post("resources/subscribe", {"uri": "skill://one/SKILL.md"})
    refused = [each for each in served.found if each.decision is RequestDecision.DENIED]
    assert {(each.method, each.reason) for each in refused} == {("resources/subscribe", RequestReason.LIMIT)}


FIELDS = """tools:
- name: note
  description: Notes something.
  script: note.py
  parameters: {type: object, properties: {name: {type: string}}}
"""


async def test_the_arguments_of_tools_that_skills_declare_are_texts_and_not_recorded(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("notes", fields=FIELDS, files={"note.py": b"print('done')"})
    async with serving(skills, skill_tools=("notes/*",)) as served:
        await served.call("notes__note", name="a private text")
    (record,) = served.found
    assert (record.tool, record.skill, record.target) == ("notes__note", "notes", "")
    assert "private" not in repr(record)
