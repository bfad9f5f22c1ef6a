"""Python and shell commands as the rules read them; the code is parsed and never run.

Of Python, the rules read calls by their full names, and the texts that expressions stand for: a name stands for what is
assigned to it anywhere in the file. Of shell code, they read words, redirections and pipelines: quotes, escapes,
comments, continued lines and here-documents as POSIX shells read them, without expanding variables. Commands inside
`$(…)` and backticks are commands as well.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands in a text for the part that is known only when the code runs."""

_MAX_DEPTH = 12
# Nested expressions and assignments that are followed.

_MAX_ALTERNATIVES = 64
# Values of one name that are followed.

_MAX_TEXT = 8192
# Characters of a text that are kept: texts can double with each assignment.

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
# A line as the parser counts them: form feeds and other separators end none.

_HOME = "~"
_HOMES = {"pathlib.Path.home", "Path.home"}
_HOME_VARIABLES = {"HOME", "USERPROFILE"}
_VARIABLES = {"os.getenv", "os.environ.get"}
_SAME = {"str", "os.path.expanduser", "os.path.expandvars", "os.path.abspath", "os.path.realpath", "os.fspath"}
_SAME_METHODS = {"expanduser", "resolve", "absolute", "as_posix", "strip", "encode", "decode"}
_PATHS = {"pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath", "os.path.join"}


_LEAVES = (ast.Constant, ast.expr_context)
# Programs can have large tables of them.


@dataclass(frozen=True)
class PythonCode:
    """A parsed program."""

    tree: ast.Module
    lines: tuple[str, ...]

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """The nodes of the program, breadth first, without constants."""
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    nodes += [each for each in value if isinstance(each, ast.AST) and not isinstance(each, _LEAVES)]
                elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
                    nodes.append(value)
        return tuple(nodes)

    @cached_property
    def imports(self) -> Mapping[str, str]:
        """The full names of what the program imports, by the names that it uses."""
        names: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for each in node.names:
                    names[each.asname or each.name.partition(".")[0]] = (
                        each.name if each.asname else each.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for each in node.names:
                    names[each.asname or each.name] = f"{node.module or ''}.{each.name}"
        return names

    @cached_property
    def modules(self) -> frozenset[str]:
        """The modules that the program imports, by their full names."""
        whole = {each.name for node in self.nodes if isinstance(node, ast.Import) for each in node.names}
        return frozenset(whole | {node.module or "" for node in self.nodes if isinstance(node, ast.ImportFrom)})

    @cached_property
    def values(self) -> Mapping[str, tuple[ast.expr, ...]]:
        """What the program assigns to each name."""
        values: defaultdict[str, list[ast.expr]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    values[_plain_name(target)].append(node.value)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.AugAssign)) and node.value is not None:
                values[_plain_name(node.target)].append(node.value)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                values[_plain_name(node.optional_vars)].append(node.context_expr)
            elif isinstance(node, (ast.For, ast.comprehension)):
                values[_plain_name(node.target)].append(node.iter)
        return {name: tuple(found) for name, found in values.items() if name}

    @cached_property
    def calls(self) -> tuple[tuple[str, ast.Call], ...]:
        """All calls with the full names of what they call; a method of a value has the name `.method`."""
        return tuple((self.name_of(node.func), node) for node in self.nodes if isinstance(node, ast.Call))

    def name_of(self, node: ast.expr) -> str:
        """Return the full name of a function or an attribute, `.name` for an attribute of another expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return f".{parts[0]}" if parts else ""
        return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])

    @cached_property
    def _texts(self) -> dict[int, str | None]:
        return {}

    def text_of(self, node: ast.expr | None, depth: int = 0) -> str | None:
        """Return the text or path that an expression stands for, None if nothing of it is known.

        A name with several values, and a list, stand for all of them, one a line.
        """
        if node is None or depth > _MAX_DEPTH:
            return None
        if id(node) not in self._texts:
            self._texts[id(node)] = None  # what refers to itself is not known
            text = self._evaluated(node, depth)
            self._texts[id(node)] = text if text is None else text[:_MAX_TEXT]
        return self._texts[id(node)]

    def _evaluated(self, node: ast.expr, depth: int) -> str | None:
        text: str | None = None
        if isinstance(node, ast.Constant):
            text = _constant(node.value)
        elif isinstance(node, ast.JoinedStr):
            values = (each.value if isinstance(each, ast.FormattedValue) else each for each in node.values)
            text = "".join(self._part(each, depth) for each in values)
        elif isinstance(node, ast.BinOp):
            text = self._operation(node, depth)
        elif isinstance(node, ast.Call):
            text = self._called(node, depth)
        elif isinstance(node, ast.Subscript):
            is_home = (
                self.name_of(node.value) == "os.environ" and self.text_of(node.slice, depth + 1) in _HOME_VARIABLES
            )
            text = _HOME if is_home else None
        elif isinstance(node, ast.Name):
            text = self._alternatives(self.values.get(node.id, ()), depth)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            text = self._alternatives(node.elts, depth)
        return text

    def _alternatives(self, nodes: Sequence[ast.expr], depth: int) -> str | None:
        """Return what the nodes stand for, one alternative a line."""
        texts = (self.text_of(each, depth + 1) for each in nodes[:_MAX_ALTERNATIVES])
        return "\n".join(text for text in texts if text is not None) or None

    def _part(self, node: ast.expr, depth: int) -> str:
        text = self.text_of(node, depth + 1)
        return UNKNOWN if text is None else text

    def _operation(self, node: ast.BinOp, depth: int) -> str | None:
        joint = {ast.Add: "", ast.Div: "/", ast.Mod: None}.get(type(node.op), UNKNOWN)
        if joint == UNKNOWN:
            return None
        left = self.text_of(node.left, depth + 1)
        if joint is None:
            return left
        right = self.text_of(node.right, depth + 1)
        return None if left is None and right is None else (left or UNKNOWN) + joint + (right or UNKNOWN)

    def _called(self, node: ast.Call, depth: int) -> str | None:
        name = self.name_of(node.func)
        first = node.args[0] if node.args else None
        if name in _HOMES:
            return _HOME
        if name in _VARIABLES:
            return _HOME if self.text_of(first, depth + 1) in _HOME_VARIABLES else None
        if name in _SAME:
            return self.text_of(first, depth + 1)
        if name in _PATHS:
            return "/".join(self._part(each, depth) for each in node.args) if node.args else None
        return self._method(node, depth)

    def _method(self, node: ast.Call, depth: int) -> str | None:
        if not isinstance(node.func, ast.Attribute):
            return None
        receiver = self.text_of(node.func.value, depth + 1)
        if node.func.attr in _SAME_METHODS or node.func.attr == "format":
            return receiver
        if node.func.attr == "joinpath" and receiver is not None:
            return "/".join([receiver, *(self._part(each, depth) for each in node.args)])
        return None

    def position(self, node: ast.AST) -> int:
        """Return the position of a node in the text of the program."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        before = self.lines[line - 1].encode("utf-8", "replace")[:column].decode("utf-8", "replace")
        return self._starts[line - 1] + len(before)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        return tuple(starts)


