"""Clients that speak the protocol by hand and keep every byte they receive, and a walk over all that can be asked."""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio
from mcp.shared.inbound import encode_header_value

from tests.server.sessions import REPOSITORY, Era, server_environment
from tests.thoroughness import EVERY_CASE

VERSIONS = {"handshake": "2025-11-25", "modern": "2026-07-28"}
_HTTP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

Answer = dict[str, Any]


class Wire(Protocol):
    """Carries one message to the server and its answer back."""

    async def exchange(self, message: Answer) -> str: ...


class Asker:
    """A client of a team. `seen` is all that it ever received; `answers` are the results, by what was asked."""

    def __init__(self, wire: Wire, era: Era, name: str) -> None:
        self._wire, self.era, self._name = wire, era, name
        self._numbers = count(1)
        self.seen: list[str] = []
        self.answers: dict[str, Answer] = {}

    async def ask(self, method: str, /, **params: Any) -> Answer:
        """Return the result of a request, or `{"error": …}`."""
        label = f"{method} {json.dumps(params, sort_keys=True)}"
        envelope = {
            "io.modelcontextprotocol/protocolVersion": VERSIONS["modern"],
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": self._name, "version": "1"},
        }
        if self.era == "modern":
            params = {"_meta": envelope, **params}
        number = next(self._numbers)
        text = await self._wire.exchange({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        self.seen.append(text)
        message = json.loads(text)
        assert message["id"] == number
        answer: Answer = message["result"] if "result" in message else {"error": message["error"]}
        self.answers[label] = answer
        return answer

    async def open(self) -> Answer:
        if self.era == "modern":
            return await self.ask("server/discover")
        about = {"clientInfo": {"name": self._name, "version": "1"}, "capabilities": {}}
        answer = await self.ask("initialize", protocolVersion=VERSIONS["handshake"], **about)
        await self._wire.exchange({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}})
        return answer

    async def call(self, tool: str, /, **arguments: Any) -> Answer:
        return await self.ask("tools/call", name=tool, arguments=arguments)

    async def pages(self, method: str, key: str, /, **params: Any) -> list[Any]:
        """Return the entries of all pages of a list."""
        entries: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            page = await self.ask(method, **params, **cursor)
            if key not in page:
                return entries
            entries += page[key]
            if "nextCursor" not in page:
                return entries
            cursor = {"cursor": page["nextCursor"]}


_DIFFERING = re.compile(
    r"""(?<=last_modified":\ )\d+ | (?<=last_modified\\":\ )\d+
      | \b[0-9a-f]{40}\b | (?<=version\ than\ that\ of\ )[0-9a-f]{10}
      | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+\d\d:\d\d""",
    re.VERBOSE,
)
# Times, and the ids of commits, which depend on the time.


def comparable(answers: dict[str, Answer], root: Path) -> dict[str, Answer]:
    """Return answers without what differs between two servers that were started one after the other, below `root`."""
    found: dict[str, Answer] = json.loads(_DIFFERING.sub("0", json.dumps(answers).replace(str(root), "ROOT")))
    return found


class HttpWire:
    """Over HTTP, with the session of the handshake era and the headers of the modern one.

    A walk is thousands of requests, and a client for event loops takes several times as long for each as this one.
    """

    def __init__(self, url: str, era: Era, token: str) -> None:
        self._url, self._era = urlsplit(url), era
        self._connection = HTTPConnection(self._url.netloc, timeout=60)
        self._session = {"Authorization": f"Bearer {token}"} if token else {}

    async def exchange(self, message: Answer) -> str:
        headers = {**_HTTP, **self._session}
        if self._era == "modern":
            headers |= {"MCP-Protocol-Version": VERSIONS["modern"], "Mcp-Method": message["method"]}
            key = _NAMED_BY.get(message["method"])
            if key is not None:
                headers["Mcp-Name"] = encode_header_value(message["params"][key])
        return await anyio.to_thread.run_sync(self._exchange, json.dumps(message), headers)

    def _exchange(self, body: str, headers: dict[str, str]) -> str:
        # The server closes a connection that was idle for five seconds. One that was closed can be read from.
        if self._connection.sock is not None and select.select([self._connection.sock], [], [], 0)[0]:
            self._connection.close()
        self._connection.request("POST", self._url.path, body, headers)
        with self._connection.getresponse() as response:
            if (session := response.getheader("mcp-session-id")) is not None:
                self._session["Mcp-Session-Id"] = session
            return response.read().decode()

    def close(self) -> None:
        self._connection.close()


class StdioWire:
    """Over the pipes of a server process, which has no other client."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    async def exchange(self, message: Answer) -> str:
        return await anyio.to_thread.run_sync(self._exchange, message)

    def _exchange(self, message: Answer) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().decode() if "id" in message else ""


@asynccontextmanager
async def over_http(url: str, era: Era, name: str, token: str = "") -> AsyncGenerator[Asker]:
    with closing(HttpWire(url, era, token)) as wire:
        asker = Asker(wire, era, name)
        await asker.open()
        yield asker


def _server_process(sources: tuple[Path, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.server.hosting.two_views", *map(str, sources)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=REPOSITORY,
        env=server_environment(),
    )


@asynccontextmanager
async def over_stdio(sources: tuple[Path, ...], era: Era, name: str) -> AsyncGenerator[Asker]:
    with _server_process(sources) as process:
        asker = Asker(StdioWire(process), era, name)
        await asker.open()
        yield asker
        assert process.stdin is not None
        process.stdin.close()


async def walk(asker: Asker) -> None:
    """Ask for everything that the client can find, and for what does not exist."""
    await _walk_lists(asker)
    tools = {tool["name"]: tool for tool in (await asker.ask("tools/list"))["tools"]}
    names = tools["activate_skill"]["inputSchema"]["properties"]["name"]["enum"]
    for name in names:
        await asker.call("activate_skill", name=name)
        await asker.call("activate_skill", name=name, message="Do it.", arguments={"x": "y"})
    for query in ("things", "does plain low things", "reference same way", "xylophone"):
        await asker.call("find_skills", query=query, limit=100)
        await asker.call("skill_context", message=query)
    await asker.call("skill_context", message="/plain do it")
    await asker.call("skills_status")
    await asker.call("skills_status", state=["invalid", "excluded", "shadowed"])
    await asker.call("reload_skills")
    await asker.call("run_workflow")
    for name in names:
        await asker.call("skill_history", name=name)
        await asker.call("skill_history", name=name, diff=True)
        await asker.call("rollback_skill", name=name)
        await asker.call("run_skill_script", skill=name, path="absent.py")
    for name, tool in tools.items():
        if "__" in name:
            await asker.call(name, **{key: [] for key in tool["inputSchema"]["properties"]})
    await asker.ask("ping")
    await asker.ask("server/discover")
    for command in ("ls", "rm -rf /"):
        await asker.call("check_tool_call", tool="sh", arguments={"command": command})
    await _walk_mistakes(asker)


async def _walk_lists(asker: Asker) -> None:
    prompts = await asker.pages("prompts/list", "prompts")
    for prompt in prompts:
        given = {argument["name"]: "v" for argument in prompt["arguments"]}
        await asker.ask("prompts/get", name=prompt["name"], arguments=given)
        for argument in prompt["arguments"]:
            await _complete(asker, {"type": "ref/prompt", "name": prompt["name"]}, argument["name"])
    resources = await asker.pages("resources/list", "resources")
    folders = {"skill://x"}
    for resource in resources:
        uri = resource["uri"]
        await asker.ask("resources/read", uri=uri)
        if uri.startswith("skill://"):
            folders |= {uri[:at] for at, char in enumerate(uri) if char == "/" and at > len("skill:/")}
            skill, _, path = resource["name"].partition("/")
            await asker.call("read_skill_file", skill=skill, path=path or "SKILL.md")
            await asker.call("read_skill_file", skill=skill, path=uri)
    for folder in sorted(folders):
        await asker.pages("resources/directory/read", "resources", uri=folder)
    (template,) = (await asker.ask("resources/templates/list"))["resourceTemplates"]
    reference = {"type": "ref/resource", "uri": template["uriTemplate"]}
    for value in ("", "e", "common", "high"):
        await _complete(asker, reference, "skill", value)
        await _complete(asker, reference, "path", value)
    for skill in await asker.pages("skills/list", "skills"):
        await asker.ask("skills/get", uri=skill["uri"])
        path = skill["uri"].removeprefix("skill://").removesuffix("/SKILL.md")
        await _complete(asker, reference, "path", context={"arguments": {"skill": path}})


async def _complete(asker: Asker, ref: Answer, name: str, value: str = "", **more: Any) -> None:
    await asker.ask("completion/complete", ref=ref, argument={"name": name, "value": value}, **more)


async def _walk_mistakes(asker: Asker) -> None:
    for name in ("xylophone", "plane", "skill://xylophone/SKILL.md", ""):
        await probe(asker, name)
    for method in ("prompts/list", "resources/list", "skills/list", "tools/list"):
        await asker.ask(method, cursor="xylophone")
    await asker.ask(
        "completion/complete", ref={"type": "ref/resource", "uri": "x:"}, argument={"name": "a", "value": ""}
    )


def spellings(names: Sequence[str], team: str) -> list[str]:
    """Return what a client that guesses these names asks for: each name, the start of one, and one with its team.

    Where each case is wanted, they are the start of each name and each name with its team.
    """
    some = names if EVERY_CASE else names[:1]
    return [*names, *(name[:-1] for name in some), *(f"{team}/{name}" for name in some)]


async def probe(asker: Asker, name: str) -> list[Answer]:
    """Ask everything that takes a name for a skill of this name; returns what was answered."""
    uri = f"skill://{name}/SKILL.md"
    ref = {"type": "ref/resource", "uri": "skill://{+skill}/{+path}"}
    argument = {"name": "path", "value": ""}
    return [
        await asker.call("activate_skill", name=name),
        await asker.call("activate_skill", name=uri),
        await asker.call("read_skill_file", skill=name, path="SKILL.md"),
        await asker.call("read_skill_file", skill="plain", path=uri),
        await asker.call("run_skill_script", skill=name, path="a.txt"),
        await asker.call("run_skill", name=name),
        await asker.call("run_workflow", name=name),
        await asker.call("skill_history", name=name),
        await asker.call("rollback_skill", name=name),
        await asker.call("skill_context", message=f"/{name} now"),
        await asker.call("skills_status", name=[name]),
        await asker.call("find_skills", query="things", tags=[name]),
        await asker.call(f"{name}__tool"),
        await asker.call(f"{name}-tool"),
        await asker.ask("prompts/get", name=name),
        await asker.ask("completion/complete", ref={"type": "ref/prompt", "name": name}, argument=argument),
        await asker.ask("completion/complete", ref=ref, argument=argument, context={"arguments": {"skill": name}}),
        await asker.ask("completion/complete", ref=ref, argument={"name": "skill", "value": name}),
        await asker.ask("resources/read", uri=uri),
        await asker.ask("resources/subscribe", uri=uri),
        await asker.ask("resources/unsubscribe", uri=uri),
        await asker.ask("resources/directory/read", uri=f"skill://{name}"),
        await asker.ask("skills/get", uri=uri),
    ]
