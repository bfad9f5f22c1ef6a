"""Evaluates conditions. The value of a reference is looked up and compared, and never parsed as a condition.

- The value of a reference is text without surrounding blanks, or missing.
- A text compared with a number is parsed as a number, and differs from all numbers if it is not one. With `true` or
  `false` it is compared ignoring case, with another text exactly.
- A missing value equals only `null`; it contains nothing and starts with nothing.
- Only numbers have an order: ordering anything else makes the condition undecidable.
- By itself a text is true unless it is empty or `false`, and a number unless it is 0; a missing value is false.
"""

from __future__ import annotations

import operator as operators
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from skills_core.run.workflow.conditions import ORDERINGS, Comparison, Junction, Literal, Negation, Operator
from skills_core.run.workflow.references import Reference
from skills_core.run.workflow.tokens import NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.run.workflow.conditions import Condition, Expression

__all__ = ["UndecidableError", "holds"]

_Value: TypeAlias = str | Decimal | bool | None

_ORDER_FUNCTIONS: Final = {
    Operator.LESS: operators.lt,
    Operator.LESS_OR_EQUAL: operators.le,
    Operator.GREATER: operators.gt,
    Operator.GREATER_OR_EQUAL: operators.ge,
}

_MAX_SHOWN: Final = 60


class UndecidableError(Exception):
    """A condition orders a value that is not a number; `position` is that of the comparison."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def holds(condition: Condition, value_of: Callable[[Reference], str | None]) -> bool:
    """Tell whether a condition is true; `value_of` returns the value of a reference, None if it is missing.

    Operands are evaluated from left to right, with short circuits.

    Raises:
        UndecidableError: it orders a value that is not a number.
    """
    return _Evaluation(value_of).truth(condition.root)


class _Evaluation:
    def __init__(self, value_of: Callable[[Reference], str | None]) -> None:
        self._value_of = value_of

    def truth(self, node: Expression) -> bool:
        value = self._value(node)
        if isinstance(value, str):
            return value.strip().lower() not in {"", "false"}
        return bool(value)

    def _value(self, node: Expression) -> _Value:
        match node:
            case Reference():
                text = self._value_of(node)
                return None if text is None else text.strip()
            case Literal():
                return node.value
            case Negation():
                return not self.truth(node.operand)
            case Junction():
                truths = (self.truth(operand) for operand in node.operands)
                return any(truths) if node.any_of else all(truths)
            case Comparison():
                return self._compared(node)
            case _ as never:
                assert_never(never)

    def _compared(self, node: Comparison) -> bool:
        left, right = self._value(node.left), self._value(node.right)
        if node.operator in ORDERINGS:
            return bool(_ORDER_FUNCTIONS[node.operator](_number(left, node), _number(right, node)))
        if node.operator in {Operator.EQUAL, Operator.UNEQUAL}:
            return _equal(left, right) is (node.operator is Operator.EQUAL)
        if left is None or right is None:
            return False
        whole, part = _text(left, node.left), _text(right, node.right)
        return part in whole if node.operator is Operator.CONTAINS else whole.startswith(part)


def _equal(left: _Value, right: _Value) -> bool:
    if isinstance(right, str) and not isinstance(left, str):
        left, right = right, left
    if not isinstance(left, str):
        return type(left) is type(right) and left == right
    if isinstance(right, bool):
        return left.strip().lower() == str(right).lower()
    if isinstance(right, Decimal):
        return _as_number(left) == right
    return left == right


def _as_number(value: _Value) -> Decimal | None:
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        return Decimal(value.strip())
    return value if isinstance(value, Decimal) else None


def _number(value: _Value, node: Comparison) -> Decimal:
    number = _as_number(value)
    if number is None:
        shown = "a value that is missing" if value is None else repr(value)[:_MAX_SHOWN]
        raise UndecidableError(f"{node.operator.value!r} compares numbers, and got {shown}", node.position)
    return number


def _text(value: _Value, node: Expression) -> str:
    if isinstance(value, Decimal) and isinstance(node, Literal):
        return node.text
    return str(value).lower() if isinstance(value, bool) else str(value)
