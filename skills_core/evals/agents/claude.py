"""Claude Code: `claude -p … --output-format stream-json --verbose`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skills_core.evals.agents.kind import (
    SERVER,
    AgentKind,
    AgentRights,
    Setup,
    amount_of,
    count_of,
    record,
    records,
    skill_name,
    text_of,
    text_of_content,
)
from skills_core.evals.agents.reads import skill_of_path, skill_of_server_call, skill_of_uri, skills_read_by

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import TranscriptBuilder


_HOPELESS = (401, 403)
# The client repeats requests for minutes, although such an answer stays the same.

_MCP = f"mcp__{SERVER}"


_WORK = "Skill,Bash,Edit,Write,NotebookEdit,Read,Glob,Grep"
# Without these, a run without a terminal denies what changes files or lies outside of the project.


def _setup(server: tuple[str, ...] | None, rights: AgentRights) -> Setup:
    # Servers of the user and of the project would offer other skills.
    work = rights is AgentRights.WORK
    if server is None:
        return Setup(("--strict-mcp-config", "--allowedTools", _WORK if work else "Skill"))
    tools = f"{_MCP},{_WORK}" if work else _MCP
    entry = {"command": server[0], "args": list(server[1:])}
    arguments = ("--mcp-config", "{root}/mcp.json", "--strict-mcp-config", "--allowedTools", tools)
    return Setup(arguments, {"mcp.json": json.dumps({"mcpServers": {SERVER: entry}}, indent=2)})


def _read_event(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    kind = event.get("type")
    message = record(event.get("message"))
    if kind == "system":
        _read_system(event, into)
    elif kind == "assistant" and message:
        into.recognized = True
        _read_answer(message, into)
    elif kind == "user" and message:
        for block in records(message.get("content")):
            if block.get("type") == "tool_result":
                _read_result(block, event, into)
    elif kind == "result" and "is_error" in event:
        _read_end(event, into)


def _read_system(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    subtype = event.get("subtype")
    if subtype == "init":
        listed = event.get("skills")
        into.available = tuple(map(skill_name, listed)) if isinstance(listed, list) else None
        into.model = text_of(event.get("model"))
    elif subtype == "permission_denied":
        into.denies(_wanted(*into.input_of(text_of(event.get("tool_use_id"))), "", {}))
    elif subtype == "api_retry" and event.get("error_status") in _HOPELESS:
        into.fault(f"the model refuses: {event['error_status']} {text_of(event.get('error'))}".strip())


def _read_answer(message: Mapping[str, Any], into: TranscriptBuilder) -> None:
    for block in records(message.get("content")):
        if block.get("type") == "tool_use":
            into.call(text_of(block.get("id")), text_of(block.get("name")), record(block.get("input")))
        elif block.get("type") == "text":
            into.says(text_of(block.get("text")))
    if usage := record(message.get("usage")):
        into.tokens(text_of(message.get("id")), _tokens(usage), count_of(usage.get("output_tokens")))


def _read_result(block: Mapping[str, Any], event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    call_id = text_of(block.get("tool_use_id"))
    tool, arguments = into.input_of(call_id)
    if block.get("is_error") is True:
        denied = any(
            meta.get("id") == call_id and record(meta.get("permission_decision")).get("decision") == "reject"
            for meta in records(event.get("tool_result_meta"))
        )
        wanted = _wanted(tool, arguments, "", {})
        if denied:
            into.denies(wanted)
        else:
            into.fails(wanted, text_of_content(block.get("content")))
    else:
        details = record(event.get("tool_use_result"))
        into.loads(_wanted(tool, arguments, text_of_content(block.get("content")), details))


def _wanted(tool: str, arguments: Mapping[str, Any], output: str, details: Mapping[str, Any]) -> list[str]:
    """Return the skills that a call loads."""
    names: tuple[str, ...] = ()
    if tool == "Skill":
        names = (skill_name(arguments.get("skill") or arguments.get("command")),)
    elif tool == "Read" and _is_whole(arguments, record(details.get("file"))):
        names = (skill_of_path(arguments.get("file_path")),)
    elif tool in {"Bash", "PowerShell"}:
        names = skills_read_by(arguments.get("command"), output)
    elif tool == "ReadMcpResourceTool":
        names = (skill_of_uri(arguments.get("uri")),)
    elif tool.startswith("mcp__"):
        names = (skill_of_server_call(tool.rpartition("__")[2], arguments),)
    return [name for name in names if name]


def _is_whole(arguments: Mapping[str, Any], file: Mapping[str, Any]) -> bool:
    total = count_of(file.get("totalLines"))
    if total:
        return file.get("startLine") == 1 and count_of(file.get("numLines")) >= total
    return "offset" not in arguments and "limit" not in arguments


def _read_end(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    into.recognized = into.finished = True
    answer = text_of(event.get("result"))
    if event["is_error"] is True and event.get("subtype") != "error_max_turns":
        into.fault(answer or text_of(event.get("subtype")) or "the agent reports an error")
    elif answer:
        into.says(answer)
    if usage := record(event.get("usage")):
        into.total(_tokens(usage), count_of(usage.get("output_tokens")))
    into.cost("", amount_of(event.get("total_cost_usd")))


def _tokens(usage: Mapping[str, Any]) -> int:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return sum(count_of(usage.get(name)) for name in names)


CLAUDE = AgentKind(
    name="claude",
    title="Claude Code",
    command=("claude", "-p", "--output-format", "stream-json", "--verbose"),
    prompt=("--", "{prompt}"),
    model_option=("--model", "{model}"),
    skills_folder=".claude/skills",
    other_folders=(".claude/commands",),
    setup=_setup,
    read_event=_read_event,
    # The first two make a client believe that it runs within another one.
    variables=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CONFIG_DIR"),
    provider="anthropic",
    tells_cost=True,
)
