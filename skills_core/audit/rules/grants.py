"""The tools of a skill: grants that are too wide, and tools that the instructions use without a grant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.mentions.tools import capabilities_of, mentioned_tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["RULES"]

_FIELD = "allowed-tools"

_SHELLS = ("Bash", "PowerShell", "run_shell_command", "shell", "execute", "terminal", "run_terminal_cmd", "runCommands")
_AGENTS = frozenset({"Agent", "Task"})
_EVERYTHING = re.compile(r"\*|\*\*|all|any", re.IGNORECASE)
_INTERPRETERS = (
    "bash|sh|zsh|dash|fish|python|python3|node|deno|bun|perl|ruby|php|sudo|env|eval|xargs|ssh|curl|wget|nc|npx|uvx|pipx"
)
_WIDE_COMMAND = re.compile(rf"\s*(?:[*:\s]*|(?:{_INTERPRETERS})(?:[ :]\*)*)\s*")
_TABLE_ROW = re.compile(r"^[ \t]*\|[^\n]*", re.MULTILINE)
_WIDE_PATH = re.compile(r"\s*(?:/{1,2}|~/?|/{1,2}\*{1,2}|~/\*{1,2}|\*{1,2}|\*\*/\*)\s*")


def _over_wide(skill: SkillUnderAudit) -> Iterator[Hit]:
    for entry in skill.frontmatter.allowed_tools or ():
        why = _width_of(entry)
        if why is not None and skill.main is not None:
            yield Hit(skill.main, f"{_FIELD} grants {entry!r}: {why}", _place_of(skill), evidence=entry)


def _width_of(entry: str) -> str | None:
    """Return why an entry of `allowed-tools` is too wide, None if it is not."""
    tool, parenthesis, rest = entry.partition("(")
    tool, scope = tool.strip(), rest.rpartition(")")[0]
    if _EVERYTHING.fullmatch(tool):
        return "every tool"
    if tool.startswith("mcp__") and (tool.endswith("*") or tool.count("__") == 1):
        return "every tool of a server" if tool.strip("_*") != "mcp" else "every tool of every server"
    if tool in _SHELLS and (not parenthesis or _WIDE_COMMAND.fullmatch(scope)):
        return "any command" if not scope.strip(" *:") else f"any command, through {scope.partition(':')[0].strip()}"
    if parenthesis and tool in {"Write", "Edit", "MultiEdit", "Read"} and _WIDE_PATH.fullmatch(scope):
        return "any file of the machine"
    return None


def _undeclared(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Find tools that the body uses and that `allowed-tools` does not list, where it lists any tool."""
    front, main = skill.frontmatter, skill.main
    if not front.allowed_tools or main is None or any(_EVERYTHING.fullmatch(each) for each in front.allowed_tools):
        return
    granted = {each.partition("(")[0].strip() for each in front.allowed_tools}
    capabilities = {capability for name in granted for capability in capabilities_of(name)}
    servers = {name.rstrip("*") for name in granted if name.startswith("mcp__")}
    prose = _TABLE_ROW.sub("", skill.body)  # rows describe other agents
    for mention in mentioned_tools(prose, front.allowed_tools, [tool.name for tool in front.tools]):
        name = mention.name
        own = any(tool.name == name for tool in front.tools)
        if not mention.in_body or mention.declared or own or any(name.startswith(server) for server in servers):
            continue
        needed = capabilities_of(name)
        if not needed or not capabilities.issuperset(needed):
            place = skill.body.find(name)
            start = skill.body_start + place if place >= 0 else _place_of(skill)
            # A skill that starts other agents names their tools, too.
            severity = Severity.NOTE if granted & _AGENTS else None
            message = f"the instructions use the tool {name!r}, which {_FIELD} does not list"
            yield Hit(main, message, start, severity)


def _place_of(skill: SkillUnderAudit) -> int:
    """Return where the frontmatter declares the tools."""
    text = (skill.main.text or "") if skill.main is not None else ""
    return max(text.find(_FIELD, 0, skill.body_start), 0)


RULES = (
    Rule(
        "wildcard-grant",
        Severity.WARNING,
        "Over-wide allowed-tools",
        "A host that honours the field runs these tools without asking, whatever the instructions lead to.",
        "Grant the commands that the skill needs, such as `Bash(git status:*)`.",
        _over_wide,
        5.5,
    ),
    Rule(
        "undeclared-tool",
        Severity.WARNING,
        "Tool without a grant",
        "A host that restricts the skill to `allowed-tools` denies the call, and a headless run fails there.",
        "Add the tool to `allowed-tools`, or remove it from the instructions.",
        _undeclared,
    ),
)
