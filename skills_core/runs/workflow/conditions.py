"""The conditions of a workflow's steps: their tokens, the references in them, and the trees that they parse to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

from skills_core.errors import did_you_mean, similar_to

_CONTEXT_BEFORE: Final = 60
_CONTEXT_AFTER: Final = 40
"""Characters of a line that are shown before and after the position; a line may have thousands."""


class ParseError(Exception):
    """A text of a workflow has a syntax error; `position` counts its characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def excerpt_at(text: str, position: int) -> str:
    """Return the line of a text around a position, and a second line with a caret at it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    first = max(start, position - _CONTEXT_BEFORE)
    before = ("…" if first > start else "") + text[first:position]
    after = text[position : min(end, position + _CONTEXT_AFTER)] + ("…" if end > position + _CONTEXT_AFTER else "")
    shown = "".join(char if char.isprintable() else " " for char in before + after)
    return f"{shown.rstrip()}\n{' ' * len(before)}^"


OPENING: Final = "{{"
CLOSING: Final = "}}"

INPUT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

_OUTPUT: Final = "output"
_FORMS: Final = "expected {{steps.NAME.output}}, {{previous.output}}, {{inputs.NAME}} or {{NAME}} of an input"


class Referent(StrEnum):
    """The kinds of referents."""

    STEP = "step"
    PREVIOUS = "previous"
    INPUT = "input"


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to the output of a named step, to that of the previous step, or to a named input.

    `name` is empty for the previous step. `position` is its offset in its text, from 0.
    """

    referent: Referent
    name: str
    position: int

    def __str__(self) -> str:
        names = {Referent.STEP: f"steps.{self.name}.{_OUTPUT}", Referent.PREVIOUS: f"previous.{_OUTPUT}"}
        return OPENING + names.get(self.referent, f"inputs.{self.name}") + CLOSING


def read_reference(text: str, start: int) -> tuple[Reference, int]:
    """Parse the reference whose braces open at `start` of a text; return it and where it ends.

    Raises:
        ParseError: the text there is not a reference.
    """
    end = text.find(CLOSING, start)
    if end < 0:
        raise ParseError("no '}}' closes this reference", start)
    inner = text[start + len(OPENING) : end]
    name = inner.strip()
    place = start + len(OPENING) + len(inner) - len(inner.lstrip())
    return _reference(name, place, start), end + len(CLOSING)


def _reference(name: str, place: int, start: int) -> Reference:
    scope, dot, rest = name.partition(".")
    if not name:
        raise ParseError(f"this reference is empty; {_FORMS}", start)
    if not dot and INPUT_NAME.fullmatch(name):
        return Reference(Referent.INPUT, name, start)
    if scope == "inputs" and INPUT_NAME.fullmatch(rest):
        return Reference(Referent.INPUT, rest, start)
    if scope == "steps":
        # The name of a step may contain dots.
        step, _, what = rest.rpartition(".")
        _check_output(what, place + len(name) - len(what), of_step=bool(step))
        return Reference(Referent.STEP, step, start)
    if scope == "previous":
        _check_output(rest, place + len(scope) + 1, of_step=bool(rest))
        return Reference(Referent.PREVIOUS, "", start)
    if scope == "env":
        message = "a workflow cannot read the environment, because its inputs are recorded; make it an input"
        raise ParseError(message, place)
    close = similar_to(scope, ("steps", "previous", "inputs")) if dot else ()
    raise ParseError(f"this is not a reference; {_FORMS}{did_you_mean(close[:1], '; did')}", place)


def _check_output(what: str, place: int, *, of_step: bool) -> None:
    if not of_step:
        raise ParseError("a reference to a step ends in '.output'", place)
    if what == "exitCode":
        raise ParseError("a skill has no exit code; expected 'output'", place)
    if what != _OUTPUT:
        raise ParseError(f"a step has no {what[:60]!r}; expected 'output'", place)


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


MAX_CONDITION: Final = 2_000
MAX_NESTING: Final = 32
"""Nesting levels of parentheses and negations."""


class Operator(StrEnum):
    """The comparison operators."""

    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    CONTAINS = "contains"
    STARTS_WITH = "startsWith"


