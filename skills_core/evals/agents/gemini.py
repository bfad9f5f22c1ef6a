"""Gemini CLI: `gemini -p … --output-format stream-json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from skills_core.evals.agents.kind import (
    SERVER,
    AgentKind,
    AgentRights,
    Setup,
    count_of,
    record,
    skill_name,
    text_of,
)
from skills_core.evals.agents.reads import (
    server_tool,
    skill_of_path,
    skill_of_server_call,
    skill_of_uri,
    skills_read_by,
)
from skills_core.rendering.catalog import ACTIVATION_TOOL

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import TranscriptBuilder


_RULE: Final = """\
[[rule]]
toolName = "{tool}"
decision = "allow"
priority = 900
"""
# Without a rule, a tool asks the user, whom a run does not have.

_SHELL: Final = "run_shell_command"
_WORK: Final = ("write_file", "replace", _SHELL)

_TRUST: Final = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
# The settings and skills of other folders are ignored; `--skip-trust` comes too late for the settings.

_DENIED_TYPES: Final = ("tool_not_registered", "policy_violation", "permission_denied")
_ASKED: Final = "requires user confirmation"
_LINES: Final = re.compile(r"Read lines (\d+)-(\d+) of (\d+)\b")
_EXIT: Final = re.compile(r"^Exit Code: [1-9]", re.MULTILINE)
_PARTIAL: Final = ("start_line", "end_line", "offset", "limit")


def _setup(server: tuple[str, ...] | None, rights: AgentRights) -> Setup:
    tools = (ACTIVATION_TOOL, *(_WORK if rights is AgentRights.WORK else ()))
    rules = [f"{_RULE.format(tool=tool)}{'allowRedirection = true' if tool == _SHELL else ''}\n" for tool in tools]
    arguments, files = ("--policy", "{root}/policy.toml"), {"policy.toml": "\n".join(rules)}
    if server is None:
        return Setup(arguments, files, _TRUST)
    # This client drops some variables from a server's environment, such as PYTHONPATH.
    entry = {"command": server[0], "args": list(server[1:]), "trust": True}
    settings = json.dumps({"mcpServers": {SERVER: entry}}, indent=2)
    return Setup(arguments, {**files, "work/.gemini/settings.json": settings}, _TRUST)


def _read_event(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    kind = event.get("type")
    if kind == "tool_use" and "tool_name" in event:
        into.recognized = True
        into.call(text_of(event.get("tool_id")), text_of(event["tool_name"]), record(event.get("parameters")))
    elif kind == "tool_result" and "tool_id" in event:
        _read_result(event, into)
    elif kind == "message" and event.get("role") == "assistant":
        into.recognized = True
        into.says(text_of(event.get("content")), part="answer", more=event.get("delta") is True)
    elif kind == "result" and "status" in event and "stats" in event:
        _read_end(event, into)


def _read_result(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    into.says("", part="tool")
    tool, arguments = into.input_of(text_of(event.get("tool_id")))
    output, error = text_of(event.get("output")), record(event.get("error"))
    if event.get("status") == "success":
        into.loads(_wanted(tool, arguments, output))
    elif error.get("type") in _DENIED_TYPES or _ASKED in text_of(error.get("message")):
        into.denies(_wanted(tool, arguments, ""))
    else:
        into.fails(_wanted(tool, arguments, ""), text_of(error.get("message")))


def _wanted(tool: str, arguments: Mapping[str, Any], output: str) -> list[str]:
    """Return the skills that a call loads."""
    names: tuple[str, ...] = ()
    if tool == ACTIVATION_TOOL:
        names = (skill_name(arguments.get("name")),)
    elif tool == "read_file" and _is_whole(arguments, output):
        names = (skill_of_path(arguments.get("file_path") or arguments.get("absolute_path")),)
    elif tool == _SHELL and not _EXIT.search(output):
        names = skills_read_by(arguments.get("command"), output)
    elif tool == "read_mcp_resource":
        names = (skill_of_uri(arguments.get("uri")),)
    elif name := server_tool(tool):
        names = (skill_of_server_call(name, arguments),)
    return [name for name in names if name]


def _is_whole(arguments: Mapping[str, Any], output: str) -> bool:
    if match := _LINES.search(output):
        first, last, total = map(int, match.groups())
        return first == 1 and last >= total
    return not any(name in arguments for name in _PARTIAL)


def _read_end(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    into.recognized = into.finished = True
    if event["status"] != "success":
        into.fault(text_of(record(event.get("error")).get("message")) or "the agent reports an error")
    stats = record(event["stats"])
    into.total(count_of(stats.get("total_tokens")), count_of(stats.get("output_tokens")) or None)


GEMINI = AgentKind(
    name="gemini",
    title="Gemini CLI",
    command=("gemini", "--output-format", "stream-json"),
    prompt=("--prompt={prompt}",),
    model_option=("--model", "{model}"),
    skills_folder=".gemini/skills",
    other_folders=(".agents/skills",),
    setup=_setup,
    read_event=_read_event,
    variables=("GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"),
    provider="google",
)
