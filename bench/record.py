"""What the servers are asked, and what ours answers to it, for the floor to answer the same.

A sample of skills is enough: each answer comes from the same code, and a short recording is quickly loaded,
which matters to the floor's cold start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpus import BUNDLED
from wire import BenchError

if TYPE_CHECKING:
    from client import Client
    from wire import Message

    Call = tuple[str, Message]

SAMPLE = 20


def operations(names: list[str]) -> dict[str, list[Call]]:
    """Every kind of call that is timed, each with the calls that are made in turn."""
    return {
        "tools/list": [("tools/list", {})],
        "activate_skill": [_activation(name) for name in names],
        "read SKILL.md": [_reading(main_uri(name)) for name in names],
        "read bundled file": [_reading(uri) for uri in _bundled_uris(names)],
    }


def record(client: Client) -> tuple[list[str], Message]:
    """Ask a server everything once; return the names that were used, and its results."""
    tools = client.call("tools/list")
    names = _sample(tools)
    reads = [main_uri(name) for name in names] + _bundled_uris(names)
    answers = {
        "tools": tools,
        "activations": {name: client.call(*_activation(name)) for name in names},
        "reads": {uri: client.call(*_reading(uri)) for uri in reads},
    }
    if failed := [name for name, result in answers["activations"].items() if result.get("isError")]:
        raise BenchError(f"activate_skill failed for {failed[0]}")
    return names, answers


def main_uri(name: str) -> str:
    """Name the SKILL.md of a skill."""
    return f"skill://{name}/SKILL.md"


def _bundled_uris(names: list[str]) -> list[str]:
    return [f"skill://{name}/{BUNDLED[index % len(BUNDLED)]}" for index, name in enumerate(names)]


def _sample(tools: Message) -> list[str]:
    """Pick names from the tool's enum, spread over its whole length."""
    try:
        schema = next(tool["inputSchema"] for tool in tools["tools"] if tool["name"] == "activate_skill")
        names: list[str] = schema["properties"]["name"]["enum"]
    except (StopIteration, KeyError) as error:
        raise BenchError("tools/list offers no activate_skill with an enum of names") from error
    return names[:: max(1, len(names) // SAMPLE)][:SAMPLE]


def _activation(name: str) -> Call:
    return ("tools/call", {"name": "activate_skill", "arguments": {"name": name}})


def _reading(uri: str) -> Call:
    return ("resources/read", {"uri": uri})
