"""Find the command lines of Markdown pages, and parse them as the command line does, without running anything."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ValidationError

from server.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "BLOCK",
    "CommandLine",
    "command_lines",
    "commands_in_source",
    "fault_of",
    "joined",
    "make_targets",
    "options_of",
]

BLOCK = re.compile(
    r"^(?P<mark>[ ]*(?:`{3,}|~{3,}))(?P<language>[\w-]*)[^\n]*\n(?P<code>.*?)^(?P=mark)[ ]*$", re.MULTILINE | re.DOTALL
)
_SHELL = {"", "sh", "bash", "shell", "console", "zsh", "text", "powershell"}
_SPAN = re.compile(r"(?<!`)`((?:skillserve|make) [^`]+)`(?!`)")
_CLIENT = re.compile(r'"command": *"(?:[^"]*/)?skillserve", *"args": *(\[[^\]]*\])')
# The entry of a client's configuration.

_SEPARATORS = frozenset({"|", "||", "&&", ";", "&", "(", ")"})
_REDIRECTS = frozenset({">", ">>", "<", "<<<", "2>", "&>"})
_PLACEHOLDER = re.compile(r"<?[A-Z][A-Z0-9_:/.#@=-]*>?|\.\.\.|<[\w -]+>|\{\w+\}")

_ACTS_AT_ONCE = frozenset({"--install-completion", "--show-completion"})
# The parser itself does what these options ask for, and would change the files of whoever runs the tests.

_ROOT: Any = typer.main.get_command(app)
_UsageError: Any = typer.BadParameter.__bases__[0]


@dataclass(frozen=True)
class CommandLine:
    """The words of one command of a page; `whole` tells that it stands in a block, and is not a mention in a text."""

    words: tuple[str, ...]
    page: str
    line: int
    whole: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {shlex.join(self.words)}"


def command_lines(page: Path, shown: str) -> Iterator[CommandLine]:
    """Yield the commands `skillserve` and `make` in the blocks and code spans of a page."""
    text = page.read_text(encoding="utf-8")
    blank = list(text)
    for match in BLOCK.finditer(text):
        blank[match.start() : match.end()] = [" " if char != "\n" else "\n" for char in match[0]]
        for entry in _CLIENT.finditer(match[0]):
            place = text.count("\n", 0, match.start() + entry.start()) + 1
            yield CommandLine(("skillserve", *json.loads(entry[1])), shown, place, whole=True)
        if match["language"] in _SHELL:
            first = text.count("\n", 0, match.start("code")) + 1
            for number, shell in joined(match["code"]):
                for words in _commands(shell, prompted=match["language"] in {"", "console", "text"}):
                    yield CommandLine(words, shown, first + number, whole=True)
    prose = "".join(blank)
    for match in _SPAN.finditer(prose):
        place = prose.count("\n", 0, match.start()) + 1
        for words in _commands(match[1].replace("\n", " "), prompted=False):
            yield CommandLine(words, shown, place, whole=False)


def commands_in_source(module: Path, shown: str) -> Iterator[CommandLine]:
    """Yield the commands in backticks or single quotes in the texts of a module: messages, help and docstrings."""
    source = module.read_text(encoding="utf-8")
    if "skillserve " not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        for match in re.finditer(r"`(skillserve [^`]+)`|'(skillserve [^'\n]+)'", text):
            for words in _commands((match[1] or match[2]).replace("\n", " "), prompted=False):
                yield CommandLine(words, shown, node.lineno, whole=False)


def joined(code: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a block with their numbers; continued lines are one, and here-documents are left out."""
    lines = iter(enumerate(code.splitlines()))
    for number, line in lines:
        joined = line
        while joined.endswith("\\"):
            joined = f"{joined[:-1]} {next(lines, (0, ''))[1].strip()}"
        ends = re.search(r"<<-?['\"]?(\w+)", joined)
        if ends:
            for _, text in lines:
                if text.strip() == ends[1]:
                    break
        yield number, joined.strip()


