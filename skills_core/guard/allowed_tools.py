"""What a skill's `allowed-tools` permits.

Absent, it permits every tool that is switched on; empty, none. An entry is a name, either ours or a host's name for the
same tool (`Read`, `Bash`, `mcp__server__tool`), optionally with a pattern (`Bash(git log *)`, `Read(src/**)`). An entry
that is not understood permits nothing.

Command patterns are matched word by word against a list of arguments: no shell reads the command, so the program gets
each word as it is. `*` as the last word, or `:*` after it, matches any number of further words; `*` as another word
matches one or more words; `*` within a word matches any characters of that word, and at the very end further words as
well.

Path patterns are matched against paths in the workspace like a line of .gitignore. A leading `/` or `./` means the
workspace itself. Patterns that lead out of it (`~/`, `//`, `..`) and syntax of gitignore(5) beyond `*`, `**` and `?`
are not understood.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.mentions.tools import purposes_of
from skills_core.texts import compile_matcher, pattern_fault
from skills_core.toolboxes import ToolPurpose

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import Role, Tool

MAX_ENTRIES = 1000
"""Most entries of one skill that are read."""

_ENTRY = re.compile(r"([^()*]+?(?:\*)?)(?:\((.*)\))?", re.DOTALL)
_SERVER_WILDCARD = re.compile(r"(mcp__[A-Za-z0-9_-]+?__|[^/()*]+/)[A-Za-z0-9_.-]*\*")
# All tools of a server, or those with a common prefix; the server itself must be named.

_SERVER_PREFIX = "mcp__"

_ANY_NAME = "\x01"
# Stands for any file in a folder. No pattern contains it, so only one that covers the whole folder matches.


@dataclass(frozen=True, slots=True)
class _Permission:
    """One entry; without a pattern, both matchers are None."""

    name: str
    purposes: frozenset[ToolPurpose] = frozenset()
    command: Callable[[Sequence[str]], bool] | None = None
    path: Callable[[str], bool] | None = None

    def names(self, tool: Tool) -> bool:
        """Tell whether the entry names the tool."""
        if self.purposes & tool.role.purposes:
            return True
        if self.name.startswith(_SERVER_PREFIX) or self.name.endswith("*"):
            return self._names_of_server(tool.role)
        return self.name == tool.name or self.name in tool.role.aliases

    def _names_of_server(self, role: Role) -> bool:
        # A server's name stands for all of its tools.
        if self.name.count("__") == 1 and f"{self.name}__" in role.alias_prefixes:
            return True
        # The server must be named in full: another server and its tool may share the prefix.
        if not self.name.startswith(role.alias_prefixes):
            return False
        if self.name.endswith("*"):
            return any(alias.startswith(self.name[:-1]) for alias in role.aliases)
        return self.name in role.aliases

    def permits_some(self, tool: Tool) -> bool:
        """Tell whether the entry permits any call of the tool."""
        has_command = self.command is None or tool.role.command is not None
        return self.names(tool) and has_command and (self.path is None or tool.role.path is not None)

    def permits(self, tool: Tool, arguments: JsonObject) -> bool:
        """Tell whether the entry permits this call."""
        if not self.permits_some(tool):
            return False
        if self.command is not None:
            words = arguments.get(tool.role.command or "")
            return isinstance(words, list) and self.command([word for word in words if isinstance(word, str)])
        if self.path is None:
            return True
        path = _normalized_path(arguments.get(tool.role.path or "", ""))
        if path is not None and tool.role.recursive:
            # Everything in the folder is reached, so everything in it must be permitted.
            path = f"{path}/{_ANY_NAME}".lstrip("/")
        return path is not None and self.path(path)


class AllowedTools:
    """The permissions of an `allowed-tools`; `notes` name the entries that are not understood."""

    def __init__(self, entries: Iterable[str] | None) -> None:
        """Parse the entries; None permits every tool, an empty list none."""
        self._entries: tuple[_Permission, ...] | None = None
        self._none = False
        self.notes: tuple[str, ...] = ()
        if entries is not None:
            self._take(list(entries))

    def _take(self, texts: list[str]) -> None:
        understood: list[_Permission] = []
        notes: list[str] = []
        for text in texts[:MAX_ENTRIES]:
            entry = _parse_entry(text)
            if isinstance(entry, _Permission):
                understood.append(entry)
            else:
                notes.append(f"allowed-tools: {one_line(text)[:100]!r} permits nothing: {entry}")
        if len(texts) > MAX_ENTRIES:
            notes.append(f"allowed-tools: only the first {MAX_ENTRIES} of {len(texts)} entries are read")
        self._entries = tuple(understood)
        self._none = not texts
        self.notes = tuple(notes)

    def offers(self, tool: Tool) -> bool:
        """Tell whether any call of the tool is permitted, so that the model sees it."""
        if self._entries is None:
            return True
        # The skill's own tools need no entry, unless the list is empty.
        own = tool.role.own and not self._none
        return own or any(entry.permits_some(tool) for entry in self._entries)

    def refusal(self, tool: Tool, arguments: JsonObject) -> str:
        """Return why this call is not permitted, empty if it is. The arguments have passed the tool's schema."""
        if not self.offers(tool):
            return "the skill's allowed-tools do not name it"
        if self._entries is None or tool.role.own or any(entry.permits(tool, arguments) for entry in self._entries):
            return ""
        return "no pattern in the skill's allowed-tools matches these arguments"

    def may_name(self, beginning: str) -> bool:
        """Tell whether a tool with this prefix may be permitted, so that its server is worth connecting to."""
        if self._entries is None:
            return True
        names = [entry.name.rstrip("*") for entry in self._entries]
        return any(name.startswith(beginning) or f"{name}__" == beginning for name in names)

    def absent(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Return the entries' names that match none of `tools`, each once."""
        entries = self._entries or ()
        return tuple(dict.fromkeys(entry.name for entry in entries if not any(map(entry.names, tools))))


def _parse_entry(text: str) -> _Permission | str:
    """Parse an entry, or return why it is not understood."""
    match = _ENTRY.fullmatch(text.strip())
    if match is None:
        return "expected a name, optionally with a pattern in parentheses"
    name, pattern = match[1].strip(), match[2]
    if name.endswith("*") and not _SERVER_WILDCARD.fullmatch(name):
        return "a name may end with * only after the name of a server, as in mcp__github__*"
    purposes = frozenset(purposes_of(name))
    if pattern is None or pattern.strip() == "*":
        return _Permission(name, purposes)
    if name.startswith(_SERVER_PREFIX) or "/" in name:
        return "only tools for commands and files take a pattern, not those of servers"
    if ToolPurpose.RUN_COMMAND in purposes:
        command = command_matcher(pattern.strip())
        entry = command and _Permission(name, purposes, command=command)
        return entry or "its pattern is not a plain command, such as Bash(git log *)"
    path = path_matcher(pattern.strip())
    entry = path and _Permission(name, purposes, path=path)
    return entry or "its pattern is not a path within the workspace, such as Read(src/**)"


def _normalized_path(path: object) -> str | None:
    """Return a path in the form that patterns match, None if it is not within the workspace."""
    if not isinstance(path, str) or path.startswith(("/", "\\", "~")) or "\0" in path:
        return None
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return None if ".." in parts else "/".join(parts)


OPERATORS = frozenset({"&&", "||", ";", "|", "|&", "&", ">", ">>", "<", "<<", "2>", "2>>", "&>", "2>&1"})
"""Words with a meaning only for a shell; a command that contains one was written for a shell."""

_FOR_SHELLS = re.compile(r"[;&|<>$`\n\r\0]")

_WORD_END = "\0"
# Terminates each word: no argument of a program can contain it.

_END_CODE = r"\x00"
_REST = f"(?:[^{_END_CODE}]*{_END_CODE})*"
# Any number of further words.


def command_matcher(pattern: str) -> Callable[[Sequence[str]], bool] | None:
    """Return a function that tells whether a command matches the pattern, None if the pattern is not understood."""
    if _FOR_SHELLS.search(pattern):
        return None
    prefix = pattern.removesuffix(":*")
    try:
        words = shlex.split(prefix)
    except ValueError:
        return None
    if not words or ":*" in prefix:
        return None
    if prefix != pattern:
        words.append("*")
    *first, last = words
    expression = "^" + "".join(_word_expression(word) for word in first)
    if last != "*":
        expression += _word_expression(last)
    expression += f"{_REST}$" if last.endswith("*") else "$"
    if pattern_fault(expression):
        return None
    matches = compile_matcher(expression)

    def has_pattern(command: Sequence[str]) -> bool:
        if not command or not OPERATORS.isdisjoint(command) or any(_WORD_END in word for word in command):
            return False
        return matches("".join(word + _WORD_END for word in command))

    return has_pattern


def _word_expression(word: str) -> str:
    """Return the expression for one word of a pattern, with its terminator."""
    if word == "*":
        return f"(?:[^{_END_CODE}]*{_END_CODE})+"
    return f"[^{_END_CODE}]*".join(map(re.escape, word.split("*"))) + _END_CODE


_NOT_UNDERSTOOD = re.compile(r"[\\\[\]!{}\n\r\0]")

_TOKENS = re.compile(r"/\*\*/|/\*\*$|^\*\*/|\*+|\?|[^*?/]+|/")


def path_matcher(pattern: str) -> Callable[[str], bool] | None:
    """Return a function that tells whether a relative path matches the pattern, None if it is not understood.

    A pattern that matches a folder matches everything in it.
    """
    if _NOT_UNDERSTOOD.search(pattern) or pattern.startswith(("~", "//")) or not pattern.strip("/"):
        return None
    if ".." in pattern.split("/"):
        return None
    body = pattern.removeprefix("./").strip("/")
    anchored = pattern.startswith(("/", "./")) or "/" in body
    expression = "".join(_path_expression(token) for token in _TOKENS.findall(body))
    whole = f"^{'' if anchored else '(?:.*/)?'}{expression}(?:/.*)?$"
    if pattern_fault(f"(?s){whole}"):
        return None
    return compile_matcher(f"(?s){whole}")


def _path_expression(part: str) -> str:
    if part in {"/**/", "**/"}:
        return "/(?:.*/)?" if part.startswith("/") else "(?:.*/)?"
    if part == "/**":
        return "/.+"
    if part.startswith("*"):
        return "[^/]*"
    return "[^/]" if part == "?" else re.escape(part)
