"""Find which host tools a skill mentions.

A name that can only be an identifier (`AskUserQuestion`, `run_shell_command`) counts wherever it is a word of its own.
A name that is also an English word or a shell command (`Read`, `Task`, `grep`) counts only where the text uses it as a
tool: "the Read tool", `Bash(git:*)`, a call with arguments, "Read, Grep, Glob", or alone in a code span if the text
certainly mentions another tool. A false positive would tell the model to call a tool that the author did not mean, so
ambiguous names do not count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from skills_core.mentions.markdown import in_ascii, lines_at, positions_of, without_fences
from skills_core.toolboxes import OTHER_NAMES, PRESETS, ToolPurpose

MAX_NAME = 64
"""Longest name that is considered, which is the limit of common hosts for a tool's name."""

_AMBIGUOUS = frozenset(
    {"AskQuestion", "SemanticSearch", "SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "WebSearch"}
    | {"SlashCommand", "runCommands", "editFiles", "StrReplace"}
)
# Also common as names of classes and functions in programs.

_UNMISTAKABLE = frozenset({"Bash", "Glob", "Grep"})
# Hardly ever anything but tools when capitalised in a code span.

# The patterns are compiled on first use, so that no start waits for them. Most are applied only to lines or positions
# that a plain search has found: bodies are long, and few words in them name tools.

_WORD = r"(?a)(?<![\w$-])[A-Za-z][A-Za-z0-9_-]*"
# `Read`, `run_shell_command`, `mcp__chrome-devtools__new_page`.

_WORD_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_WORD_CHARACTERS = frozenset(map(chr, _WORD_BYTES))
_SEPARATE_WORDS = bytes(byte if byte in _WORD_BYTES or byte == ord("$") else ord(" ") for byte in range(256))
# A table that leaves only words, each with a `$` that touches it.

_MAX_SOUGHT = 64
# Up to this many names a search for each name is faster than a look at each word.

_PUNCTUATED = r"(?a)(?<![\w$./:#@-])(?:{})(?![\w/-])"
# Any of some given names with punctuation, such as `search/codebase` or `functions.exec`.

_MAX_SPAN = 400
_SPAN = r"(?<!`)`([^`\n]{1,400})`(?!`)"
# A code span.

_ARGUMENT = r"(?a)[a-z_]\w{0,40}[ \t]{0,4}[=:]|[\w. -]{1,40}:\S|[\"'{*)]"
# What follows the `(` of a tool call: `path=`, `git add:*`, a quote, `{`, `*` or `)`.
_LISTED_TOOL = "Read Write Edit Bash Glob Grep Task Skill Agent LS".replace(" ", "|")
_LIST = rf"(?a)\b(?:{_LISTED_TOOL})(?:(?:, (?:and |or )?| and | or |/)(?:{_LISTED_TOOL})\b){{2,8}}"
# Three or more tools in a row: "Read, Grep and Glob", "Read/Edit/Bash".

_USE_OF = r"(?a)\b[Uu]s(?:e|ing) (Glob|Grep)\b"
# "Use Grep", "using Glob".

_MCP_PREFIX = "mcp__"
_MCP_TOOL = r"(?a)mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*__[A-Za-z0-9_-]+"
# A tool of an MCP server, as hosts name it: `mcp__github__create_issue`.

_MARKUP = "`*_ \t"


@dataclass(frozen=True, slots=True)
class ToolMention:
    """A tool that a skill mentions: `in_body` in its instructions, `declared` in its `allowed-tools`."""

    name: str
    in_body: bool
    declared: bool


def purposes_of(name: str) -> tuple[ToolPurpose, ...]:
    """Return what tools of this name do on the hosts that have one; empty for a name that no host has."""
    return _purposes_by_name().get(name, ())


def mentioned_tools(body: str, declared: Iterable[str] = (), own: Iterable[str] = ()) -> tuple[ToolMention, ...]:
    """Return the tools that a skill mentions, each once: those of the body in its order, then those only declared.

    `declared` are the entries of `allowed-tools`, `own` additional names to look for.
    """
    extra = frozenset(own)
    allowed = {name: None for entry in declared if (name := _declared_name(entry)) and _is_tool(name, extra)}
    found = _MentionSearch(body, extra).result(allowed)
    mentions = [ToolMention(name, in_body=True, declared=name in allowed) for name in found]
    return (*mentions, *(ToolMention(name, in_body=False, declared=True) for name in allowed if name not in found))


@cache
def _purposes_by_name() -> Mapping[str, tuple[ToolPurpose, ...]]:
    known: dict[str, dict[ToolPurpose, None]] = {}
    for toolbox in (*PRESETS, OTHER_NAMES):
        for purpose, name in toolbox.names():
            known.setdefault(name, {})[purpose] = None
    for purposes in known.values():
        if ToolPurpose.READ_FILE in purposes:
            # A skill that mentions a file reader rarely means that it also shows images.
            purposes.pop(ToolPurpose.VIEW_IMAGE, None)
    return {name: tuple(purposes) for name, purposes in known.items()}


def _declared_name(entry: str) -> str:
    """Return the tool's name in an entry of `allowed-tools`: `Bash` for `Bash(git:*)`."""
    return entry.partition("(")[0].strip()[: MAX_NAME + 1]


def _is_tool(name: str, extra: frozenset[str]) -> bool:
    if name.startswith("mcp__"):
        return len(name) <= MAX_NAME and re.fullmatch(_MCP_TOOL, name) is not None
    return name in extra or name in _purposes_by_name()


def _counts_in_fences(name: str) -> bool:
    """Tell whether a name counts in fenced code too, where other names belong to programs."""
    return name.startswith(_MCP_PREFIX) or (_is_distinctive(name) and "_" not in name and name not in _AMBIGUOUS)


def _is_distinctive(name: str) -> bool:
    """Tell whether a name can only be an identifier: it has an underscore, or a capital after the first letter.

    `PowerShell` is excluded: it is a program first.
    """
    return "_" in name or (name != "PowerShell" and not name.isupper() and name[1:] != name[1:].lower())


class _MentionSearch:
    """One search through a body, for certain mentions and for likely ones that need another mention to confirm them.

    Both map a name to its first position.
    """

    def __init__(self, body: str, extra: frozenset[str]) -> None:
        self._extra = extra
        self._certain: dict[str, int] = {}
        self._likely: dict[str, int] = {}
        self._words = _words_of(body, extra)
        # Most bodies mention no tool.
        if not self._words and not extra:
            return
        prose = without_fences(body)
        in_code: list[int] = []
        for name, start in _occurrences(prose, self._words):
            self._add_word(prose, name, start, fenced=False)
            if name[0].isupper():
                self._add_call(prose, name, start)
                if _is_in_backticks(prose, start, start + len(name)):
                    in_code.append(start)
        self._find_code_spans(prose, in_code)
        if prose != body:
            for name, start in _occurrences(body, {name for name in self._words if _counts_in_fences(name)}):
                self._add_word(body, name, start, fenced=True)
        self._find_lists(prose)
        self._find_punctuated(prose)

    def result(self, declared: Collection[str]) -> tuple[str, ...]:
        """Return the names in order, the likely ones only if any tool is certain or declared."""
        found = dict(self._certain)
        if found or declared:
            for name, at in self._likely.items():
                self._add(found, name, at)
        return tuple(sorted(found, key=found.__getitem__))

    def _add(self, names: dict[str, int], name: str, at: int) -> None:
        if at < names.get(name, at + 1):
            names[name] = at

    def _add_word(self, text: str, name: str, start: int, *, fenced: bool) -> None:
        """Add a distinctive name, or a word followed by "tool". In fenced code only unambiguous names count."""
        end = start + len(name)
        if not _is_distinctive(name):
            if not fenced and _precedes_tool(text, start, end):
                self._add(self._certain, name, start)
        elif "_" in name and not name.startswith(_MCP_PREFIX):
            if not fenced and _stands_alone(text, start, end):
                self._add(self._certain, name, start)
        elif name in _AMBIGUOUS:
            if not fenced:
                self._add(self._likely, name, start)
        else:
            self._add(self._certain, name, start)

    def _add_call(self, text: str, name: str, start: int) -> None:
        """Add a name that is called with arguments that look like a tool's."""
        end = start + len(name)
        if text[end : end + 1] != "(" or text[start - 1 : start] == "." or _is_distinctive(name):
            return
        if re.compile(_ARGUMENT).match(text, end + 1):
            self._add_span_or_call(name, start)

    def _find_code_spans(self, text: str, places: Iterable[int]) -> None:
        """Find names that are a whole code span; `places` are those of words between backticks."""
        punctuated = (name for name in self._extra if name[:1].isupper() and not re.fullmatch(_WORD, name))
        others = (place for name in punctuated for place in positions_of(name, text))
        for offset, line in lines_at(sorted({*places, *others}), text):
            for match in re.finditer(_SPAN, line):
                name = match[1].strip()
                if len(name) <= MAX_NAME and name[:1].isupper() and _is_tool(name, self._extra):
                    self._add_span_or_call(name, offset + match.start(1))

    def _add_span_or_call(self, name: str, start: int) -> None:
        self._add(self._certain if name in _UNMISTAKABLE else self._likely, name, start)

    def _find_lists(self, text: str) -> None:
        """Find lists of three or more tools, one of them unmistakable, and "use Grep"; both lie on one line."""
        places = (match.start() for match in re.finditer("Bash|Glob|Grep", text))
        for offset, line in lines_at(places, text):
            for match in re.finditer(_LIST, line):
                words = [
                    (word[0], offset + match.start() + word.start())
                    for word in re.finditer(_WORD, match[0])
                    if word[0] in _purposes_by_name()
                ]
                if not _UNMISTAKABLE.isdisjoint(word for word, _ in words):
                    for word, at in words:
                        self._add(self._certain, word, at)
            for match in re.finditer(_USE_OF, line):
                self._add(self._certain, match[1], offset + match.start(1))

    def _find_punctuated(self, text: str) -> None:
        """Find the additional names that have punctuation, such as `search/codebase`."""
        punctuated = [name for name in self._extra if not re.fullmatch(_WORD, name) and name in text]
        if not punctuated:
            return
        longest_first = sorted(punctuated, key=lambda name: (-len(name), name))
        for match in re.finditer(_PUNCTUATED.format("|".join(map(re.escape, longest_first))), text):
            self._add(self._certain, match[0], match.start())


def _words_of(body: str, extra: frozenset[str]) -> set[str]:
    """Return the words of a body that name tools."""
    separated = body.encode("utf-8", "replace").translate(_SEPARATE_WORDS)
    words = set(separated.split())
    if b"$" in separated:
        # What follows a `$` is a variable; what precedes it is a word.
        first, *others, _ = separated.split(b"$")
        words.update(part.rpartition(b" ")[2] for part in (first, *(part for part in others if b" " in part)))
    named = words & _known_words()
    if extra:
        named |= words & {name.encode("utf-8", "replace") for name in extra}
    if _MCP_PREFIX in body:
        named |= {word for word in words if word.startswith(_MCP_PREFIX.encode())}
    found = (word.decode("ascii") for word in named if len(word) <= MAX_NAME and word[:1].isalpha())
    return {word for word in found if _is_tool(word, extra)}


@cache
def _known_words() -> frozenset[bytes]:
    return frozenset(name.encode() for name in _purposes_by_name())


def _occurrences(text: str, names: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield the places where one of the names is a whole word.

    Lowercase words of the language, such as `read`, are yielded only within code, where they may mean a tool.
    """
    if len(names) > _MAX_SOUGHT:
        # A body may mention thousands.
        for match in re.finditer(_WORD, text):
            if match[0] in names:
                yield match[0], match.start()
        return
    narrow = in_ascii(text)
    for name in names:
        mark = "" if name[0].isupper() or _is_distinctive(name) else "`"
        for position in positions_of(mark + name, narrow):
            start = position + len(mark)
            end = start + len(name)
            before = text[start - 1 : start]
            if before not in _WORD_CHARACTERS and before != "$" and text[end : end + 1] not in _WORD_CHARACTERS:
                yield name, start


def _is_in_backticks(text: str, start: int, end: int) -> bool:
    """Tell whether there are backticks around a part of a text, with blanks between at most."""
    before, after = text[max(0, start - _MAX_SPAN) : start], text[end : end + _MAX_SPAN]
    return before.rstrip()[-1:] == "`" and after.lstrip()[:1] == "`"


def _precedes_tool(text: str, start: int, end: int) -> bool:
    """Tell whether the text calls the word from `start` to `end` a tool: "Read tool", "`grep` tool", "Task tools"."""
    in_code = text[start - 1 : start] == "`"
    if not (text[start].isupper() or in_code):
        return False
    after = text[end : end + 80]
    following = after.lstrip(_MARKUP)
    return following != after and re.match(r"tools?\b", following) is not None


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Tell whether the identifier from `start` to `end` is not part of a path, a file's name or an expression."""
    before, after = text[start - 1 : start], text[end : end + 2]
    if before and before in "./\\@#%{:":
        return False
    return not (after[:1] in {"/", "\\", "=", "["} or (after[:1] in {".", ":"} and after[1:].isalnum()))
