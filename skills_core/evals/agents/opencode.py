"""opencode: `opencode run --format json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from skills_core.evals.agents.kind import (
    ANY_SKILL,
    SERVER,
    AgentKind,
    AgentRights,
    Setup,
    amount_of,
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

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import TranscriptBuilder


_SKILL: Final = "skill"
_DENIED: Final = ("the user rejected permission", "the user has specified a rule which prevents")
_FIRST_LINES: Final = (None, 0, 1)

_SETTINGS: Final[Mapping[str, Any]] = {"autoupdate": False, "share": "disabled"}
_PERMISSIONS: Final[Mapping[AgentRights, Mapping[str, str]]] = {
    AgentRights.LOAD: {_SKILL: "allow", "edit": "deny", "bash": "deny", "webfetch": "deny"},
    AgentRights.WORK: {
        _SKILL: "allow",
        "edit": "allow",
        "bash": "allow",
        "webfetch": "deny",
        "external_directory": "allow",
    },
}
# What no rule allows is rejected at once.


def _setup(server: tuple[str, ...] | None, rights: AgentRights) -> Setup:
    settings: dict[str, Any] = {**_SETTINGS, "permission": dict(_PERMISSIONS[rights])}
    if server is not None:
        entry = {"type": "local", "command": list(server), "enabled": True}
        settings |= {"mcp": {SERVER: entry}}
    return Setup((), {"work/.opencode/opencode.json": json.dumps(settings, indent=2)})


def _read_event(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    kind, part = event.get("type"), record(event.get("part"))
    if kind == "tool_use" and "state" in part:
        into.recognized = True
        _read_call(part, into)
    elif kind == "text" and part:
        into.recognized = True
        into.says(text_of(part.get("text")))
    elif kind == "step_finish" and part:
        into.recognized = True
        tokens = record(part.get("tokens"))
        output = count_of(tokens.get("output")) + count_of(tokens.get("reasoning"))
        into.tokens(text_of(part.get("id")), _tokens(tokens), output)
        into.cost(text_of(part.get("id")), amount_of(part.get("cost")))
        into.finished = into.finished or part.get("reason") == "stop"
    elif kind == "error" and "error" in event:
        into.recognized = True
        error = record(event["error"])
        message = text_of(record(error.get("data")).get("message"))
        into.fault(message or text_of(error.get("name")) or "the agent reports an error")


def _read_call(part: Mapping[str, Any], into: TranscriptBuilder) -> None:
    tool, state = text_of(part.get("tool")), record(part.get("state"))
    arguments = record(state.get("input"))
    into.call(text_of(part.get("callID")), tool, arguments)
    status = state.get("status")
    if tool == "invalid" and arguments.get("tool") == _SKILL:
        # A rule that denies the tool takes it away, and the call does not say for which skill it was.
        into.denies([ANY_SKILL])
    elif status == "completed":
        into.loads(_wanted(tool, arguments, text_of(state.get("output")), record(state.get("metadata"))))
    elif status == "error":
        why, wanted = text_of(state.get("error")), _wanted(tool, arguments, "", {"exit": 0})
        if why.lower().startswith(_DENIED):
            into.denies(wanted)
        else:
            into.fails(wanted, why)


def _wanted(tool: str, arguments: Mapping[str, Any], output: str, metadata: Mapping[str, Any]) -> list[str]:
    """Return the skills that a call loads."""
    names: tuple[str, ...] = ()
    if tool == _SKILL:
        names = (skill_name(arguments.get("name")),)
    elif tool == "read" and metadata.get("truncated") is not True and arguments.get("offset") in _FIRST_LINES:
        names = (skill_of_path(arguments.get("filePath")),)
    elif tool == "bash" and metadata.get("exit") == 0:
        names = skills_read_by(arguments.get("command"), output)
    elif tool == "read_mcp_resource":
        names = (skill_of_uri(arguments.get("uri")),)
    elif name := server_tool(tool):
        names = (skill_of_server_call(name, arguments),)
    return [name for name in names if name]


def _tokens(tokens: Mapping[str, Any]) -> int:
    cache = record(tokens.get("cache"))
    parts = (*(tokens.get(name) for name in ("input", "output", "reasoning")), *cache.values())
    return count_of(tokens.get("total")) or sum(map(count_of, parts))


OPENCODE = AgentKind(
    name="opencode",
    title="opencode",
    command=("opencode", "run", "--format", "json"),
    prompt=("--", "{prompt}"),
    model_option=("--model", "{model}"),
    skills_folder=".opencode/skills",
    other_folders=(".opencode/skill", ".config/opencode/skills", ".claude/skills", ".agents/skills"),
    setup=_setup,
    read_event=_read_event,
    variables=("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_CONFIG_CONTENT"),
    tells_cost=True,
)
