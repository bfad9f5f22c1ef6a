"""Reads typed fields from the mappings of a workflow, and records their faults with locations.

Unlike a skill's frontmatter, nothing is repaired: a workflow runs unattended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from skills_core.diagnostics import Severity
from skills_core.errors import did_you_mean, similar_to
from skills_core.run.workflow.faults import FaultCode, WorkflowFault
from skills_core.run.workflow.parse_errors import ParseError, excerpt_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.workflow.faults import Faults
    from skills_core.run.workflow.model import FieldLocation

__all__ = ["Fields"]

_T = TypeVar("_T")


def _parse_fault(code: FaultCode, at: FieldLocation, text: str, message: str, position: int) -> WorkflowFault:
    """Return an error at a position within a text of the document."""
    return WorkflowFault(Severity.ERROR, code, message, at.field, at.line, excerpt_at(text, position))


class Fields:
    """One mapping of a document: `at` is its location, `faults` collects faults, `wrong` the keys with wrong types."""

    def __init__(self, values: Mapping[str, JsonValue], at: FieldLocation, faults: Faults) -> None:
        self._values = values
        self.at = at
        self.faults = faults
        self.wrong: set[str] = set()

    @property
    def names(self) -> Iterable[str]:
        """The keys, in their order."""
        return self._values

    def has(self, key: str) -> bool:
        """Tell whether the field is present."""
        return key in self._values

    def fault(self, code: FaultCode, message: str, key: str) -> None:
        """Record an error of a field."""
        self._add(code, message, self.at.within(key))

    def _add(self, code: FaultCode, message: str, at: FieldLocation) -> None:
        self.faults.add(WorkflowFault(Severity.ERROR, code, message, at.field, at.line))

    def missing(self, key: str, expected: str) -> None:
        """Record that a field is missing, at the location of the mapping."""
        self._add(FaultCode.MISSING_FIELD, f"{key!r} is missing: {expected}", self.at)

    def unknown(self, code: FaultCode, what: str, written: str, known: Sequence[str], key: str) -> None:
        """Record an unknown value, with the known ones and a likely correction."""
        if self.faults.full:
            return
        close = similar_to(written, known) or [each for each in known if each.lower() == written.lower()]
        self.fault(code, f"{what}; known are {', '.join(known)}{did_you_mean(close[:1], '; did')}", key)

    def only(self, known: Sequence[str], what: str) -> None:
        """Record each unknown field."""
        for key in self._values:
            if key not in known:
                self.unknown(FaultCode.UNKNOWN_FIELD, f"{what} has no field {key[:60]!r}", key, known, key)

    def _mistyped(self, key: str, expected: str) -> None:
        shown = {bool: "true or false", dict: "a mapping", list: "a list", str: "a text", type(None): "nothing"}
        got = shown.get(type(self._values[key]), "a number")
        self.wrong.add(key)
        self.fault(FaultCode.INVALID_FIELD, f"expected {expected}, not {got}", key)

    def text(self, key: str, *, strip: bool = True) -> str | None:
        """Return a text; numbers and booleans are converted."""
        value = self._values.get(key)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return value.strip() if strip else value
        if isinstance(value, int | float):
            return str(value)
        if self.has(key):
            self._mistyped(key, "a text")
        return None

    def required_text(self, key: str, *, strip: bool = True) -> str | None:
        """Return a text that must be present and not empty."""
        if not self.has(key):
            self.missing(key, "expected a text")
            return None
        text = self.text(key, strip=strip)
        if text is not None and not text.strip():
            self.fault(FaultCode.MISSING_FIELD, f"{key!r} is empty", key)
            return None
        return text

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self._mistyped(key, "true or false")
            return default
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._values.get(key, [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(str(item) for item in value)
        self._mistyped(key, "a list of texts")
        return ()

    def mapping(self, key: str) -> Fields:
        """Return the fields of a mapping; no fields if it is absent."""
        value = self._values.get(key)
        if not isinstance(value, dict):
            if value is not None:
                self._mistyped(key, "a mapping")
            value = {}
        return Fields(value, self.at.within(key), self.faults)

    def items(self, key: str) -> tuple[Fields, ...]:
        """Return the mappings of a list."""
        value = self._values.get(key, [])
        if not isinstance(value, list):
            self._mistyped(key, "a list of steps")
            return ()
        found = []
        for number, item in enumerate(value):
            at = self.at.within(key).within(number)
            if isinstance(item, dict):
                found.append(Fields(item, at, self.faults))
            else:
                self.wrong.add(key)
                self._add(FaultCode.INVALID_FIELD, "expected a step, as in '- kind: skill'", at)
        return tuple(found)

    def parsed(self, key: str, text: str, parse: Callable[[str], _T], code: FaultCode) -> _T | None:
        """Parse the text of a field with `parse`; record a `ParseError` and return None."""
        try:
            return parse(text)
        except ParseError as error:
            self.faults.add(_parse_fault(code, self.at.within(key), text, error.message, error.position))
            return None
