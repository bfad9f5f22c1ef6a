"""Shell commands as the rules read them: words, redirections and pipelines, without running anything.

Quotes, escapes, comments, continued lines and here-documents are read as POSIX shells read them. Variables are not
expanded. Commands inside `$(…)` and backticks are commands as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Command", "Pipeline", "Word", "pipelines_in"]

_MAX_DEPTH = 4
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
# Words before a command that are no command of their own, as far as the rules are concerned.

_LETTER = re.compile(r"\w")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: `text` without its quotes, `raw` as it stands; `start` is its position."""

    text: str
    raw: str
    start: int


@dataclass(frozen=True)
class Command:
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

    commands: tuple[Command, ...]


def pipelines_in(text: str, offset: int = 0, depth: int = 0) -> tuple[Pipeline, ...]:
    """Return the pipelines of a text; positions begin with `offset`."""
    return _Reader(text, offset, depth).read()


class _Reader:
    """Reads one text; the parts of the current word, command and pipeline until they end."""

    def __init__(self, text: str, offset: int, depth: int) -> None:
        self._text, self._offset, self._depth = text, offset, depth
        self._pipelines: list[Pipeline] = []
        self._commands: list[Command] = []
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
        """Add to the word; return where to go on, behind the line if this is a comment."""
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
        if self._depth >= _MAX_DEPTH or word.raw.startswith("'"):
            return
        for match in _SUBSTITUTION.finditer(word.raw):
            inner = match.lastindex or 1
            for pipeline in pipelines_in(match[inner], word.start + match.start(inner), self._depth + 1):
                self._commands.extend(pipeline.commands)

    def _end_command(self) -> None:
        written, read = self._targets[">"], self._targets["<"]
        if written or read or any(_LETTER.search(word.text) for word in self._words):
            self._commands.append(Command(_from_name(self._words), tuple(written), tuple(read)))
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
    """Return the words from the name of the program on."""
    names = (place for place, word in enumerate(words) if not (word.text in _KEYWORDS or _ASSIGNMENT.match(word.text)))
    return tuple(words[next(names, max(len(words) - 1, 0)) :])


def _unquoted(piece: str) -> str:
    if piece[0] in "'\"" and len(piece) > 1:
        return piece[1:-1]
    return piece[1:] if piece[0] == "\\" and len(piece) > 1 else piece