ORDERINGS: Final = frozenset({Operator.LESS, Operator.LESS_OR_EQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL})


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value; `text` is its source, for a number that is compared with texts."""

    value: str | Decimal | bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Negation:
    """True if its operand is false."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Junction:
    """Several operands joined by `or` if `any_of`, else by `and`."""

    any_of: bool
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two operands; `position` is that of the operator."""

    operator: Operator
    left: Expression
    right: Expression
    position: int


Expression: TypeAlias = Reference | Literal | Negation | Junction | Comparison


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: its source, and its syntax tree."""

    text: str
    root: Expression

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references, in order."""
        return tuple(_references(self.root))


def parse_condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        ParseError: it breaks the grammar, is too long or nested too deeply, or orders something that is not a number.
    """
    if len(text) > MAX_CONDITION:
        raise ParseError(f"the condition has {len(text):,} characters; at most {MAX_CONDITION:,}", MAX_CONDITION)
    return Condition(text, _Parser(tokenize(text)).whole())


def _references(node: Expression) -> Iterator[Reference]:
    match node:
        case Reference():
            yield node
        case Negation():
            yield from _references(node.operand)
        case Junction():
            for operand in node.operands:
                yield from _references(operand)
        case Comparison():
            yield from _references(node.left)
            yield from _references(node.right)
        case Literal():
            pass


class _Parser:
    """A parser with one token of lookahead; each method consumes what its name says."""

    def __init__(self, tokens: Iterator[Token]) -> None:
        self._tokens = tokens
        self._next = next(tokens)
        self._level = 0

    def whole(self) -> Expression:
        if self._ended():
            raise ParseError("the condition is empty", self._next.position)
        root = self._disjunction()
        if not self._ended():
            if self._next.text == ")":
                raise ParseError("this parenthesis has no matching '('", self._next.position)
            raise ParseError("expected 'and', 'or' or the end here", self._next.position)
        return root

    def _ended(self) -> bool:
        return self._next.kind is TokenKind.END

    def _take(self) -> Token:
        token = self._next
        if not self._ended():
            self._next = next(self._tokens)
        return token

    def _at(self, *words: str) -> bool:
        return self._next.kind is TokenKind.WORD and self._next.text in words

    def _disjunction(self) -> Expression:
        return self._joined("or", self._conjunction)

    def _conjunction(self) -> Expression:
        return self._joined("and", self._negation)

    def _joined(self, word: str, operand: Callable[[], Expression]) -> Expression:
        operands = [operand()]
        while self._at(word):
            self._take()
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Junction(word == "or", tuple(operands))

    def _negation(self) -> Expression:
        if not self._at("not"):
            return self._comparison()
        self._enter(self._take())
        operand = self._negation()
        self._level -= 1
        return Negation(operand)

    def _comparison(self) -> Expression:
        start = self._next.position
        left = self._operand()
        if not self._at(*Operator):
            return left
        token = self._take()
        operator, middle = Operator(token.text), self._next.position
        right = self._operand()
        if self._at(*Operator):
            raise ParseError("comparisons cannot be chained; join two of them with 'and'", self._next.position)
        if operator in ORDERINGS:
            _require_number(left, operator, start)
            _require_number(right, operator, middle)
        return Comparison(operator, left, right, token.position)

    def _operand(self) -> Expression:
        token = self._take()
        if isinstance(token.value, Reference):
            return token.value
        if token.kind in {TokenKind.TEXT, TokenKind.NUMBER, TokenKind.CONSTANT}:
            return Literal(token.value, token.text)
        if token.kind is not TokenKind.WORD or token.text != "(":
            got = "the condition ends" if token.kind is TokenKind.END else f"{token.text!r} stands"
            raise ParseError(f"expected a reference, a text, a number or '(' where {got}", token.position)
        self._enter(token)
        inner = self._disjunction()
        if not self._at(")"):
            raise ParseError("no ')' closes this parenthesis", token.position)
        self._take()
        self._level -= 1
        return inner

    def _enter(self, token: Token) -> None:
        self._level += 1
        if self._level > MAX_NESTING:
            raise ParseError(f"nested deeper than {MAX_NESTING} levels", token.position)


def _require_number(operand: Expression, operator: Operator, position: int) -> None:
    """Refuse an operand that cannot be a number.

    Raises:
        ParseError: it cannot be a number.
    """
    if isinstance(operand, Reference):
        return
    if isinstance(operand, Literal):
        is_text = isinstance(operand.value, str) and NUMBER.fullmatch(operand.value.strip())
        if is_text or isinstance(operand.value, Decimal):
            return
    raise ParseError(f"{operator.value!r} compares numbers, and this is not a number", position)
