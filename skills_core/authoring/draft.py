"""A SKILL.md being edited: one change of the frontmatter at a time, kept only if it changes what it should.

All other bytes, such as comments, line ends and the body, stay as they are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.errors import SkillsError
from skills_core.format.document import BOM, Document, Fences, find_fences, parse_document, read_layout
from skills_core.format.frontmatter import DESCRIPTION_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.format.yaml12 import JsonValue

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


class DescriptionError(SkillsError):
    """The description cannot be replaced; the message says why, and what to do."""


def with_description(raw: bytes, description: str) -> bytes:
    """Return the bytes of a SKILL.md with another description, as a quoted value in the place of the old one.

    Raises:
        DescriptionError: the text is empty or too long, or the frontmatter has no description that can be replaced
            without a change to another field.
    """
    if not description.strip() or len(description) > DESCRIPTION_LIMIT:
        raise DescriptionError(
            f"the description has {len(description):,} characters; expected 1 to {DESCRIPTION_LIMIT:,}"
        )
    mark = BOM if raw.startswith(BOM) else b""
    try:
        draft = split_draft(raw.removeprefix(BOM).decode("utf-8"))
    except UnicodeDecodeError:
        draft = None
    document = draft.document() if draft is not None else None
    if draft is None or document is None or document.fault is not None:
        raise DescriptionError("the frontmatter cannot be read; run `skillserve validate` to see why")
    if any(found.code is Reason.YAML_REPAIRED for found in document.diagnostics):
        raise DescriptionError("the frontmatter is not valid YAML; run `skillserve validate --fix` first")
    place = read_layout(draft.yaml).get("description")
    if place is None or place.value is None:
        raise DescriptionError("the frontmatter has no plain description; write one as a text, without anchor and tag")
    old = place.value.of(draft.yaml)
    # A block ends with its last line break, which the next field needs.
    ending = draft.line_end if old.endswith("\n") else ""
    expected = {**document.fields, "description": description}
    quoted = json.dumps(description, ensure_ascii=False)
    for new in (quoted + ending, json.dumps(description) + ending):
        edited = draft.edited(place.value.replaced(draft.yaml, new), expected)
        if edited is not draft and edited.document().fields == expected:
            return mark + edited.raw
    raise DescriptionError("the description cannot be replaced without a change to another field; edit it by hand")