def _commands(line: str, *, prompted: bool) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command of a line that is ours."""
    line = line.removeprefix("$ ")
    if not re.match(r"(?:[\w./-]+=\S* |.*\| |.*&& )*(?:\S*/)?(?:skillserve|make) ", line) and prompted:
        return  # output of a program
    if not re.search(r"\b(?:skillserve|make) ", line):
        return
    lexer = shlex.shlex(re.sub(r"<<-?['\"]?\w+['\"]?", "", line), posix=True, punctuation_chars="|&;()")
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        tokens = list(lexer)
    except ValueError:
        tokens = line.split()
    for word in (*tokens, ";"):
        if word in _SEPARATORS:
            found = _without_assignments(words)
            if found and found[0].rpartition("/")[2] in {"skillserve", "make"}:
                yield (found[0].rpartition("/")[2], *found[1:])
            words = []
        else:
            words.append(word)


def _without_assignments(words: list[str]) -> list[str]:
    """Return the words without variables in front, a redirection, and what an ellipsis leaves out."""
    kept: list[str] = []
    skipped = False
    for word in itertools.dropwhile(lambda word: re.match(r"\w+=", word), words):
        if skipped or word in _REDIRECTS:
            skipped = word in _REDIRECTS
        elif not re.match(r"\d?>", word):
            kept.append(word)
    return kept


def fault_of(command: CommandLine) -> str | None:
    """Return why the command line refuses a command; None if it does not.

    Brackets around optional parts are removed, an ellipsis repeats nothing, and each of several alternatives is tried.
    A placeholder in capitals stands for a value, never for a command or an option. A mention may leave out what is
    required.
    """
    for words in _variants(command.words[1:]):
        fault = _fault(list(words), whole=command.whole)
        if fault is not None:
            return fault
    return None


def _variants(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words with each choice of their alternatives: `pause|resume`, `--add|--remove`."""
    plain = [word.strip("[]").removesuffix("…").strip("[]") for word in words if word != "[OPTIONS]"]
    choices = [
        word.split("|") if re.fullmatch(r"-{0,2}[a-z][\w-]*(?:\|-{0,2}[a-z][\w-]*)+", word) else [word]
        for word in plain
        if word
    ]
    yield from itertools.islice(itertools.product(*choices), 64)


def _fault(words: list[str], *, whole: bool) -> str | None:
    for _ in range(10):
        try:
            _parse(words)
        except typer.Exit:
            return None  # --help, --version
        except _UsageError as error:
            if not whole and _leaves_out(error):
                return None
            if not _fill(words, error):
                return str(error.format_message())
        else:
            return None
    return "too many placeholders"


def _leaves_out(error: Exception) -> bool:
    """Tell whether something required is missing: an argument, a command, or the value of the last option."""
    no_value = type(error).__name__ == "BadOptionUsage" and "requires an argument" in str(error)
    return no_value or type(error).__name__ in {"MissingParameter", "NoArgsIsHelpError"}


def _parse(words: list[str]) -> None:
    if len(words) == 1 and words[0] in _ACTS_AT_ONCE & {name for each in _ROOT.params for name in each.opts}:
        return
    context = _ROOT.make_context("skillserve", list(words))
    while hasattr(context.command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def _fill(words: list[str], error: Exception) -> bool:
    """Replace the placeholder that the parser refused as a value by a value; return whether there was one."""
    cause = error.__cause__
    for fault in cause.errors() if isinstance(cause, ValidationError) else ():
        choice = re.search(r"is not one of '([^']+)'", fault["msg"])
        value = choice[1] if choice else str(fault.get("ctx", {}).get("ge", 1))
        refused = str(fault["input"])
        if not _PLACEHOLDER.fullmatch(refused):
            return False
        for number, word in enumerate(words):
            option, equals, given = word.partition("=") if word.startswith("--") else ("", "", word)
            if given == refused:
                words[number] = f"{option}{equals}{value}"
                return True
    return False


def options_of(command: CommandLine) -> Iterator[int]:
    """Yield the places of the options of skillserve in a command; what follows the script of `script` is not one."""
    for number, word in enumerate(command.words):
        if word == "--" or (command.words[1:2] == ("script",) and "/" in word):
            return
        if re.match(r"--[a-z]", word):
            yield number


def make_targets(makefile: Path) -> frozenset[str]:
    """Return the targets of a Makefile."""
    return frozenset(re.findall(r"^([a-z][\w-]*):(?!=)", makefile.read_text(encoding="utf-8"), re.MULTILINE))
