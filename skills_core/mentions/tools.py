"""Which tools of hosts a skill names.

A name that looks like nothing else (`AskUserQuestion`, `run_shell_command`) counts wherever it stands as a word of
its own. One that is a word of English or a command of a shell (`Read`, `Task`, `grep`) counts only where the text
treats it as a tool: "the Read tool", `Bash(git:*)`, a call with arguments, "Read, Grep, Glob", and alone in a code
span where the text is known to be about such tools. A false alarm tells a model to call something that nobody meant,
so where both readings are likely a name does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from skills_core.mentions.markdown import without_fences
from skills_core.toolboxes import OTHER_NAMES, PRESETS, Capability

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ToolMention", "capabilities_of", "mentioned_tools"]

MAX_NAME = 64
"""Longest name that is looked at; a server's tool with a longer one is nobody's."""

_COMMON = frozenset(
    {"AskQuestion", "SemanticSearch", "SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "WebSearch"}
    | {"SlashCommand", "runCommands", "editFiles", "StrReplace"}
)
# Names that programs give their own classes and functions too.

_TELLING = frozenset({"Bash", "Glob", "Grep"})
# Words that, alone in a code span and with a capital, are hardly ever anything but tools.

# Patterns are compiled when the first body is looked at: no start waits for them.
_WORD = r"(?a)(?<![\w$-])[A-Za-z][A-Za-z0-9_-]*"
_SIGNED = r"(?a)(?<![\w$./:#@-])(?:{})(?![\w/-])"
_SPAN = r"(?<!`)`([^`\n]{1,400})`(?!`)"
_ARGUMENT = r"(?=[a-z_]\w{0,40}[ \t]{0,4}[=:]|[\w. -]{1,40}:\S|[\"'{*)])"
_LISTED = "Read Write Edit Bash Glob Grep Task Skill Agent LS".replace(" ", "|")
_LIST = rf"(?a)\b(?:{_LISTED})(?:(?:, (?:and |or )?| and | or |/)(?:{_LISTED})\b){{2,8}}"
_USED = r"(?a)\b[Uu]s(?:e|ing) (Glob|Grep)\b"
_SERVERS = r"(?a)mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*__[A-Za-z0-9_-]+"
_MARKS = "`*_ \t"


@dataclass(frozen=True, slots=True)
class ToolMention:
    """A tool that a skill names: `in_body` in its instructions, `declared` in its `allowed-tools`."""

    name: str
    in_body: bool
    declared: bool


def capabilities_of(name: str) -> tuple[Capability, ...]:
    """Return what tools of this name do on the hosts that have one; nothing for a name that no host has."""
    return _known().get(name, ())


def mentioned_tools(body: str, declared: Iterable[str] = (), own: Iterable[str] = ()) -> tuple[ToolMention, ...]:
    """Return the tools that a skill names, each once, in the order in which the body does.

    `declared` are the entries of `allowed-tools`, `own` further names to look for.
    """
    further = frozenset(own)
    allowed = {name: None for entry in declared if (name := _declared(entry)) and _is_tool(name, further)}
    found = _Search(body, further).result(allowed)
    mentions = [ToolMention(name, in_body=True, declared=name in allowed) for name in found]
    return (*mentions, *(ToolMention(name, in_body=False, declared=True) for name in allowed if name not in found))


@cache
def _known() -> Mapping[str, tuple[Capability, ...]]:
    known: dict[str, dict[Capability, None]] = {}
    for toolbox in (*PRESETS, OTHER_NAMES):
        for capability, name in toolbox.names():
            known.setdefault(name, {})[capability] = None
    for capabilities in known.values():
        if Capability.READ_FILE in capabilities:
            # That it shows images too is not what a skill names it for.
            capabilities.pop(Capability.VIEW_IMAGE, None)
    return {name: tuple(capabilities) for name, capabilities in known.items()}


def _declared(entry: str) -> str:
    """Return the tool that an entry of `allowed-tools` names: `Bash(git:*)` names `Bash`."""
    return entry.partition("(")[0].strip()[: MAX_NAME + 1]


def _is_tool(name: str, further: frozenset[str]) -> bool:
    if name.startswith("mcp__"):
        return len(name) <= MAX_NAME and re.fullmatch(_SERVERS, name) is not None
    return name in further or name in _known()


def _is_distinctive(name: str) -> bool:
    """Tell whether a name looks like nothing but an identifier: with an underscore, or a capital within.

    PowerShell is a program before it is a tool.
    """
    return "_" in name or (name != "PowerShell" and not name.isupper() and name[1:] != name[1:].lower())


class _Search:
    """One look through a body: the certain names by where they first stand, and those that need a witness."""

    def __init__(self, body: str, further: frozenset[str]) -> None:
        self._further = further
        self._certain: dict[str, int] = {}
        self._likely: dict[str, int] = {}
        # To list the words costs little, and most bodies name no tool at all.
        words = {word for word in set(re.findall(_WORD, body)) if len(word) <= MAX_NAME and _is_tool(word, further)}
        if not words and not further:
            return
        self._words = words
        prose = without_fences(body)
        self._look_at_words(prose, fenced=False)
        if prose != body:
            self._look_at_words(body, fenced=True)
        self._look_at_spans(prose)
        self._look_at_calls(prose)
        self._look_at_lists(prose)
        self._look_at_signed(prose)

    def result(self, declared: Iterable[str]) -> tuple[str, ...]:
        """Return the names: the likely ones only where a certain or a declared one is their witness."""
        witnesses = {*declared, *self._certain}
        found = dict(self._certain)
        for name, at in self._likely.items():
            if witnesses - {name} or name in witnesses:
                found[name] = min(at, found.get(name, at))
        return tuple(sorted(found, key=lambda name: found[name]))

    def _add(self, names: dict[str, int], name: str, at: int) -> None:
        if at < names.get(name, at + 1):
            names[name] = at

    def _look_at_words(self, text: str, *, fenced: bool) -> None:
        """Find distinctive names, and words with "tool" behind them. In fenced code only what nobody else writes."""
        # Not a pattern of all the names: a body may have thousands of them.
        for match in re.finditer(_WORD, text):
            name = match[0]
            if name not in self._words:
                continue
            if not _is_distinctive(name):
                if not fenced and _called_tool(text, match):
                    self._add(self._certain, name, match.start())
            elif "_" in name and not name.startswith("mcp__"):
                if not fenced and _stands_alone(text, match):
                    self._add(self._certain, name, match.start())
            elif name in _COMMON:
                if not fenced:
                    self._add(self._likely, name, match.start())
            else:
                self._add(self._certain, name, match.start())

    def _look_at_spans(self, text: str) -> None:
        """Find words that are all of a code span."""
        for match in re.finditer(_SPAN, text):
            name = match[1].strip()
            if len(name) <= MAX_NAME and name[:1].isupper() and _is_tool(name, self._further):
                self._add(self._certain if name in _TELLING else self._likely, name, match.start(1))

    def _look_at_calls(self, text: str) -> None:
        """Find words that are called, with arguments such as tools get."""
        called = [name for name in self._words if name[0].isupper() and not _is_distinctive(name)]
        for match in re.finditer(rf"(?a)(?<![\w.$-])({_any_of(called)})\({_ARGUMENT}", text):
            name = match[1]
            self._add(self._certain if name in _TELLING else self._likely, name, match.start())

    def _look_at_lists(self, text: str) -> None:
        """Find words in a row of three and more such words, one of which is hardly anything else; and what is used."""
        for match in re.finditer(_LIST, text):
            words = [
                (word[0], match.start() + word.start()) for word in re.finditer(_WORD, match[0]) if word[0] in _known()
            ]
            if not _TELLING.isdisjoint(word for word, _ in words):
                for word, at in words:
                    self._add(self._certain, word, at)
        for match in re.finditer(_USED, text):
            self._add(self._certain, match[1], match.start(1))

    def _look_at_signed(self, text: str) -> None:
        """Find names that settings know and that are no words, such as `search/codebase`."""
        signed = [name for name in self._further if not re.fullmatch(_WORD, name) and name in text]
        for match in re.finditer(_SIGNED.format(_any_of(signed)), text):
            self._add(self._certain, match[0], match.start())


def _any_of(names: Iterable[str]) -> str:
    """Return a pattern for any of these names, the longest first, and for nothing where there are none."""
    return "|".join(sorted(map(re.escape, names), key=lambda name: (-len(name), name))) or r"\b\B"


def _called_tool(text: str, match: re.Match[str]) -> bool:
    """Tell whether a word is said to be a tool: "Read tool", "`grep` tool", "Task tools"."""
    behind = text[match.end() : match.end() + 80]
    closed = behind.lstrip(_MARKS)
    marked = text[match.start() - 1 : match.start()] == "`"
    if not (match[0][0].isupper() or marked):
        return False
    return re.match(r"tools?\b", closed) is not None and len(behind) - len(closed) > 0


def _stands_alone(text: str, match: re.Match[str]) -> bool:
    """Tell whether an identifier is no part of a path, of a file's name or of an expression."""
    before, behind = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 2]
    if before and before in "./\\@#%{:":
        return False
    return not (behind[:1] in {"/", "\\", "=", "["} or (behind[:1] in {".", ":"} and behind[1:].isalnum()))
