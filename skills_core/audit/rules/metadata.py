"""The frontmatter of a skill: its name, its description, and the tools that it grants itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.search import LOOKALIKES, find, is_found
from skills_core.diagnostics import printable
from skills_core.mentions.tools import mentioned_tools, purposes_of

if TYPE_CHECKING:
    from skills_core.audit.skill import SkillUnderAudit


_WELL_KNOWN_TEXT = """
algorithmic-art brand-guidelines canvas-design claude-api doc-coauthoring docx frontend-design internal-comms
mcp-builder pdf pptx skill-creator slack-gif-creator theme-factory web-artifacts-builder webapp-testing xlsx
using-superpowers brainstorming test-driven-development systematic-debugging writing-plans executing-plans
writing-skills find-skills vercel-react-best-practices web-design-guidelines agent-browser
remotion-best-practices
"""
WELL_KNOWN = frozenset(_WELL_KNOWN_TEXT.split())
"""Skills that many people install: those of Anthropic, and the most used of public collections (November 2026)."""

_ALIKE = str.maketrans(
    {"0": "o", "1": "l", "i": "l", "5": "s", "3": "e", "4": "a", "7": "t", "8": "b", "_": "-", ".": "-", " ": "-"}
)
_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_DASHES = re.compile("-+")


@lru_cache(maxsize=4096)
def skeleton(name: str) -> str:
    """Return a form of a name that is equal for names which look alike."""
    text = unicodedata.normalize("NFKD", name).casefold()
    text = "".join(
        LOOKALIKES.get(char, char)
        for char in text
        if not unicodedata.combining(char) and unicodedata.category(char) != "Cf"
    )
    text = text.translate(_ALIKE)
    for pair, letter in _PAIRS:
        text = text.replace(pair, letter)
    return _DASHES.sub("-", text).strip("-")


_WELL_KNOWN_SKELETONS = {skeleton(name): name for name in sorted(WELL_KNOWN)}


def _twins(skill: SkillUnderAudit) -> Iterator[Hit]:
    main = skill.main
    if main is None:
        return
    known = _WELL_KNOWN_SKELETONS | {skeleton(name): name for name in sorted(skill.siblings) if name not in WELL_KNOWN}
    for name in sorted(skill.names):
        rival = known.get(skeleton(name))
        if rival is not None and rival not in skill.names and _lookalikes(name) >= _lookalikes(rival):
            yield Hit(main, f"{printable(name)!a} looks like the name of another skill: {rival}", evidence=rival)


def _lookalikes(name: str) -> int:
    """Count the characters that can stand for letters; of two names that look alike, the original has fewer."""
    return sum(not char.isascii() or char.isdigit() for char in name)


_CATCH_ALL = (
    r"\b(?:always|must(?: always)?)\s+(?:use|load|invoke|activate|call|run|apply)\b[^.]{0,60}\b(?:any"
    r"|every|all|first|before (?:anything|any|every)|no matter)\b"
    r"|\b(?:use|load|invoke|activate|call|apply|relevant|useful|works)\b[^.]{0,40}\b(?:for|on|with|to|in"
    r"|at)\s+(?:any|every|all)\s+(?:\w+\s+){0,1}(?:tasks?|requests?|questions?|messages?|prompts?"
    r"|quer(?:y|ies)|conversations?|sessions?|situations?|purposes?|things?|user input)\b"
    r"|\b(?:for|with|about)\s+(?:everything|anything)\b(?:\s*[.!,]|\s*$|\s+(?:the user|you))"
    r"|\bregardless of (?:the |what |which )?(?:\w+\s+)?(?:task|topic|request|question|user)\b"
    r"|\b(?:before|instead of)\s+(?:using\s+)?(?:any|every|all)\s+other\s+(?:skills?|tools?)\b"
    r"|\boverrides? (?:all )?other skills\b"
)

_WHEN = (
    r"\b(?:when(?:ever)?|if|while|before|after|during|upon|once|trigger(?:s|ed)?|for (?:tasks?|questions?"
    r"|requests?|queries|work|cases|projects|files|users|creating|writing|building|working)"
    r"|asks?|asked|wants?|needs?|requests?|mentions?|use (?:this|it|for|to|in|with|on|as)|used (?:for|to"
    r"|by)|useful (?:for|in)|suitable for|applies to|intended for|designed for|invoke)\b"
)

_VAGUE = (
    r"^(?:this skill\s+|a skill (?:that|for|to)\s+|skill (?:for|to)\s+)?(?:helps?|assists?|deals?|works?"
    r"|handles?|manages?|supports?|does|processes|tools?|utilit(?:y|ies)|helpers?|stuff|things"
    r"|functions)\b[^.,;:]{0,48}[.!]?\s*$"
)
_FEW_WORDS = 6


def _place_of_description(skill: SkillUnderAudit) -> int:
    text = (skill.main.text or "")[: skill.body_start] if skill.main is not None else ""
    return next((found.start for found in find(r"^description[ \t]*:", text)), 0)


def _catch_all(skill: SkillUnderAudit) -> Iterator[Hit]:
    if skill.main is not None:
        for found in find(_CATCH_ALL, _description_of(skill)):
            yield Hit(
                skill.main, f"the description claims every task: {found.text.strip()!r}", _place_of_description(skill)
            )
            return


def _without_when(skill: SkillUnderAudit) -> Iterator[Hit]:
    front = skill.frontmatter
    described = _description_of(skill)
    if skill.main is None or not described or not front.model_invocable or front.always_on:
        return
    if front.when_to_use or front.triggers or is_found(_WHEN, described):
        return
    yield Hit(skill.main, "the description does not say when to use the skill", _place_of_description(skill))


def _vague(skill: SkillUnderAudit) -> Iterator[Hit]:
    described = _description_of(skill)
    if skill.main is None or not described:
        return
    if len(described.split()) < _FEW_WORDS or is_found(_VAGUE, described):
        message = f"the description {described[:60]!r} is vague: it does not tell this skill from others"
        yield Hit(skill.main, message, _place_of_description(skill))


def _description_of(skill: SkillUnderAudit) -> str:
    return " ".join(skill.frontmatter.description.split()) if skill.instructions.fault is None else ""


_FIX = (
    "Say in one or two sentences what the skill does and when to use it: name the tasks, file types and words that"
    " users say."
)


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
            yield Hit(skill.main, f"{_FIELD} grants {entry!r}: {why}", _place_of_grants(skill), evidence=entry)


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
    purposes = {purpose for name in granted for purpose in purposes_of(name)}
    servers = {name.rstrip("*") for name in granted if name.startswith("mcp__")}
    prose = _TABLE_ROW.sub("", skill.body)  # rows describe other agents
    for mention in mentioned_tools(prose, front.allowed_tools, [tool.name for tool in front.tools]):
        name = mention.name
        own = any(tool.name == name for tool in front.tools)
        if not mention.in_body or mention.declared or own or any(name.startswith(server) for server in servers):
            continue
        needed = purposes_of(name)
        if not needed or not purposes.issuperset(needed):
            place = skill.body.find(name)
            start = skill.body_start + place if place >= 0 else _place_of_grants(skill)
            # A skill that starts other agents names their tools, too.
            severity = Severity.NOTE if granted & _AGENTS else None
            message = f"the instructions use the tool {name!r}, which {_FIELD} does not list"
            yield Hit(main, message, start, severity)


def _place_of_grants(skill: SkillUnderAudit) -> int:
    text = (skill.main.text or "") if skill.main is not None else ""
    return max(text.find(_FIELD, 0, skill.body_start), 0)


RULES = (
    Rule(
        "name-twin",
        Severity.ERROR,
        "Name that looks like another skill's",
        "Users and models take the skill for the one that they know.",
        "Choose a name of its own, in letters of one alphabet.",
        _twins,
        7.0,
    ),
    Rule(
        "catch-all-description",
        Severity.WARNING,
        "Description that claims every task",
        "A model loads the skill for tasks that it does not serve, in place of skills that do.",
        "Name the tasks that the skill serves, and no others.",
        _catch_all,
        5.0,
    ),
    Rule(
        "description-without-when",
        Severity.WARNING,
        "Description without when",
        "A model decides by the description alone; without a condition it loads the skill rarely, or at random.",
        _FIX,
        _without_when,
    ),
    Rule(
        "vague-description",
        Severity.WARNING,
        "Vague description",
        "A description such as “Helps with PDFs.” matches no request in particular.",
        _FIX,
        _vague,
    ),
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
