"""Replace the description in a SKILL.md, and no other byte of it."""

from __future__ import annotations

import json

from skills_core.authoring.draft import split_draft
from skills_core.diagnostics import Reason
from skills_core.errors import SkillsError
from skills_core.format.document import BOM
from skills_core.format.frontmatter import DESCRIPTION_LIMIT
from skills_core.format.layout import read_layout

__all__ = ["DescriptionError", "with_description"]


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