def parsed_python(text: str) -> PythonCode | None:
    """Parse a program, None if it is not valid Python 3."""
    source = text.removeprefix("\ufeff")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes and comparisons, which are not ours
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return PythonCode(tree, (*_LINE.findall(text), ""))


def _constant(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def _plain_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _plain_name(node.value)
    return node.id if isinstance(node, ast.Name) else ""


_MAX_SUBSTITUTIONS = 4
# Nested command substitutions that are followed.

_PARENTHESES = r"\((?:[^()]|\([^()]*\))*+\)"
_TOKEN = re.compile(
    rf"""(?P<continued>\\\r?\n)
      | (?P<blank>[ \t\r]+)
      | (?P<end>\n|;;?|&&|\|\||&(?!>)|[()])
      | (?P<pipe>\|&?)
      | (?P<heredoc>\d?<<-?[ \t]*(?P<quote>['"]?)(?P<mark>[\w.-]+)(?P=quote))
      | (?P<redirect>&>>?|\d?(?:>>|>\||<<<|[<>](?!\()[>&]?))
      | (?P<piece>'[^']*'
          | "(?:[^"\\$`]++|\\.|\${_PARENTHESES}|`[^`]*+`|\$)*+"
          | \${_PARENTHESES} | `[^`]*` | \${{[^}}\n]{{0,200}}}} | [<>]{_PARENTHESES}
          | \\. | [^\s'"\\$`<>|;&()#]+ | .)""",
    re.VERBOSE | re.DOTALL,
)
# The quantifiers that end in `+` never give back what they took, so that no text takes more than linear time.

_SUBSTITUTION = re.compile(r"[$<>]\(((?:[^()]|\([^()]*\))*+)\)|`([^`]*)`")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "sudo", "nohup", "command", "exec", "env"}
)
# Words before a command; the rules do not count them as commands.

