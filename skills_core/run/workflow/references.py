"""References, written as `{{…}}`. The value of a reference is never parsed again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skills_core.errors import did_you_mean, similar_to
from skills_core.run.workflow.parse_errors import ParseError

__all__ = ["CLOSING", "INPUT_NAME", "OPENING", "Reference", "Referent", "read_reference"]

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
