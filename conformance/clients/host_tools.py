"""How a model of each host calls a tool of the server, which may have another name or be behind a search."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from conformance.clients.dialects.messages import Call, Json, Tool, ToolKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["SERVER", "call_for", "end_of", "link_in", "offered", "reads_link", "search_for"]

SERVER = "skills"
"""The name of the server in the configuration of each client."""

READERS = ("read_mcp_resource",)
"""Tools of hosts that read a resource by its URI."""

LINK = re.compile(rf"Resource Link: [^\n]*\b(?P<reader>{'|'.join(READERS)})\b[^\n]* at (?P<uri>\S+)")
"""A resource link as Gemini CLI shows it, with a title that says to read it."""

HASH = re.compile(r"_[0-9a-f]{12}$")
"""What gptme appends to the names of tools."""

ENDS: Mapping[str, Json] = {"final_answer": {"answer": "done"}, "complete": {}}
"""Tools of smolagents and gptme, whose loops go on until the model calls them."""

QUALIFIED = f"mcp__{SERVER}__{{}}"


def call_for(wanted: Call, tools: Sequence[Tool]) -> Call | None:
    """Return the call of the server's tool as this host offers it, or None if the model cannot call it yet."""
    if tool := offered(wanted.name, tools):
        return Call(tool.name, wanted.arguments, tool.namespace)
    named = _by_name(tools)
    qualified = QUALIFIED.format(wanted.name)
    if "tool_call" in named:  # Qwen Code: a tool that calls deferred tools by name.
        return Call("tool_call", {"name": qualified, "arguments": wanted.arguments})
    script = named.get("exec")
    if script and script.kind is ToolKind.SCRIPT:  # Codex's code mode: a program calls the tools.
        program = f"text(await tools.{qualified}({json.dumps(wanted.arguments)}))"
        return Call(script.name, program, script.namespace)
    return None


def search_for(wanted: Call, tools: Sequence[Tool]) -> Call | None:
    """Return the call of the host's own search that makes a deferred tool known, or None if there is no need for it."""
    if offered(wanted.name, tools):
        return None
    named = _by_name(tools)
    exact = {"query": "select:" + QUALIFIED.format(wanted.name)}
    if "ToolSearch" in named:  # Claude Code
        return Call("ToolSearch", exact)
    search = named.get("tool_search")
    if search is None:
        return None
    # Codex ranks by words; Qwen Code takes a name.
    return Call(search.name, {"query": wanted.name.replace("_", " ")} if search.kind is ToolKind.SEARCH else exact)


def end_of(tools: Sequence[Tool]) -> Call | None:
    """Return the call by which a host wants to be told that the model is done, or None if any text does."""
    named = _by_name(tools)
    return next((Call(name, arguments) for name, arguments in ENDS.items() if name in named), None)


def link_in(result: str, tools: Sequence[Tool]) -> Call | None:
    """Return the call of the host's own tool that reads the link of a result, or None if there is none."""
    link = LINK.match(result)
    if link is None or link["reader"] not in _by_name(tools):
        return None
    return Call(link["reader"], {"uri": link["uri"]})


def reads_link(name: str) -> bool:
    """Return whether a tool is one that `link_in` calls."""
    return name in READERS


def offered(name: str, tools: Sequence[Tool]) -> Tool | None:
    """Return the server's tool: the longest name that ends so, because hosts may have a tool of the bare name."""
    fitting = [tool for tool in tools if HASH.sub("", tool.name).endswith(name)]
    return max(fitting, key=lambda tool: len(tool.name), default=None)


def _by_name(tools: Sequence[Tool]) -> Mapping[str, Tool]:
    return {tool.name: tool for tool in tools}
