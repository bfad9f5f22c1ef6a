"""The tokenizer for conditions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.errors import did_you_mean, similar_to
from skills_core.run.workflow.parse_errors import ParseError
from skills_core.run.workflow.references import OPENING, Reference, read_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NUMBER", "Token", "TokenKind", "tokenize"]

NUMBER: Final = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")
"""The syntax of numbers, in conditions and in texts that are compared with numbers."""

_BLANK: Final = re.compile(r"[ \t\r\n]+")
_WORD: Final = re.compile(r"[^\W\d][\w.-]*")
_SYMBOL: Final = re.compile(r"==|!=|<=|>=|&&|\|\||[<>!()]")
_UNSPACED: Final = re.compile(r"[^\s()'\"{}]+")

_KEYWORD_OF_SYMBOL: Final = {"&&": "and", "||": "or", "!": "not"}
_WORDS: Final = ("and", "or", "not", "contains", "startsWith", "true", "false", "null")
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_ESCAPES: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r", "{": "{"}
_INCOMPLETE_OPERATORS: Final = {"=": "'=='", "&": "'and' or '&&'", "|": "'or' or '||'"}


class TokenKind(StrEnum):
    """The kinds of tokens."""

    REFERENCE = "a reference"
    TEXT = "a text"
    NUMBER = "a number"
    CONSTANT = "a constant"
    WORD = "a word"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `text` is its source, or the keyword of a symbol such as `&&`; `value` is its value."""

    kind: TokenKind
    text: str
    position: int
    value: Reference | str | Decimal | bool | None = None


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of a condition, and an end token.

    Raises:
        ParseError: the text contains something that is not a token.
    """
    position = 0
    while True:
        if blank := _BLANK.match(text, position):
            position = blank.end()
        if position == len(text):
            yield Token(TokenKind.END, "", position)
            return
        token, position = _token(text, position)
        yield token


def _token(text: str, start: int) -> tuple[Token, int]:
    if text.startswith(OPENING, start):
        reference, end = read_reference(text, start)
        return Token(TokenKind.REFERENCE, text[start:end], start, reference), end
    if text[start] in "'\"":
        value, end = _quoted(text, start)
        return Token(TokenKind.TEXT, text[start:end], start, value), end
    if match := _SYMBOL.match(text, start):
        return Token(TokenKind.WORD, _KEYWORD_OF_SYMBOL.get(match[0], match[0]), start), match.end()
    if text[start].isdigit() or text[start] == "-":
        return _number(text, start)
    if match := _WORD.match(text, start):
        return _word(match[0], start), match.end()
    if meant := _INCOMPLETE_OPERATORS.get(text[start]):
        raise ParseError(f"a single {text[start]!r} means nothing here; did you mean {meant}?", start)
    raise ParseError(f"{text[start]!r} means nothing here", start)


def _number(text: str, start: int) -> tuple[Token, int]:
    match = NUMBER.match(text, start)
    run = _UNSPACED.match(text, start)
    if match is None or (run is not None and re.match(r"[\w.]", text[match.end() : match.end() + 1])):
        written = run[0][:60] if run else text[start]
        raise ParseError(f"{written!r} is not a number; write numbers as in 3, -1 or 0.75", start)
    return Token(TokenKind.NUMBER, match[0], start, Decimal(match[0])), match.end()


def _word(word: str, start: int) -> Token:
    if word in _CONSTANTS:
        return Token(TokenKind.CONSTANT, word, start, _CONSTANTS[word])
    if word in _WORDS:
        return Token(TokenKind.WORD, word, start)
    if word.partition(".")[0] in {"steps", "inputs", "previous"}:
        raise ParseError("write a reference in braces, as in {{steps.NAME.output}}", start)
    close = similar_to(word, _WORDS) or [known for known in _WORDS if known.lower() == word.lower()]
    known = f"known are {', '.join(_WORDS)}; write texts in quotes, and references in braces"
    hint = did_you_mean(close[:1], "did") or known
    raise ParseError(f"the word {word[:60]!r} means nothing here; {hint}", start)


def _quoted(text: str, start: int) -> tuple[str, int]:
    """Return the value of a quoted text, and where it ends."""
    quote, position = text[start], start + 1
    pieces: list[str] = []
    while position < len(text) and text[position] != quote:
        char = text[position]
        if text.startswith(OPENING, position):
            message = "write a reference without quotes; for two literal braces, write '\\{{'"
            raise ParseError(message, position)
        if char == "\\":
            position += 1
            escaped = text[position : position + 1]
            if escaped not in _ESCAPES:
                known = " ".join(f"\\{each}" for each in _ESCAPES)
                raise ParseError(f"'\\{escaped}' means nothing; known are {known}", position - 1)
            char = _ESCAPES[escaped]
        pieces.append(char)
        position += 1
    if position == len(text):
        raise ParseError("no quote closes this text", start)
    return "".join(pieces), position + 1
