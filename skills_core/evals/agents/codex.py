"""Codex: `codex exec --json`. It has no event for skills, and reads them by shell commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skills_core.evals.agents.kind import (
    SERVER,
    AgentKind,
    AgentRights,
    Setup,
    count_of,
    record,
    text_of,
)
from skills_core.evals.agents.reads import skill_of_server_call, skill_of_uri, skills_read_by

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import TranscriptBuilder


_ITEMS_OF_CALLS = ("command_execution", "mcp_tool_call", "file_change", "web_search")
_REFUSED = ("user cancelled", "user rejected", "rejected by user", "not approved")


def _setup(server: tuple[str, ...] | None, rights: AgentRights) -> Setup:
    sandbox = ("--sandbox", "workspace-write" if rights is AgentRights.WORK else "read-only")
    if server is None:
        return Setup(sandbox)
    # JSON strings, and lists of them, are TOML too. By default the agent goes on without a server that starts slowly.
    settings = {
        "command": json.dumps(server[0]),
        "args": json.dumps(list(server[1:])),
        "required": "true",
    }
    options = [("-c", f"mcp_servers.{SERVER}.{key}={value}") for key, value in settings.items()]
    return Setup((*sandbox, *(word for option in options for word in option)))


def _read_event(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    kind = event.get("type")
    item = record(event.get("item"))
    if kind in {"item.started", "item.completed"} and item:
        into.recognized = True
        _read_item(item, into, completed=kind == "item.completed")
    elif kind == "turn.completed":
        into.recognized = into.finished = True
        usage = record(event.get("usage"))
        output = count_of(usage.get("output_tokens"))
        into.total(count_of(usage.get("input_tokens")) + output, output)
    elif kind == "turn.failed":
        into.recognized = into.finished = True
        into.fault(text_of(record(event.get("error")).get("message")) or "the turn failed")


def _read_item(item: Mapping[str, Any], into: TranscriptBuilder, *, completed: bool) -> None:
    kind = item.get("type")
    if kind in _ITEMS_OF_CALLS:
        into.call(text_of(item.get("id")), str(kind), item)
    if not completed:
        return
    if kind == "agent_message":
        into.says(text_of(item.get("text")))
    elif kind == "command_execution":
        output = text_of(item.get("aggregated_output"))
        if item.get("exit_code") == 0:
            into.loads(skills_read_by(item.get("command"), output))
        elif item.get("status") == "declined":
            into.denies(skills_read_by(item.get("command"), ""))
    elif kind == "mcp_tool_call":
        _read_server_call(item, into)


def _read_server_call(item: Mapping[str, Any], into: TranscriptBuilder) -> None:
    arguments, tool = record(item.get("arguments")), text_of(item.get("tool"))
    name = skill_of_uri(arguments.get("uri")) if "resource" in tool else skill_of_server_call(tool, arguments)
    names = [name] if name else []
    result, error = record(item.get("result")), record(item.get("error"))
    if item.get("status") == "completed" and not result.get("isError") and not result.get("is_error"):
        into.loads(names)
    elif text_of(error.get("message")).lower().startswith(_REFUSED):
        into.denies(names)
    else:
        into.fails(names, text_of(error.get("message")))


CODEX = AgentKind(
    name="codex",
    title="Codex",
    command=("codex", "exec", "--json", "--skip-git-repo-check"),
    prompt=("--", "{prompt}"),
    model_option=("--model", "{model}"),
    skills_folder=".agents/skills",
    other_folders=(".codex/skills",),
    setup=_setup,
    read_event=_read_event,
    variables=("CODEX_HOME", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"),
    provider="openai",
)
