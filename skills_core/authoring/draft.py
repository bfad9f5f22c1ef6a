"""A SKILL.md being edited: one change of the frontmatter at a time, kept only if it changes what it should.

All other bytes, such as comments, line ends and the body, stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.format.document import Document, Fences, find_fences, parse_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.diagnostics import Reason
    from skills_core.format.yaml12 import JsonValue

__all__ = ["Draft", "Fix", "split_draft"]

_FIRST_LINE = 2
# The line of the file on which the frontmatter begins, after the opening fence.


@dataclass(frozen=True, slots=True)
class Fix:
    """One applied fix: the reason of the diagnostic that it resolves, what was done, and the line in the fixed file."""

    code: Reason
    message: str
    line: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A SKILL.md in three parts (up to the frontmatter, the frontmatter, the rest), with the fixes applied so far."""

    head: str
    yaml: str
    tail: str
    fixes: tuple[Fix, ...] = ()

    @property
    def raw(self) -> bytes:
        """The bytes of the file."""
        return f"{self.head}{self.yaml}{self.tail}".encode()

    @property
    def line_end(self) -> str:
        """The line end that the file uses."""
        return "\r\n" if self.head.endswith("\r\n") else "\n"

    @property
    def fences(self) -> Fences | None:
        """Where the fences of the frontmatter are."""
        return _fences(self.raw.decode())

    def document(self) -> Document:
        """Parse the file."""
        return parse_document(self.raw, "")

    def line(self, position: int) -> int:
        """Return the line in the file of a position in the frontmatter."""
        return self.yaml.count("\n", 0, position) + _FIRST_LINE

    def edited(self, yaml: str, expected: Mapping[str, JsonValue] | None, *fixes: Fix) -> Draft:
        """Return the draft with another frontmatter and further fixes, or unchanged if that is not as expected.

        `expected` are the fields that the new frontmatter must have. It is None if the old frontmatter cannot be
        parsed, so that any frontmatter that can be parsed is better.
        """
        draft = replace(self, yaml=yaml, fixes=(*self.fixes, *fixes))
        document = draft.document()
        same_parts = split_draft(draft.raw.decode()) == replace(draft, fixes=())
        correct = document.fields == expected if expected is not None else document.fault is None
        return draft if same_parts and correct else self


def split_draft(text: str) -> Draft | None:
    """Split the text of a SKILL.md at its fences; None if it has no complete frontmatter."""
    fences = _fences(text)
    if fences is None:
        return None
    return Draft(text[: fences.start], text[fences.start : fences.end], text[fences.end :])


def _fences(text: str) -> Fences | None:
    found = find_fences(text)
    return found if isinstance(found, Fences) else None
