"""Rules of single transports: raw messages, changing connections, and security over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.conftest import MakeSkill
from tests.server.sessions import REPOSITORY, http_server, open_session, server_command, server_environment

MODERN = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class RawClient:
    """A client that writes raw messages to the pipes of a server process."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process = process
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def write(self, raw: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(raw)

    async def send(self, method: str, params: Any = None, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "id": number, "params": params}
        await self.write(json.dumps({k: v for k, v in message.items() if v is not None}).encode() + b"\n")

    async def receive(self) -> Any:
        with anyio.fail_after(60):
            return json.loads(await self._lines.receive_until(b"\n", 1 << 24))

    async def ask(self, method: str, params: Any, number: int) -> Any:
        await self.send(method, params, number)
        while (message := await self.receive()).get("id") != number:
            pass
        return message


@asynccontextmanager
async def raw_pipe(skills: Path) -> AsyncGenerator[RawClient]:
    async with await anyio.open_process(
        server_command(skills), cwd=REPOSITORY, env=server_environment(), stderr=None
    ) as process:
        try:
            yield RawClient(process)
        finally:
            if process.returncode is None:
                process.kill()


async def test_initialize_after_discover_on_one_connection_is_served(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with raw_pipe(skills) as pipe:
        discovered = await pipe.ask("server/discover", MODERN, 1)
        assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
        initialized = await pipe.ask("initialize", INITIALIZE, 2)
        assert initialized["result"]["protocolVersion"] == "2025-11-25"
        await pipe.send("notifications/initialized")
        assert [tool["name"] for tool in (await pipe.ask("tools/list", {}, 3))["result"]["tools"]]
        assert (await pipe.ask("tools/list", MODERN, 4))["result"]["resultType"] == "complete"
        make_skill("two")
        assert (await pipe.receive())["method"] == "notifications/tools/list_changed"


async def test_cache_hints_belong_to_the_modern_era_only(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    uri = {"uri": "skill://one/SKILL.md"}
    async with raw_pipe(skills) as pipe:
        await pipe.ask("initialize", INITIALIZE, 1)
        await pipe.send("notifications/initialized")
        for method, params in (
            ("tools/list", {}),
            ("prompts/list", {}),
            ("resources/list", {}),
            ("resources/read", uri),
        ):
            old = (await pipe.ask(method, params, 2))["result"]
            new = (await pipe.ask(method, {**params, **MODERN}, 3))["result"]
            assert {"ttlMs", "cacheScope", "resultType"} & old.keys() == set()
            assert {"ttlMs", "cacheScope", "resultType"} <= new.keys()


async def test_both_eras_declare_that_lists_change_and_resources_can_be_subscribed(skills: Path) -> None:
    async with raw_pipe(skills) as pipe:
        for answer in (await pipe.ask("server/discover", MODERN, 1), await pipe.ask("initialize", INITIALIZE, 2)):
            capabilities = answer["result"]["capabilities"]
            assert capabilities["tools"]["listChanged"] is True
            assert capabilities["prompts"]["listChanged"] is True
            assert capabilities["resources"] == {"subscribe": True, "listChanged": True}


async def test_garbage_on_stdin_does_not_end_the_connection(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with raw_pipe(skills) as pipe:
        for garbage in (b"not json\n", b"\n", b"[]\n", b'{"jsonrpc":"2.0"}\n', b"\xff\xfe\n", b"{" * 5000 + b"\n"):
            await pipe.write(garbage)
        assert "result" in await pipe.ask("server/discover", MODERN, 1)


async def test_split_messages_and_several_in_one_chunk_are_understood(skills: Path) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": MODERN}).encode() + b"\n"
    async with raw_pipe(skills) as pipe:
        for byte in range(0, len(message), 7):
            await pipe.write(message[byte : byte + 7])
            await anyio.lowlevel.checkpoint()
        assert (await pipe.receive())["id"] == 1
        await pipe.write(message + message.replace(b'"id": 1', b'"id": 2'))
        assert {(await pipe.receive())["id"], (await pipe.receive())["id"]} == {1, 2}


async def test_a_response_larger_than_the_pipe_reaches_a_client_that_reads_late(
    skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one", files={"big.txt": b"0123456789" * 100_000})
    async with raw_pipe(skills) as pipe:
        await pipe.send("resources/read", {"uri": "skill://one/big.txt", **MODERN}, 1)
        await pipe.send("server/discover", MODERN, 2)
        await anyio.sleep(0.5)
        answers = {message["id"]: message for message in (await pipe.receive(), await pipe.receive())}
        assert answers[1]["result"]["contents"][0]["text"] == "0123456789" * 100_000


async def test_the_server_ends_when_the_client_closes_stdin(skills: Path) -> None:
    async with raw_pipe(skills) as pipe:
        await pipe.ask("server/discover", MODERN, 1)
        assert pipe.process.stdin is not None
        await pipe.process.stdin.aclose()
        with anyio.fail_after(60):
            assert await pipe.process.wait() == 0


async def test_stdin_from_a_file_is_served_by_the_sdks_transport(
    skills: Path, make_skill: MakeSkill, tmp_path: Path
) -> None:
    make_skill("one")
    file = tmp_path / "requests"
    file.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": MODERN}) + "\n")
    with file.open("rb") as stdin:
        done = subprocess.run(
            server_command(skills),
            stdin=stdin,
            capture_output=True,
            cwd=REPOSITORY,
            env=server_environment(),
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["id"] == 1


async def test_output_to_stdout_while_serving_does_not_reach_the_client(
    skills: Path, make_skill: MakeSkill, tmp_path: Path
) -> None:
    make_skill("one")
    serving, printed = tmp_path / "serving", tmp_path / "printed"
    code = (
        "import os, pathlib, sys, threading, time, server.cli.app\n"
        "def stray():\n"
        f"    while not os.path.exists({str(serving)!r}):\n"
        "        time.sleep(0.01)\n"
        "    print('stray', flush=True)\n"
        "    os.write(1, b'stray\\n')\n"
        f"    pathlib.Path({str(printed)!r}).touch()\n"
        "threading.Thread(target=stray, daemon=True).start()\n"
        f"sys.argv = ['skillserve', 'serve', {str(skills)!r}]\nserver.cli.app.main()\n"
    )
    command = [server_command(skills)[0], "-c", code]
    async with await anyio.open_process(
        command, cwd=REPOSITORY, env=server_environment(), stderr=subprocess.DEVNULL
    ) as process:
        pipe = RawClient(process)
        await pipe.ask("server/discover", MODERN, 1)
        serving.touch()
        with anyio.fail_after(120):
            while not printed.exists():  # noqa: ASYNC110 - another process sets it
                await anyio.sleep(0.01)
        await pipe.send("server/discover", MODERN, 2)
        assert (await pipe.receive())["id"] == 2
        process.kill()


async def test_clients_of_both_eras_are_notified_and_one_that_does_not_read_delays_no_other(
    skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with (
        http_server(skills) as url,
        open_session(url, "handshake") as old,
        open_session(url, "modern") as new,
        httpx2.AsyncClient() as stalled,
    ):
        listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}
        listen["params"] = {**MODERN, "notifications": {"toolsListChanged": True, "resourcesListChanged": True}}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "subscriptions/listen",
        }
        async with stalled.stream("POST", url, json=listen, headers=headers) as response:
            assert response.status_code == 200
            for number in range(3):
                old.told.clear()
                new.told.clear()
                make_skill(f"another-{number}")
                await old.until_told("tools")
                await new.until_told("tools")


async def test_health_is_served_beside_the_mcp_endpoint(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with http_server(skills) as url, httpx2.AsyncClient() as client:
        response = await client.get(url.removesuffix("/mcp") + "/health")
        assert response.json() == {"status": "ok", "skills": 1}


@pytest.mark.parametrize(
    "request_head",
    [
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
        b"POST /",
    ],
)
async def test_an_endless_head_or_trailer_ends_the_connection(
    request_head: bytes, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with http_server(skills) as url:
        port = int(url.split(":")[2].partition("/")[0])
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(request_head)
                with suppress(anyio.BrokenResourceError):
                    while True:
                        await stream.send(b"x" * 100_000)


DECLARED = """tools:
- name: count
  script: count.py
  parameters: {type: object, properties: {region: {type: string, x-mcp-header: Region}}}
"""


@pytest.mark.parametrize(
    ("tool", "arguments", "region", "status"),
    [
        ("numbers__count", {"region": "north"}, "north", 200),
        ("numbers__count", {"region": "north"}, "south", 400),
        ("numbers__count", {"region": "north"}, None, 400),
        ("activate_skill", {"name": "numbers"}, "south", 200),
    ],
)
async def test_a_header_that_a_declared_tool_asks_for_must_equal_the_argument(
    tool: str, arguments: dict[str, str], region: str | None, status: int, skills: Path, make_skill: MakeSkill
) -> None:
    pytest.importorskip("jsonschema")
    make_skill("numbers", fields=DECLARED, files={"count.py": b"print(1)"})
    params = {**MODERN, "name": tool, "arguments": arguments}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    if region is not None:
        headers["Mcp-Param-Region"] = region
    async with http_server(skills, SKILLSERVE_SKILL_TOOLS="numbers/*") as url, httpx2.AsyncClient() as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = await client.post(url, json=message, headers=headers)
        assert response.status_code == status, response.text


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
async def test_a_foreign_host_or_origin_is_refused_on_loopback(skills: Path, headers: dict[str, str]) -> None:
    async with http_server(skills) as url, httpx2.AsyncClient() as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        accept = {"Accept": "application/json, text/event-stream"}
        assert (await client.post(url, json=message, headers=accept)).status_code == 200
        assert (await client.post(url, json=message, headers={**accept, **headers})).status_code in {403, 421}


async def test_a_client_that_subscribes_in_a_loop_is_refused(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with raw_pipe(skills) as pipe:
        await pipe.ask("initialize", INITIALIZE, 1)
        await pipe.send("notifications/initialized")
        for number in range(2, 300):
            await pipe.send("resources/subscribe", {"uri": "skill://one/SKILL.md"}, number)
        answers = [await pipe.receive() for _ in range(2, 300)]
        refused = [answer for answer in answers if "error" in answer]
        assert refused
        assert "too many subscription requests" in refused[0]["error"]["message"]
        assert "result" in await pipe.ask("tools/list", {}, 1000)


@pytest.mark.skipif(os.name == "nt", reason="a process cannot be asked to stop there")
async def test_http_stops_within_seconds_despite_open_event_streams(skills: Path) -> None:
    command = server_command(skills, "--transport", "http", "--port", "0")
    async with await anyio.open_process(
        command, cwd=REPOSITORY, env=server_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        text = (await process.stderr.receive()).decode()
        while "stop " not in text:
            text += (await process.stderr.receive()).decode()
        url = next(line.split()[-1] for line in text.splitlines() if line.strip().startswith("address"))
        async with open_session(url, "handshake"):
            process.terminate()
            with anyio.fail_after(8):
                await process.wait()


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (b"{", None, -32700),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', 7, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None, -32600),
    ],
)
async def test_a_line_that_is_not_a_message_is_answered_with_an_error(
    skills: Path, line: bytes, number: int | None, code: int
) -> None:
    async with raw_pipe(skills) as pipe:
        await pipe.write(line + b"\n")
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (number, code)


async def test_a_lone_surrogate_in_a_call_is_replaced(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    call = {"name": "activate_skill", "arguments": {"name": "one", "message": "cut \ud83d"}, **MODERN}
    async with raw_pipe(skills) as pipe:
        await pipe.send("tools/call", call, 1)
        result = (await pipe.receive())["result"]
        assert "cut \ufffd" in result["content"][0]["text"]


async def test_an_event_stream_has_the_limits_of_subscriptions(skills: Path) -> None:
    async with raw_pipe(skills) as pipe:
        for uris in (["skill://a/b"] * 3000, ["file:///etc/passwd"], ["skill://" + "a/" * 3000 + "b"]):
            answer = await pipe.ask(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}, **MODERN}, 1
            )
            assert answer["error"]["code"] == -32602


def test_a_start_does_not_import_what_only_some_requests_need() -> None:
    code = (
        "import sys, server.transport.serving, server.cli.app, server.transport.stdio\n"
        "late = ('skills_core.context', 'skills_core.mentions', 'server.capabilities.visibility.report', 'rich')\n"
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout == "[]\n"
