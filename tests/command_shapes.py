"""The command lines of other programs that pages show, each by the shape that its program accepts."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.documented_commands import BLOCK, CommandLine, fault_of, joined, make_targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ShellLine", "fault_of_line", "shell_lines"]

REPOSITORY = Path(__file__).parents[1]

_COMMANDS = {"sh", "bash", "shell", "zsh"}
"""The languages of blocks in which each line is a command."""

_WITH_OUTPUT = {"console", "text"}
"""The languages of blocks that may show what programs print."""

_MENTION = re.compile(
    r"(?<!`)`((?:claude\s+mcp|uv\s+tool|uvx\s+--from|pipx\s+install|docker\s+compose|(?:docker|kubectl)\s[^`]*\bskillserve)"
    r"\s[^`]+)`(?!`)"
)
"""A command in a text that is about skillserve and begins with another program."""

_BETWEEN = frozenset({"|", "||", "&&", ";", "&", "(", ")"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
_HERE_DOCUMENT = re.compile(r"<<-?['\"]?\w+['\"]?")


@dataclass(frozen=True)
class ShellLine:
    """A line of a block, with its place."""

    text: str
    page: str
    line: int

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Shape:
    """What follows the words of a program: options with the number of their values, and arguments.

    `then` tells that a command follows the last argument; `--` may stand between them. With `bare` it may be missing.
    """

    options: Mapping[str, int] = field(default_factory=dict)
    arguments: tuple[int, int] = (0, 0)
    then: bool = False
    bare: bool = False


_MANY = 99
_COMPOSE = {"--file": 1}
_KUBECTL = {"--namespace": 1, "-n": 1}

SHAPES: Mapping[str, Shape] = {
    # Clients.
    "claude mcp add": Shape(
        {"--transport": 1, "--scope": 1, "--header": 1, "--env": 1, "--client-id": 1, "--callback-port": 1}, (2, 2)
    ),
    "claude mcp add --": Shape({"--scope": 1, "--env": 1}, (1, 1), then=True),
    "claude mcp list": Shape(),
    "claude mcp login": Shape({}, (1, 1)),
    "codex mcp login": Shape({}, (1, 1)),
    # Installation.
    "uvx": Shape({"--from": 1}, (0, 0), then=True),
    "uv tool install": Shape({"--python": 1, "--force": 0}, (1, 1)),
    "uv tool uninstall": Shape({}, (1, 1)),
    "pipx install": Shape({"--python": 1}, (1, 1)),
    "git clone": Shape({}, (1, 2)),
    "npx skills add": Shape({"--skill": 1, "--agent": 1}, (1, 1)),
    "npx skills update": Shape(),
    # Containers.
    "docker build": Shape({"-t": 1, "--tag": 1}, (1, 1)),
    "docker push": Shape({}, (1, 1)),
    "docker run": Shape({"--rm": 0, "--read-only": 0, "--tmpfs": 1, "-p": 1, "-e": 1, "-v": 1}, (1, 1)),
    "docker exec": Shape({}, (1, 1), then=True),
    "docker compose up": Shape(
        {**_COMPOSE, "--build": 0, "--force-recreate": 0, "--detach": 0, "--wait": 0, "--scale": 1}, (0, _MANY)
    ),
    "docker compose down": Shape(_COMPOSE),
    "docker compose restart": Shape({**_COMPOSE, "--no-deps": 0}, (0, _MANY)),
    "docker compose kill": Shape({**_COMPOSE, "--signal": 1}, (0, _MANY)),
    "docker compose logs": Shape({**_COMPOSE, "--no-log-prefix": 0, "--follow": 0}, (0, _MANY)),
    "docker compose exec": Shape({**_COMPOSE, "-T": 0, "--no-TTY": 0}, (1, 1), then=True),
    "docker compose run": Shape(
        {**_COMPOSE, "--rm": 0, "-T": 0, "--no-deps": 0, "--no-TTY": 0}, (1, 1), then=True, bare=True
    ),
    "kubectl apply": Shape({**_KUBECTL, "--filename": 1, "-f": 1}),
    "kubectl create namespace": Shape({}, (1, 1)),
    "kubectl create secret generic": Shape({**_KUBECTL, "--from-file": 1, "--from-literal": 1}, (1, 1)),
    "kubectl exec": Shape({**_KUBECTL, "-i": 0}, (1, 1), then=True),
    "kubectl logs": Shape({**_KUBECTL, "--all-pods": 0}, (1, 1)),
    "kubectl rollout restart": Shape(_KUBECTL, (1, 1)),
    "kubectl rollout status": Shape(_KUBECTL, (1, 1)),
    "helm upgrade": Shape(
        {"--install": 0, "--namespace": 1, "--create-namespace": 0, "--values": 1, "--set": 1}, (2, 2)
    ),
    "helm install": Shape({"--namespace": 1, "--create-namespace": 0, "--values": 1, "--set": 1}, (2, 2)),
    # Systems.
    "systemctl": Shape({"--user": 0, "--now": 0}, (1, 2)),
    "loginctl enable-linger": Shape({}, (0, 1)),
    "launchctl load": Shape({}, (1, 1)),
    "journalctl": Shape({"--unit": 1}),
    "kill": Shape({"-HUP": 0}, (1, 1)),
    # What a shell has.
    "cat": Shape({}, (0, _MANY)),
    "cd": Shape({}, (1, 1)),
    "chmod": Shape({}, (2, _MANY)),
    "cp": Shape({}, (2, 2)),
    "cut": Shape({"-c1-12": 0}),
    "curl": Shape({"--fail": 0, "--silent": 0, "--show-error": 0, "--cacert": 1, "--header": 1, "--json": 1}, (1, 1)),
    "echo": Shape({}, (0, _MANY)),
    "export": Shape({}, (1, 1)),
    "git": Shape({"--git-dir": 1, "--stat": 0}, (1, _MANY)),
    "mkdir": Shape({"-p": 0}, (1, _MANY)),
    "mv": Shape({"-f": 0}, (2, 2)),
    "patch": Shape({"-p1": 0, "-d": 1, "-i": 1}),
    "printf": Shape({}, (1, _MANY)),
    "sed": Shape({"-i": 0}, (1, 2)),
    "sha256sum": Shape(),
    "true": Shape(),
}


def shell_lines(text: str, page: str) -> Iterator[ShellLine]:
    """Yield the lines of the blocks of a page that are commands, and those that its text mentions.

    Of a block that may show output, these are the lines with a prompt, and those that begin with a program of `SHAPES`.
    """
    for match in BLOCK.finditer(text):
        language = match["language"]
        if language not in _COMMANDS | _WITH_OUTPUT:
            continue
        first = text.count("\n", 0, match.start("code")) + 1
        for number, line in joined(match["code"]):
            if not line or line.startswith("#"):
                continue
            if language in _COMMANDS or line.startswith("$ ") or _has_shape(line):
                yield ShellLine(line.removeprefix("$ "), page, first + number)
    for match in _MENTION.finditer(BLOCK.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)):
        yield ShellLine(" ".join(match[1].split()), page, text.count("\n", 0, match.start()) + 1)


def _has_shape(line: str) -> bool:
    words = re.sub(r"^(?:\w+=(?:\$\()?)*", "", line).split()
    return bool(words) and any(words[0] == name.split()[0] for name in SHAPES)


def fault_of_line(line: ShellLine) -> str | None:
    """Return why a line would not work, or that no rule knows it; None if each of its commands is in order."""
    try:
        commands = list(_commands(_HERE_DOCUMENT.sub("", line.text)))
    except ValueError as error:
        return f"the shell does not read it: {error}"
    faults = (_fault(words, line) for words in commands)
    return next(filter(None, faults), None)


def _commands(text: str) -> Iterator[list[str]]:
    for inner in _SUBSTITUTION.findall(text):
        yield from _commands(inner)
    lexer = shlex.shlex(_SUBSTITUTION.sub("VALUE", text), posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    words: list[str] = []
    into_file = False
    for word in (*lexer, ";"):
        if word in _BETWEEN:
            if words:
                yield words
            words = []
        elif re.fullmatch(r"[<>]+&?", word):
            into_file = True
        elif into_file:
            into_file = False
        elif words or not _ASSIGNMENT.match(word):
            words.append(word)


def _fault(words: list[str], line: ShellLine) -> str | None:
    program = words[0].rpartition("/")[2]
    if program == "skillserve":
        return fault_of(CommandLine(("skillserve", *words[1:]), line.page, line.line, whole=True))
    if program == "make":
        known = make_targets(REPOSITORY / "Makefile")
        missing = [word for word in words[1:] if not re.search(r"=|^-", word) and word not in known]
        return f"make has no target {missing}" if missing else None
    if program in {"python", "python3"}:
        return _fault_of_python(words[1:])
    if "/" in words[0] and not words[0].startswith(("/", "~", ".venv/")):
        return None if (REPOSITORY / words[0]).is_file() else f"there is no file {words[0]}"
    return _fault_of_shape(words, line)


def _fault_of_python(words: list[str]) -> str | None:
    """Check a module or a script of this repository; each of its options has to stand in its source."""
    if words[:1] == ["-m"]:
        module, words = REPOSITORY / words[1].replace(".", "/"), words[2:]
        source = next((path for path in (module.with_suffix(".py"), module / "__main__.py") if path.exists()), None)
    else:
        source, words = REPOSITORY / words[0], words[1:]
    if source is None or not source.is_file():
        return f"there is no program {source}"
    text = source.read_text(encoding="utf-8")
    missing = [word for word in words if word.startswith("--") and f'"{word.partition("=")[0]}"' not in text]
    return f"{source.name} has no option {missing}" if missing else None


def _fault_of_shape(words: list[str], line: ShellLine) -> str | None:
    faults = ["no rule of tests/command_shapes.py knows this command"]
    # The longest name says most of what is wrong.
    for name in sorted(SHAPES, key=len, reverse=True):
        rest = _after_name(words, name)
        if rest is None:
            continue
        fault = _fault_of_words(rest, SHAPES[name], line)
        if fault is None:
            return None
        faults.insert(0, f"{name}: {fault}")
    return faults[0]


def _after_name(words: list[str], name: str) -> list[str] | None:
    """Return the words without those of a name; options of a program may stand before its subcommand."""
    rest = list(words)
    for number, wanted in enumerate(name.split()):
        if wanted == "--":
            continue  # The shape says where a command begins.
        place = 0
        while number and place < len(rest) and rest[place].startswith("--") and "=" not in rest[place]:
            place += 2
        if rest[place : place + 1] != [wanted]:
            return None
        del rest[place]
    return rest


def _fault_of_words(words: list[str], shape: Shape, line: ShellLine) -> str | None:
    arguments: list[str] = []
    least, most = shape.arguments
    rest = list(words)
    while rest and rest[0] != "--":
        if not rest[0].startswith("-") or rest[0] == "-":
            if shape.then and len(arguments) == most:
                break  # A command begins.
            arguments.append(rest.pop(0))
        elif fault := _fault_of_option(rest, shape):
            return fault
    if not least <= len(arguments) <= most:
        return f"{len(arguments)} arguments, where {least} to {most} are expected"
    command = rest[1:] if rest[:1] == ["--"] else rest
    if command:
        return _fault(command, line) if shape.then else f"{command} are left"
    return "the command is missing" if shape.then and not shape.bare else None


def _fault_of_option(rest: list[str], shape: Shape) -> str | None:
    """Take an option and its value from the words that are left; return what is wrong with them."""
    option, equals, value = rest.pop(0).partition("=")
    if option not in shape.options:
        return f"there is no option {option}"
    if not shape.options[option]:
        return f"{option} takes no value" if equals else None
    if not equals:
        if not rest:
            return f"{option} has no value"
        value = rest.pop(0)
    return _fault_of_file(option, value)


def _fault_of_file(option: str, value: str) -> str | None:
    """Check an option that names a file of this repository."""
    is_ours = option in {"--file", "--filename", "--values", "-f"} and value.startswith("deploy/")
    return f"there is no file {value}" if is_ours and not (REPOSITORY / value).exists() else None
