"""Templates: texts with references, parsed once and filled in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.run.workflow.references import CLOSING, OPENING, Reference, read_reference

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_FILLED", "Template", "TextTooLongError", "parse_template"]

MAX_FILLED: Final = 1_000_000
"""Most characters of a filled template: it can refer to a long output many times."""

_BRACES: Final = ("'{{'", '"{{"')
"""Inside braces, an escape for two literal opening braces."""


class TextTooLongError(Exception):
    """A filled template would exceed `MAX_FILLED` characters."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text split into literal parts and references; `text` is the source."""

    text: str
    parts: tuple[str | Reference, ...]

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references, in order."""
        return tuple(part for part in self.parts if isinstance(part, Reference))

    def filled(self, value_of: Callable[[Reference], str | None]) -> str:
        """Return the text with each reference replaced by its value; a missing value is empty.

        Raises:
            TextTooLongError: the result would exceed `MAX_FILLED` characters.
        """
        pieces = [value_of(part) or "" if isinstance(part, Reference) else part for part in self.parts]
        if sum(map(len, pieces)) > MAX_FILLED:
            raise TextTooLongError
        return "".join(pieces)


def parse_template(text: str) -> Template:
    """Parse a text with references; `{{'{{'}}` stands for two literal opening braces.

    Raises:
        ParseError: the text in braces is not a reference.
    """
    parts: list[str | Reference] = []
    end = 0
    while (start := text.find(OPENING, end)) >= 0:
        parts.append(text[end:start])
        braces = next((each for each in _BRACES if text.startswith(each + CLOSING, start + len(OPENING))), None)
        if braces is not None:
            parts.append(OPENING)
            end = start + len(OPENING) + len(braces) + len(CLOSING)
        else:
            reference, end = read_reference(text, start)
            parts.append(reference)
    parts.append(text[end:])
    return Template(text, tuple(part for part in parts if part))
