"""Start a server exactly as a client will, or ask the one at an address, and see whether it answers."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import anyio

from server.capabilities.connect.clients import HEADER_VARIABLE, HttpServer, LocalServer
from server.wire.address import Address, AddressError
from skills_core.diagnostics import one_line

_SECONDS: Final = 30
_MAX_BYTES: Final = 1024 * 1024
_LINES: Final = 3
# The last lines of what a server says; the cause is among them.

_OPENING: Final = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "skillserve connect", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)

_REFUSALS: Final[dict[int, str]] = {
    HTTPStatus.FORBIDDEN: "it refuses this token (HTTP 403)",
    HTTPStatus.NOT_FOUND: "there is no MCP server at this path (HTTP 404): the address of skillserve ends with /mcp",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a server has answered, and what it offers or what went wrong."""

    works: bool
    message: str


def try_server(server: LocalServer | HttpServer, folder: Path) -> Trial:
    """Start the server in a folder, list its tools, and end it; or send a first request to the one at an address."""
    if isinstance(server, HttpServer):
        return anyio.run(_ask, server)
    return _start(server, folder)


@cache
def _start(server: LocalServer, folder: Path) -> Trial:
    # Several clients start the same server.
    try:
        done = subprocess.run(  # noqa: S603 - this program, as the client will start it
            [server.command, *server.args],
            input="".join(json.dumps(each) + "\n" for each in _OPENING).encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            cwd=folder,
            env={**os.environ, **dict(server.environment)},
        )
    except OSError as error:
        return Trial(works=False, message=f"{server.command}: {error.strerror or error}")
    except subprocess.TimeoutExpired as error:
        names = _tool_names(error.stdout or b"")
        fault = "it answers, but does not end" if names else "it does not answer"
        where = " after its client has gone" if names else ""
        return Trial(works=False, message=f"{fault} within {_SECONDS} seconds{where}{_said(error.stderr or b'')}")
    names = _tool_names(done.stdout)
    if names:
        return Trial(works=True, message=f"it answers with {', '.join(names)}")
    if any(_parsed(line).get("id") == _OPENING[2]["id"] for line in done.stdout.splitlines()):
        return Trial(works=False, message=f"it answers without any tool: there is no skill{_said(done.stderr)}")
    return Trial(works=False, message=f"it ends with code {done.returncode} and no answer{_said(done.stderr)}")


async def _ask(server: HttpServer) -> Trial:
    from server.wire.http_client import HttpCallError, HttpCalls

    missing = {name for value in server.headers.values() for name in HEADER_VARIABLE.findall(value)} - {*os.environ}
    if missing:
        return Trial(works=True, message=f"it was not asked: {', '.join(sorted(missing))} is not set here")
    given = {
        name: HEADER_VARIABLE.sub(lambda found: os.environ[found[1]], value) for name, value in server.headers.items()
    }
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **given}
    try:
        address = Address.parse(server.url)
        async with HttpCalls(_SECONDS, _MAX_BYTES) as calls:
            content = json.dumps(_OPENING[0]).encode()
            answer = await calls.send("POST", address, proxy=address.proxy, headers=headers, content=content)
    except (HttpCallError, AddressError) as error:
        return Trial(works=False, message=f"{one_line(str(error))}; start the server first")
    if answer.status == HTTPStatus.UNAUTHORIZED:
        wanted = "it wants a token: give it with --header 'Authorization: Bearer …'"
        how = "it does not know this token" if given else wanted
        return Trial(works=False, message=f"{how} (HTTP 401)")
    if answer.status != HTTPStatus.OK:
        return Trial(works=False, message=_REFUSALS.get(answer.status, f"it answers with HTTP {answer.status}"))
    # An event stream has the same object in a line of data.
    answers = (_parsed(line.removeprefix(b"data:")) for line in answer.body.splitlines())
    info = next((each["result"].get("serverInfo") for each in answers if isinstance(each.get("result"), dict)), None)
    if not isinstance(info, dict):
        return Trial(works=False, message="what answers there is not an MCP server")
    return Trial(works=True, message=f"{one_line(str(info.get('name', 'a server'))[:100])} answers")


def _said(stderr: bytes) -> str:
    """Return the last lines that a server wrote on stderr, as the end of a message."""
    lines = [one_line(line) for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return "".join(f"\n    {line}" for line in lines[-_LINES:])


def _tool_names(stdout: bytes) -> list[str]:
    return [one_line(str(tool.get("name"))) for answer in map(_parsed, stdout.splitlines()) for tool in _tools(answer)]


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _tools(answer: dict[str, Any]) -> list[dict[str, Any]]:
    result = answer.get("result")
    tools = result.get("tools") if isinstance(result, dict) and answer.get("id") == _OPENING[2]["id"] else None
    return [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
