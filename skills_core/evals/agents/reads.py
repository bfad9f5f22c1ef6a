"""Which skills an agent has loaded, by the paths, URIs and calls of this server's tools that it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from skills_core.disk.folders import MAIN_FILE
from skills_core.evals.agents.kind import skill_name
from skills_core.rendering.catalog import ACTIVATION_TOOL

_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "powershell", "pwsh", "powershell.exe", "pwsh.exe"})
_READERS: Final = frozenset({"cat", "nl", "bat", "batcat", "less", "more", "type", "get-content", "gc"})
# Commands that print files in full.

_OPERATORS: Final = frozenset({"&&", "||", ";", "|", "&", "\n", ";;"})
_MAX_COMMAND: Final = 100_000
_MAX_NESTED: Final = 4

_BACKSLASH: Final = re.compile(r"\\(?=[\w.])")
_SED_RANGE: Final = re.compile(r"1,(\$|\d+)p;?(?:q)?")

READ_TOOL = "read_skill_file"


def skill_of_path(path: object, folder: str = "") -> str:
    """Return the name of the folder if the path is that of a SKILL.md, otherwise an empty text."""
    if not isinstance(path, str):
        return ""
    parts = PurePosixPath(folder, path.replace("\\", "/")).parts
    if len(parts) < 2 or parts[-1] != MAIN_FILE or parts[-2] in {"/", ".", ".."}:  # noqa: PLR2004 - folder and file
        return ""
    return parts[-2]


def skill_of_uri(uri: object) -> str:
    """Return the name of the skill if the URI is that of a SKILL.md of a server, otherwise an empty text."""
    return skill_of_path(uri.partition("://")[2]) if isinstance(uri, str) and uri.startswith("skill://") else ""


def skills_read_by(command: object, output: str, depth: int = 0) -> tuple[str, ...]:
    """Return the skills whose SKILL.md a successful shell command has printed in full.

    Of a command that prints at most some lines, such as `sed -n 1,200p`, `output` tells whether that was all.
    """
    text = " ".join(map(str, command)) if isinstance(command, list) else command
    if not isinstance(text, str) or len(text) > _MAX_COMMAND or depth > _MAX_NESTED:
        return ()
    try:
        words = [*_words(text)]
    except ValueError:  # a quotation without end, or another syntax
        return ()
    folder, found = "", []
    for pipeline in _pipelines(words):
        first = pipeline[0]
        if not first:
            continue
        verb, arguments = _verb(first[0]), first[1:]
        if verb in _SHELLS:
            found += [name for word in _scripts(arguments) for name in skills_read_by(word, output, depth + 1)]
        elif verb in {"cd", "set-location"} and arguments:
            folder = str(PurePosixPath(folder, arguments[-1]))
        else:
            found += _printed(pipeline, output, folder)
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Printed:
    """The files that a command prints, and how many lines of them at most."""

    paths: tuple[str, ...]
    lines: int | None = None


def _printed(pipeline: Sequence[Sequence[str]], output: str, folder: str) -> Iterator[str]:
    printed = _print_command(pipeline[0])
    limits = [] if printed is None or printed.lines is None else [printed.lines]
    for command in pipeline[1:]:
        further = _print_command(command)
        if further is None or further.paths:
            return
        limits += [further.lines] if further.lines is not None else []
    if printed is None or any(len(output.splitlines()) >= limit for limit in limits):
        return
    yield from (name for path in printed.paths if (name := skill_of_path(path, folder)))


def _print_command(command: Sequence[str]) -> _Printed | None:
    """Return what a command prints; None if it prints no files, or writes them elsewhere."""
    if not command or any(word.startswith((">", "<")) for word in command):
        return None
    verb, arguments = _verb(command[0]), list(command[1:])
    if verb in _READERS:
        return _Printed(tuple(word for word in arguments if not word.startswith("-")))
    if verb == "head":
        return _head(arguments)
    if verb == "sed" and len(arguments) > 1 and arguments[0] == "-n":
        match = _SED_RANGE.fullmatch(arguments[1])
        if match is None:
            return None
        end = match.group(1)
        return _Printed(tuple(arguments[2:]), None if end == "$" else int(end))
    return None


def _head(arguments: list[str]) -> _Printed | None:
    lines, paths, waits = 10, [], False
    for word in arguments:
        if waits:
            if not word.isdecimal():
                return None
            lines, waits = int(word), False
        elif word in {"-n", "--lines"}:
            waits = True
        elif match := re.fullmatch(r"(?:-n|--lines=|-)(\d+)", word):
            lines = int(match.group(1))
        elif word.startswith("-"):
            return None  # by bytes, or all but the last lines
        else:
            paths.append(word)
    return _Printed(tuple(paths), lines)


def _words(text: str) -> Iterator[str]:
    lexer = shlex.shlex(_BACKSLASH.sub("/", text), posix=True, punctuation_chars=";|&<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    yield from lexer


def _pipelines(words: Sequence[str]) -> Iterator[list[list[str]]]:
    pipeline: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            pipeline.append([])
        elif word in _OPERATORS or not word.strip(";&|\n"):
            yield pipeline
            pipeline = [[]]
        else:
            pipeline[-1].append(word)
    yield pipeline


def _scripts(arguments: Sequence[str]) -> list[str]:
    """Return the script of `bash -lc SCRIPT` and `powershell -Command SCRIPT`."""
    for number, word in enumerate(arguments[:-1]):
        if re.fullmatch(r"-[a-z]*c", word) or word.lower() == "-command":
            return [arguments[number + 1]]
    return []


def _verb(word: str) -> str:
    return word.rpartition("/")[2].lower()


def server_tool(tool: str) -> str:
    """Return which of the server's tools a prefixed name such as `skills_activate_skill` means; empty for others."""
    for name in (ACTIVATION_TOOL, READ_TOOL):
        if tool.endswith(f"_{name}"):
            return name
    return ""


def skill_of_server_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the skill that a call of this server's tool loads, otherwise an empty text."""
    if tool == ACTIVATION_TOOL:
        return skill_name(arguments.get("name"))
    whole = arguments.get("path") == MAIN_FILE and arguments.get("first_line") in (None, 1)
    return skill_name(arguments.get("skill")) if tool == READ_TOOL and whole else ""
