"""The parser for conditions: a small language of comparisons, parsed by recursive descent into frozen values.

    condition  = and { ("or" | "||") and }
    and        = not { ("and" | "&&") not }
    not        = ("not" | "!") not | comparison
    comparison = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "startsWith") operand ]
    operand    = reference | text | number | "true" | "false" | "null" | "(" condition ")"

`evaluate` defines the meaning. Python never evaluates any of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from skills_core.run.workflow.parse_errors import ParseError
from skills_core.run.workflow.references import Reference
from skills_core.run.workflow.tokens import NUMBER, Token, TokenKind, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "MAX_CONDITION",
    "ORDERINGS",
    "Comparison",
    "Condition",
    "Expression",
    "Junction",
    "Literal",
    "Negation",
    "Operator",
    "parse_condition",
]

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