_LETTER = re.compile(r"\w")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: `text` without its quotes, `raw` as it stands; `start` is its position."""

    text: str
    raw: str
    start: int


@dataclass(frozen=True)
class ShellCommand:
    """One simple command; `written` are the targets of `>` and `>>`, `read` those of `<`."""

    words: tuple[Word, ...]
    written: tuple[Word, ...] = ()
    read: tuple[Word, ...] = ()

    @cached_property
    def name(self) -> str:
        """The program's name without its folder, empty without a word."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @cached_property
    def arguments(self) -> tuple[Word, ...]:
        """The words after the name."""
        return self.words[1:]

    @property
    def start(self) -> int:
        """The position of the first word."""
        return next((word.start for word in (*self.words, *self.written, *self.read)), 0)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands that are joined by pipes, with those of the substitutions in their words."""

    commands: tuple[ShellCommand, ...]


def pipelines_in(text: str, offset: int = 0, depth: int = 0) -> tuple[Pipeline, ...]:
    """Return the pipelines of a text; positions begin with `offset`."""
    return _ShellReader(text, offset, depth).read()


class _ShellReader:
    """Reads one text; the parts of the current word, command and pipeline until they end."""

    def __init__(self, text: str, offset: int, depth: int) -> None:
        self._text, self._offset, self._depth = text, offset, depth
        self._pipelines: list[Pipeline] = []
        self._commands: list[ShellCommand] = []
        self._words: list[Word] = []
        self._targets: dict[str, list[Word]] = {">": [], "<": []}
        self._pieces: list[str] = []
        self._start = 0
        self._redirect = ""
        self._marks: list[str] = []

    def read(self) -> tuple[Pipeline, ...]:
        """Return the pipelines of the text."""
        position = 0
        while match := _TOKEN.match(self._text, position):
            position = match.end()
            if match["piece"] is not None:
                position = self._piece(match)
                continue
            if match["redirect"] is not None and "".join(self._pieces).isdigit():
                self._pieces = []  # the number of a stream: `2>file`
            self._end_word()
            if match["redirect"] is not None:
                self._redirect = match[0]
            elif match["heredoc"] is not None:
                self._marks.append(match["mark"])
            elif match["pipe"] is not None:
                self._end_command()
            elif match["end"] is not None:
                self._end_pipeline()
                if match[0] == "\n":
                    position = self._skip_documents(position)
        self._end_word()
        self._end_pipeline()
        return tuple(self._pipelines)

    def _piece(self, match: re.Match[str]) -> int:
        """Add a piece to the current word, or skip a comment; return the position to continue at."""
        if not self._pieces:
            if match[0] == "#":
                end = self._text.find("\n", match.end())
                return len(self._text) if end < 0 else end
            self._start = match.start()
        self._pieces.append(match[0])
        return match.end()

    def _end_word(self) -> None:
        if not self._pieces:
            return
        word = Word("".join(map(_unquoted, self._pieces)), "".join(self._pieces), self._offset + self._start)
        self._pieces = []
        if self._redirect:
            self._targets["<" if "<" in self._redirect else ">"].append(word)
            self._redirect = ""
        else:
            self._words.append(word)
        self._add_inner(word)

    def _add_inner(self, word: Word) -> None:
        """Read the substitutions of a word; their commands belong to this pipeline, because their output enters it."""
        if self._depth >= _MAX_SUBSTITUTIONS or word.raw.startswith("'"):
            return
        for match in _SUBSTITUTION.finditer(word.raw):
            inner = match.lastindex or 1
            for pipeline in pipelines_in(match[inner], word.start + match.start(inner), self._depth + 1):
                self._commands.extend(pipeline.commands)

    def _end_command(self) -> None:
        written, read = self._targets[">"], self._targets["<"]
        if written or read or any(_LETTER.search(word.text) for word in self._words):
            self._commands.append(ShellCommand(_from_name(self._words), tuple(written), tuple(read)))
        self._words, self._targets = [], {">": [], "<": []}

    def _end_pipeline(self) -> None:
        self._end_command()
        if self._commands:
            self._pipelines.append(Pipeline(tuple(self._commands)))
        self._commands = []

    def _skip_documents(self, position: int) -> int:
        """Return the position behind the here-documents that begin at `position`."""
        for mark in self._marks:
            while position < len(self._text):
                end = self._text.find("\n", position)
                line = self._text[position : end if end >= 0 else len(self._text)]
                position = end + 1 if end >= 0 else len(self._text)
                if line.strip() == mark:
                    break
        self._marks = []
        return position


def _from_name(words: list[Word]) -> tuple[Word, ...]:
    """Return the words without the keywords and assignments that precede the name of the program."""
    names = (place for place, word in enumerate(words) if not (word.text in _KEYWORDS or _ASSIGNMENT.match(word.text)))
    return tuple(words[next(names, max(len(words) - 1, 0)) :])


def _unquoted(piece: str) -> str:
    if piece[0] in "'\"" and len(piece) > 1:
        return piece[1:-1]
    return piece[1:] if piece[0] == "\\" and len(piece) > 1 else piece
