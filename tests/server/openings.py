"""How clients open a conversation: what each sends first, as recorded from real ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio

from server.config.machine import current_environment
from server.hosting.host import Host
from server.protocol.server import SkillServer
from server.transport.early_stdio import Opening
from server.transport.stdio import Answered, serve_stdio
from skills_core import Library, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.server.settings import make_settings

Message = dict[str, Any]

LISTS = ("prompts/list", "resources/list", "tools/list", "resources/templates/list")


def request(number: str | int, method: str, params: Message | None = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else {**message, "params": params}


def initialize(name: str, protocol: str, capabilities: Message, **info: str) -> Message:
    client = {"name": name, "version": "1.2.3", **info}
    params = {"protocolVersion": protocol, "capabilities": capabilities, "clientInfo": client}
    return request(0, "initialize", params)


def envelope(name: str | None, capabilities: Message, **more: Any) -> Message:
    client = {} if name is None else {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1.2.3", **more}}
    return {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        **client,
    }


INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}

_CLAUDE = envelope(
    "claude-code",
    {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}},
    title="Claude Code",
    description="Anthropic's agentic coding tool",
    websiteUrl="https://claude.com/claude-code",
)
_COPILOT = envelope("copilot-cli", {"sampling": {}, "elicitation": {"form": {}, "url": {}}})
_FRAMEWORK = envelope("mcp", {"sampling": {}})
_LISTEN = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}

OPENINGS: dict[str, list[Message]] = {
    "claude": [
        request("server-discover-probe-1", "server/discover", {"_meta": _CLAUDE}),
        request("listen:0", "subscriptions/listen", {"_meta": _CLAUDE, "notifications": _LISTEN}),
        request(0, "server/discover", {"_meta": _CLAUDE}),
        *(request(number, method, {"_meta": _CLAUDE}) for number, method in enumerate(LISTS, 1)),
    ],
    "copilot": [
        request(0, "server/discover", {"_meta": _COPILOT}),
        request(1, "subscriptions/listen", {"_meta": {**_COPILOT, "progressToken": 0}, "notifications": _LISTEN}),
        request(2, "tools/list", {"_meta": {**_COPILOT, "progressToken": 1}}),
    ],
    "codex": [
        initialize(
            "codex-mcp-client",
            "2025-06-18",
            {"experimental": {"codex/auth-change": {}}, "elicitation": {"form": {}, "url": {}}},
            title="Codex",
        ),
        INITIALIZED,
        request(1, "tools/list", {"_meta": {"progressToken": 0}}),
    ],
    "cline": [initialize("@cline/core", "2024-11-05", {}), INITIALIZED, request(2, "tools/list")],
    "continue": [
        initialize("continue-cli-client", "2025-11-25", {}),
        INITIALIZED,
        request(1, "prompts/list"),
        request(2, "tools/list"),
    ],
    "gemini": [
        initialize("gemini-cli-mcp-client", "2025-06-18", {"roots": {"listChanged": True}}),
        INITIALIZED,
        request(1, "prompts/list", {}),
        request(2, "tools/list", {}),
        request(3, "resources/list", {}),
    ],
    "mcp-use": [
        initialize("mcp-use", "2025-11-25", {"roots": {"listChanged": True}}),
        INITIALIZED,
        *(request(number, method) for number, method in enumerate(LISTS[:3], 1)),
    ],
    "semantic-kernel": [
        initialize("mcp", "2025-11-25", {"sampling": {}}),
        INITIALIZED,
        request(1, "tools/list"),
        request(2, "prompts/list"),
    ],
    "agent-framework": [
        request(0, "server/discover", {"_meta": _FRAMEWORK}),
        request(1, "tools/list", {"_meta": _FRAMEWORK}),
        request(2, "prompts/list", {"_meta": _FRAMEWORK}),
    ],
    "opencode": [initialize("opencode", "2025-11-25", {"roots": {}}), INITIALIZED, request(1, "tools/list")],
    "qwen": [
        initialize(
            "qwen-cli-mcp-client-skills",
            "2025-11-25",
            {
                "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
                "roots": {},
            },
        ),
        INITIALIZED,
        request(1, "prompts/list", {}),
        request(2, "resources/list", {}),
        request(3, "tools/list", {}),
    ],
}


def line_of(message: object) -> bytes:
    return json.dumps(message).encode()


def host_of(skills: Path, **settings: Any) -> Host:
    library = Library(explicit_sources([skills]), current_environment)
    return Host(library, make_settings(**{"watch": WatchMode.OFF, "usage": False, **settings}))


def served(host: Host, lines: Iterable[bytes]) -> list[Message]:
    """Return all that the SDK's server answers to these lines."""
    return anyio.run(converse, host, b"\n".join(lines) + b"\n")


async def converse(host: Host, received: bytes, opening: Opening | None = None, before: bytes = b"") -> list[Message]:
    """Return all that the SDK's server writes, after what the client has read `before`."""
    source, sink = os.pipe()
    text = before
    opening = opening or Opening(-1, -1)

    async def read() -> None:
        nonlocal text
        while True:
            await anyio.wait_readable(source)
            chunk = os.read(source, 1 << 16)
            if not chunk:
                return
            text += chunk

    async def at_end() -> None:
        server.listening.close()

    server = SkillServer(host, local=True)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            try:
                answered = Answered(opening.silent, opening.streams)
                whole = opening._replace(sink=sink, received=received, ended=True)
                await serve_stdio(server, at_end, whole, answered)
                with anyio.fail_after(30):
                    await answered.wait()
            finally:
                os.close(sink)
    finally:
        os.close(source)
    return [json.loads(line) for line in text.splitlines()]
