"""Tools of MCP servers in a run: correct and faulty server processes over each transport."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.capabilities.runs.mcp_config import parse_servers
from server.capabilities.runs.mcp_connections import ConnectedTools, connect_servers
from skills_core.guard.allowed_tools import AllowedTools
from skills_core.guard.guard import Guard
from skills_core.guard.tool import CallDecision, CallLimits, Effect
from skills_core.guard.tool_gate import ToolGate
from skills_core.interaction import NoUser

SECOND = str(Path(__file__).with_name("mcp_second_server.py"))
ODD = str(Path(__file__).with_name("mcp_odd_server.py"))


def program(*arguments: str, **further: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": list(arguments), **further}


def odd(way: str, *further: str, **entry: Any) -> dict[str, Any]:
    return program(ODD, way, *further, **entry)


@asynccontextmanager
async def connected(connect_seconds: float = 60.0, **servers: dict[str, Any]) -> AsyncGenerator[ConnectedTools]:
    specs = parse_servers(Path("mcp.json"), json.dumps({"mcpServers": servers}), {})
    async with connect_servers(specs, connect_seconds) as found:
        yield found


def gate(found: ConnectedTools, seconds: float = 60.0) -> ToolGate:
    return ToolGate(found.tools, AllowedTools(None), Guard([]), NoUser(), CallLimits(seconds), run_id="r1")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@asynccontextmanager
async def listening(kind: str) -> AsyncIterator[str]:
    """Start the second server over HTTP, and yield its URL."""
    port = free_port()
    process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop
        [sys.executable, SECOND, kind, str(port)], stderr=subprocess.DEVNULL
    )
    try:
        with anyio.fail_after(60):
            while True:
                try:
                    stream = await anyio.connect_tcp("127.0.0.1", port)
                except OSError:
                    await anyio.sleep(0.05)
                    continue
                await stream.aclose()
                break
        yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["stdio", "streamable-http", "sse"])
async def test_tools_are_called_over_every_transport(kind: str) -> None:
    async with listening(kind) if kind != "stdio" else _nowhere() as url:
        entry = {"type": "sse" if kind == "sse" else "http", "url": url} if url else program(SECOND, "stdio")
        async with connected(second=entry) as found:
            assert found.problems == ()
            tools = gate(found)
            call = await tools.call("second__add", {"a": 2, "b": 3}, 1)
            assert (call.decision, call.text) == (CallDecision.DONE, "5")
            call = await tools.call("second__add", {"a": "x"}, 2)
            assert call.decision is CallDecision.INVALID_ARGUMENTS
            call = await tools.call("second__fail", {}, 3)
            assert (call.decision, "fail" in call.text) == (CallDecision.FAILED, True)
            assert json.loads((await tools.call("second__structured", {}, 4)).text) == {"n": 1}
            assert (await tools.call("second__mixed", {}, 5)).text.splitlines() == [
                "words",
                "[an image of the type image/png, 3 bytes, which is not shown]",
                "[a sound of the type audio/wav, 3 bytes, which is not shown]",
                "[a link to the resource file:///x]",
                "[the resource file:///a]",
                "inside",
                "[a file of the type unknown, 3 bytes, which is not shown]",
            ]


@pytest.mark.parametrize("entry", [{}, {"type": "http"}])
async def test_a_server_with_only_http_sse_is_detected(entry: dict[str, str]) -> None:
    async with listening("sse") as url, connected(second={**entry, "url": url}) as found:
        assert found.problems == ()
        assert (await gate(found).call("second__add", {"a": 2, "b": 3}, 1)).text == "5"


async def test_an_address_without_a_server_reports_the_status_of_each_transport() -> None:
    async with listening("streamable-http") as url, connected(bad={"url": f"{url}/nothing"}) as found:
        (problem,) = found.problems
    status = "it answered with HTTP 404"
    assert problem == f"the server bad provides no tools: {status}; over the older HTTP+SSE transport: {status}"


@asynccontextmanager
async def _nowhere() -> AsyncIterator[str]:
    yield ""


async def test_read_only_hints_count_only_for_trusted_servers() -> None:
    async with connected(a=program(SECOND, "stdio"), b=program(SECOND, "stdio", trusted=True)) as found:
        effects = {tool.name: tool.effect for tool in found.tools}
    assert (effects["a__add"], effects["b__add"]) == (Effect.WRITES, Effect.READS)
    assert effects["b__fail"] is Effect.WRITES


async def test_a_server_gets_a_minimal_environment_and_that_of_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLSERVE_ADMIN_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET", "secret")
    async with connected(second=program(SECOND, "stdio", env={"TOKEN": "x"})) as found:
        names = (await gate(found).call("second__environment", {}, 1)).text.split()
    assert "TOKEN" in names
    assert not {"SKILLSERVE_ADMIN_TOKEN", "AWS_SECRET"} & set(names)


async def test_skills_can_use_the_tool_names_of_other_clients() -> None:
    servers = {"my second": program(SECOND, "stdio")}
    async with connected(60.0, **servers) as found:
        for allowed in (
            "mcp__my_second__add",
            "mcp__my_second__*",
            "mcp__my_second",
            "my second/add",
            "my_second__add",
        ):
            permits = AllowedTools([allowed])
            assert "my_second__add" in [tool.name for tool in found.tools if permits.offers(tool)]


async def test_a_server_that_dies_loses_only_its_own_tools() -> None:
    async with connected(a=program(SECOND, "stdio"), b=program(SECOND, "stdio")) as found:
        tools = gate(found)
        call = await tools.call("a__die", {}, 1)
        assert (call.decision, call.text.startswith("The server a: ")) == (CallDecision.FAILED, True)
        assert (await tools.call("a__add", {"a": 1, "b": 1}, 2)).decision is CallDecision.FAILED
        assert (await tools.call("b__add", {"a": 1, "b": 1}, 3)).text == "2"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": "no-such-program-here"}, "no such file or directory"),
        (program("-c", "pass"), "connection"),
        (program("-c", "print('hello')"), "connection"),
        (odd("no schema"), "its answer violates the protocol"),
        (odd("silent"), "did not answer within 2 seconds"),
        ({"url": "http://127.0.0.1:9/mcp"}, "check that the server is running"),
        ({"type": "sse", "url": "http://127.0.0.1:9/sse"}, "check that the server is running"),
    ],
    ids=["not there", "ends", "says nonsense and ends", "no schema", "silent", "nobody listens", "nobody listens, sse"],
)
async def test_a_server_that_fails_to_start_is_reported_and_the_others_work(entry: dict[str, Any], why: str) -> None:
    connect_seconds = 2.0 if "silent" in str(entry) else 60.0
    async with connected(connect_seconds, bad=entry, good=odd("fine")) as found:
        assert len(found.problems) == 1
        assert found.problems[0].startswith("the server bad provides no tools: ")
        assert why in found.problems[0].lower()
        assert (await gate(found).call("good__t", {}, 1)).text == "fine"


@pytest.mark.parametrize("way", ["hang", "notifications", "endless line", "endless lines"])
async def test_a_call_that_hangs_or_floods_fails_within_its_limits(way: str) -> None:
    async with connected(bad=odd(way), good=odd("fine")) as found:
        tools = gate(found, 2.0)
        call = await tools.call("bad__t", {}, 1)
        assert call.decision in {CallDecision.TIMED_OUT, CallDecision.FAILED}
        assert (await tools.call("good__t", {}, 2)).text == "fine"


async def test_an_invalid_result_is_a_failed_call() -> None:
    async with connected(bad=odd("nonsense")) as found:
        call = await gate(found).call("bad__t", {}, 1)
    assert call.text == "The server bad: its answer violates the protocol"


async def test_a_large_result_is_truncated() -> None:
    async with connected(bad=odd("large")) as found:
        call = await gate(found).call("bad__t", {}, 1)
    assert call.text.endswith("[2950000 more characters are not shown]")


async def test_output_that_is_not_a_message_is_skipped() -> None:
    async with connected(bad=odd("talks")) as found:
        assert (await gate(found).call("bad__t", {}, 1)).text == "fine"


async def test_hostile_schemas_disable_their_tools_and_take_no_time() -> None:
    async with connected(bad=odd("schemas")) as found:
        tools = gate(found)
        assert [tool.name for tool in tools.offered] == ["bad__slow", "bad__slow_result"]
        call = await tools.call("bad__slow", {"a": "a" * 64 + "!"}, 1)
        assert call.decision is CallDecision.INVALID_ARGUMENTS
        call = await tools.call("bad__slow_result", {}, 2)
        assert call.decision is CallDecision.DONE


async def test_tool_names_are_sanitized_for_models() -> None:
    async with connected(bad=odd("names")) as found:
        names = [tool.name for tool in found.tools]
    assert names[0] == "bad__with_space_and_dot"
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in names)
    assert len(set(names)) == len(names) == 4
    assert found.problems == ("a second tool named bad__with_space_and_dot (server bad) is left out",)


@pytest.mark.parametrize(("way", "count"), [("many", 500), ("endless list", 50)])
async def test_an_endless_list_of_tools_is_cut_off(way: str, count: int) -> None:
    async with connected(bad=odd(way)) as found:
        assert 1 <= len(found.tools) <= count


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
async def test_child_processes_of_a_server_are_killed(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    async with connected(bad=odd("child", mark)) as found:
        assert (await gate(found).call("bad__t", {}, 1)).text == "fine"
        assert _processes_with(mark)
    with anyio.fail_after(10):
        while _processes_with(mark):  # noqa: ASYNC110 - the system sends no event
            await anyio.sleep(0.05)


def _processes_with(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(mark) in line:
            found.append(path.parent.name)
    return found


async def test_exceptions_of_the_run_are_not_wrapped() -> None:
    with pytest.raises(KeyError):
        async with connected(good=odd("fine")):
            raise KeyError("of the run")


async def test_secrets_of_the_file_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "s3cr3t-value"  # noqa: S105 - what is looked for
    headers = {"Authorization": f"Bearer {secret}"}
    async with connected(
        a={"command": "no-such-program-here", "args": [secret], "env": {"TOKEN": secret}},
        b={"url": f"http://127.0.0.1:9/mcp?key={secret}", "headers": headers},
        c=program(ODD, "fine", secret, env={"TOKEN": secret}),
    ) as found:
        await gate(found).call("c__t", {}, 1)
        assert secret not in "".join(found.problems)
        assert secret not in repr(found.tools)
    assert secret not in caplog.text


@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call"])
async def test_secrets_in_a_server_s_error_message_are_redacted(method: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "s3cr3t-value"  # noqa: S105 - what is looked for
    entry = odd(method, "460", env={"TOKEN": secret})
    async with connected(a=entry, b=odd("fine")) as found:
        message = "".join(found.problems)
        if method == "tools/call":
            message = (await gate(found).call("a__t", {}, 1)).text
        assert "bad token [secret mcpServers.a.env.TOKEN] xxx" in message
        assert (await gate(found).call("b__t", {}, 2)).text == "fine"
    # Nor what is left of it where the message is cut.
    assert secret[:3] not in message + caplog.text
