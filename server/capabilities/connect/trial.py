"""Start a server exactly as a client will, and see whether it answers."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any, Final

from server.capabilities.connect.clients import HttpServer, LocalServer

_SECONDS: Final = 30
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


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a server has answered, and what it offers or what went wrong."""

    works: bool
    message: str


def try_server(server: LocalServer | HttpServer) -> Trial:
    """Start the server, list its tools, and end it; a server at an address is not asked, as it runs already."""
    if isinstance(server, HttpServer):
        return Trial(works=True, message="")
    given = "".join(json.dumps(each) + "\n" for each in _OPENING)
    try:
        done = subprocess.run(  # noqa: S603 - this program, as the client will start it
            [server.command, *server.args],
            input=given,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except OSError as error:
        return Trial(works=False, message=f"{server.command}: {error.strerror or error}")
    except subprocess.TimeoutExpired:
        return Trial(works=False, message=f"it does not end within {_SECONDS} seconds after its client has gone")
    names = [tool["name"] for answer in map(_parsed, done.stdout.splitlines()) for tool in _tools(answer)]
    if names:
        return Trial(works=True, message=f"it answers with {', '.join(names)}")
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return Trial(works=False, message=said[-1] if said else "it answers without any tool: there is no skill")


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _tools(answer: dict[str, Any]) -> list[dict[str, Any]]:
    result = answer.get("result")
    tools = result.get("tools") if isinstance(result, dict) and answer.get("id") == _OPENING[2]["id"] else None
    return tools if isinstance(tools, list) else []
