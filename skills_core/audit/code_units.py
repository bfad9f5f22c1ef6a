"""The code in a skill's files: scripts, blocks and commands of Markdown, notebooks, scripts of a `package.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skills_core.audit.code_parsers import Pipeline, PythonCode, ShellCommand, Word, parsed_python, pipelines_in

if TYPE_CHECKING:
    import ast


_TOKEN = re.compile(r'"((?:[^"\\]|\\.?)*+)(?:"|\Z)|[\[\]:]', re.DOTALL)
_JSON_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}


class NotebookCell(NamedTuple):
    """The source of one cell: the positions of its strings in the file, and whether it is code."""

    strings: tuple[tuple[int, int], ...]
    is_code: bool

    def source(self, text: str) -> str:
        """Return the source of the cell in the notebook `text`."""
        return "".join(_JSON_ESCAPE.sub(_unescaped, text[start:end]) for start, end in self.strings)


def cells_of(text: str) -> Iterator[NotebookCell]:
    """Yield the cells of a notebook; a value of `source` is a string or a list of strings."""
    kind, key, inside = "code", "", False
    strings: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(text):
        string, mark = token[1], token[0]
        if inside:
            if string is not None:
                strings.append(token.span(1))
            else:
                yield NotebookCell(tuple(strings), kind == "code")
                key, strings, inside = "", [], False
        elif mark == "[" and key == "source:":
            inside = True
        elif mark == ":":
            key += ":"
        elif string is not None and key == "source:":
            yield NotebookCell((token.span(1),), kind == "code")
            key = ""
        else:
            kind = string if key == "cell_type:" and string is not None else kind
            key = string or ""


def without_json(text: str) -> str:
    """Return a notebook with blanks for everything but the sources of its cells, with the same positions."""
    parts: list[str] = []
    end = 0
    for cell in cells_of(text):
        for start, stop in cell.strings:
            parts += [_blank(text[end:start]), _JSON_ESCAPE.sub(_padded, text[start:stop])]
            end = stop
    return "".join([*parts, _blank(text[end:])])


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2])


def _padded(match: re.Match[str]) -> str:
    return _unescaped(match).rjust(len(match[0]))


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


class Language(StrEnum):
    """A language that the rules read; OTHER is searched as text only."""

    PYTHON = "python"
    SHELL = "shell"
    JAVASCRIPT = "javascript"
    OTHER = "other"


_SUFFIXES = {
    **dict.fromkeys((".py", ".pyw"), Language.PYTHON),
    **dict.fromkeys((".sh", ".bash", ".zsh", ".fish", ".ksh", ".command"), Language.SHELL),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"), Language.JAVASCRIPT),
}
_TAGS = {
    **dict.fromkeys(("python", "py", "python3"), Language.PYTHON),
    **dict.fromkeys(
        ("", "sh", "bash", "shell", "zsh", "fish", "console", "terminal", "shell-session", "shellsession"),
        Language.SHELL,
    ),
    **dict.fromkeys(("javascript", "js", "typescript", "ts", "jsx", "tsx", "mjs", "node"), Language.JAVASCRIPT),
}
_INTERPRETERS = (
    (re.compile(r"python|uv run|pipx run"), Language.PYTHON),
    (re.compile(r"\b(?:ba|z|da|k|fi)?sh\b"), Language.SHELL),
    (re.compile(r"\b(?:node|deno|bun|tsx|ts-node)\b"), Language.JAVASCRIPT),
)
_FENCE = re.compile(r"^(?P<indent>[ \t>]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<tag>[\w+-]*)[^\n`]*$", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`\n]{3,2000})`(?!`)")
_PROMPT = re.compile(r"^([ \t>]*)([$%#][ \t])(?=\S)", re.MULTILINE)
_MAX_INLINE = 5_000
_BLOCK = "if 1:"
# Before an indented program: so it is valid, and all positions stay.

_SHELL_CALLS_TEXT = """
os.system os.popen subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell commands.getoutput
"""
SHELL_CALLS = frozenset(_SHELL_CALLS_TEXT.split())
"""Functions of Python that run a text with a shell."""

PROGRAM_CALLS = frozenset(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen"))
"""Functions of Python that run a list of words, or with `shell=True` a text."""

_EXECUTES = re.compile(
    r"""\b(?:exec|execSync|spawn|spawnSync|execFile|execFileSync|execa|execaCommand)\s*\(\s*
        (?P<quote>["'`])(?P<text>(?:\\.|(?!(?P=quote))[^\\])*+)(?P=quote)(?:\s*,\s*\[(?P<list>[^\]]*)\])?""",
    re.VERBOSE | re.DOTALL,
)
_STRING = re.compile(r"""(["'`])((?:\\.|(?!\1)[^\\])*+)\1""", re.DOTALL)


class CodeFile(Protocol):
    """A file as far as finding its code needs it."""

    @property
    def path(self) -> str:
        """The path in the skill."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def suffix(self) -> str:
        """The lower-case ending of the name with its dot."""

    @property
    def is_markdown(self) -> bool:
        """Whether the file is a document with code in it."""

    @property
    def is_script(self) -> bool:
        """Whether the file is a program in source form."""

    @property
    def text(self) -> str | None:
        """The decoded text, None for a binary file."""

    @property
    def unfenced(self) -> str:
        """The text of a document with blanks for fenced code."""


@dataclass(frozen=True)
class CodeUnit:
    """One program, or one piece of code in a document; `start` is its position in the file at `path`."""

    path: str
    language: Language
    text: str
    start: int = 0
    in_document: bool = False

    @property
    def stem(self) -> str:
        """The name of the file up to its first dot, by which other programs import it."""
        return self.path.rpartition("/")[2].partition(".")[0]

    def line_at(self, position: int) -> str:
        """Return the line of the code that has a position of the file."""
        place = position - self.start
        end = self.text.find("\n", place)
        return self.text[self.text.rfind("\n", 0, place) + 1 : end if end >= 0 else len(self.text)]

    @cached_property
    def python(self) -> PythonCode | None:
        """The parsed program, None for other languages and for what is not valid Python."""
        return parsed_python(self.text) if self.language is Language.PYTHON else None

    @cached_property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """The shell commands: those of a shell script, and those that other programs run."""
        if self.language is Language.SHELL:
            return pipelines_in(_PROMPT.sub(lambda match: " " * len(match[0]), self.text), self.start)
        if self.python is not None:
            return tuple(self._run_by_python(self.python))
        if self.language is Language.JAVASCRIPT:
            return tuple(self._run_by_javascript())
        return ()

    @cached_property
    def commands(self) -> tuple[ShellCommand, ...]:
        """The shell commands of all pipelines."""
        return tuple(command for pipeline in self.pipelines for command in pipeline.commands)

    def position(self, node: ast.AST) -> int:
        """Return the position of a node of the Python program in the file."""
        return self.start + (self.python.position(node) if self.python is not None else 0)

    def _run_by_python(self, code: PythonCode) -> Iterator[Pipeline]:
        import ast  # noqa: PLC0415 - only Python needs it

        for name, call in code.calls:
            first = call.args[0] if call.args else None
            if first is None or not (name in SHELL_CALLS | PROGRAM_CALLS or name.startswith(("os.exec", "os.spawn"))):
                continue
            if isinstance(first, (ast.List, ast.Tuple)):
                texts = (code.text_of(each) for each in first.elts)
                words = tuple(Word(text or "", text or "", 0) for text in texts)
                found: tuple[Pipeline, ...] = (Pipeline((ShellCommand(words),)),)
            else:
                found = pipelines_in(code.text_of(first) or "")
            yield from _moved(found, self.position(call))

    def _run_by_javascript(self) -> Iterator[Pipeline]:
        for match in _EXECUTES.finditer(self.text):
            words = " ".join(f"'{string[2]}'" for string in _STRING.finditer(match["list"] or ""))
            yield from _moved(pipelines_in(f"{match['text']} {words}"), self.start + match.start())


def code_units(file: CodeFile) -> tuple[CodeUnit, ...]:
    """Return the code in a file."""
    text = file.text
    if text is None:
        return ()
    if file.is_markdown:
        return tuple(_of_markdown(file, text))
    if file.suffix == ".ipynb":
        return tuple(_of_notebook(file, text))
    if file.name == "package.json":
        return tuple(_of_package(file, text))
    language = _language_of(file, text)
    return () if language is None else (CodeUnit(file.path, language, text),)


def _language_of(file: CodeFile, text: str) -> Language | None:
    if file.suffix in _SUFFIXES:
        return _SUFFIXES[file.suffix]
    if not file.is_script:
        return None
    first = text[: text.find("\n")] if "\n" in text else text
    if first.startswith("#!"):
        return next((language for pattern, language in _INTERPRETERS if pattern.search(first)), Language.OTHER)
    return Language.OTHER


def _of_markdown(file: CodeFile, text: str) -> Iterator[CodeUnit]:
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text) if "```" in text or "~~~" in text else ():
        if opened is None:
            opened = fence
        elif fence["mark"].startswith(opened["mark"]) and not fence["tag"]:
            yield _fenced(file, text, opened, fence.start())
            opened = None
    if opened is not None:
        yield _fenced(file, text, opened, len(text))
    for number, match in enumerate(_INLINE.finditer(file.unfenced) if "`" in text else ()):
        if number < _MAX_INLINE:
            yield CodeUnit(file.path, Language.SHELL, match[1], match.start(1), in_document=True)


def _fenced(file: CodeFile, text: str, opened: re.Match[str], end: int) -> CodeUnit:
    language = _TAGS.get(opened["tag"].lower(), Language.OTHER)
    body = text[opened.end() : end]
    if opened["indent"] and language is Language.PYTHON:
        return CodeUnit(file.path, language, _BLOCK + body, opened.end() - len(_BLOCK), in_document=True)
    return CodeUnit(file.path, language, body, opened.end(), in_document=True)


def _of_notebook(file: CodeFile, text: str) -> Iterator[CodeUnit]:
    """Yield the code cells; their strings are joined, so a position in a cell is that of the cell or a little later."""
    for cell in cells_of(text):
        if cell.is_code and cell.strings:
            yield CodeUnit(file.path, Language.PYTHON, cell.source(text), cell.strings[0][0])


def _of_package(file: CodeFile, text: str) -> Iterator[CodeUnit]:
    try:
        scripts = json.loads(text).get("scripts", {})
        commands = [command for command in scripts.values() if isinstance(command, str)]
    except (ValueError, AttributeError, RecursionError):
        return
    for command in commands:
        yield CodeUnit(file.path, Language.SHELL, command, max(text.find(json.dumps(command)[1:-1]), 0))


def _moved(pipelines: tuple[Pipeline, ...], start: int) -> Iterator[Pipeline]:
    """Yield the pipelines with all words at the place of the call that runs them."""
    for pipeline in pipelines:
        yield Pipeline(
            tuple(
                ShellCommand(
                    *(
                        tuple(replace(word, start=start) for word in words)
                        for words in (command.words, command.written, command.read)
                    )
                )
                for command in pipeline.commands
            )
        )
