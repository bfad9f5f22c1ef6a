"""A client that asks a server for its name and its tools, over stdio or HTTP, with the standard library alone."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_PROTOCOL: Final = "2025-11-25"
_SECONDS: Final = 300
"""Until a server answers: the first start of a bundle installs it."""

INITIALIZE: Final = {
    "protocolVersion": _PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "release-check", "version": "1"},
}


class ReleaseError(Exception):
    """A file of the release is not what its users need; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server said of itself."""

    name: str
    version: str
    tools: frozenset[str]
    skills: str
    """The description of `activate_skill`, which lists the skills."""


def ask_over_stdio(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Answered:
    """Start a server as a client does, ask it, and end it by closing its input.

    Raises:
        ReleaseError: it gave no answer, or did not end well.
    """
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    ]
    answers: dict[int, dict[str, Any]] = {}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
            while "id" in message and message["id"] not in answers:
                if not (line := server.stdout.readline()):
                    raise ReleaseError(f"{command[0]} ended without an answer to {message['method']}")
                answer = json.loads(line)
                answers[answer.get("id", 0)] = answer
        server.stdin.close()
        if code := server.wait(_SECONDS):
            raise ReleaseError(f"{command[0]} ended with {code} after its client left")
    return _answered(answers[1], answers[2])


def ask_over_http(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Answered:
    """Start a server on a free port, ask it, and end it.

    Raises:
        ReleaseError: it gave no answer.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with subprocess.Popen(
        [*command, "--transport", "http", "--port", str(port)], cwd=folder, env=environment
    ) as server:
        try:
            url = f"http://127.0.0.1:{port}/mcp"
            initialized, session = _first_answer(url, server)
            _post(url, {"method": "notifications/initialized"}, session)
            listed, _ = _post(url, {"id": 2, "method": "tools/list", "params": {}}, session)
            return _answered(initialized, listed)
        finally:
            server.terminate()


def _first_answer(url: str, server: subprocess.Popen[bytes]) -> tuple[dict[str, Any], str]:
    end = time.monotonic() + _SECONDS
    while server.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            return _post(url, {"id": 1, "method": "initialize", "params": INITIALIZE}, "")
        time.sleep(0.1)
    raise ReleaseError(f"no server answered at {url}")


def _post(url: str, message: Mapping[str, Any], session: str) -> tuple[dict[str, Any], str]:
    head = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": _PROTOCOL,
        **({"Mcp-Session-Id": session} if session else {}),
    }
    request = urllib.request.Request(url, json.dumps({"jsonrpc": "2.0", **message}).encode(), head)
    with urllib.request.urlopen(request, timeout=_SECONDS) as response:
        found = list(_objects(response.read().decode()))
        return (found[-1] if found else {}), response.headers.get("Mcp-Session-Id", session)


def _objects(body: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an answer, of JSON or of a stream of events."""
    for line in body.splitlines():
        text = line.removeprefix("data:").strip()
        if text.startswith("{"):
            yield json.loads(text)


def _answered(initialized: Mapping[str, Any], listed: Mapping[str, Any]) -> Answered:
    try:
        about, tools = initialized["result"]["serverInfo"], listed["result"]["tools"]
    except KeyError as error:
        raise ReleaseError(f"the server answered {initialized} and {listed}") from error
    skills = next((str(tool["description"]) for tool in tools if tool["name"] == "activate_skill"), "")
    return Answered(about["name"], about["version"], frozenset(tool["name"] for tool in tools), skills)
