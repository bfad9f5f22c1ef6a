"""Give a skill the name of its folder, where the skill's own name is missing or breaks a rule."""

from __future__ import annotations

import json
from dataclasses import replace

from skills_core.authoring.draft import Draft, Fix
from skills_core.diagnostics import Reason
from skills_core.format.frontmatter import is_folder_name, parse_frontmatter, unquoted_fields
from skills_core.format.layout import read_layout

__all__ = ["with_folder_name"]

_NAME_FAULTS = (Reason.MISSING_NAME, Reason.NAME_MISMATCH, Reason.INVALID_NAME, Reason.NAME_TOO_LONG)
# Ordered: the first one found is the reason of the fix.

_YAML_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
# Plain words that some parser of YAML 1.1 or 1.2 does not read as strings.

_MAX_EXCERPT = 64
# Characters of a name that a message repeats.


def with_folder_name(draft: Draft, folder: str) -> Draft:
    """Return the draft with `folder` as the skill's name if its name is faulty and the folder's is valid."""
    fault = _name_fault(draft, folder)
    if fault is None or not is_folder_name(folder):
        return draft
    if "name" in draft.document().fields:
        return _with_replaced_name(draft, folder, fault)
    return _with_added_name(draft, folder, fault)


def _name_fault(draft: Draft, folder: str) -> Reason | None:
    """Return what is wrong with the skill's name; None if nothing is."""
    document = draft.document()
    _, diagnostics = parse_frontmatter(document, folder, "")
    codes = {diagnostic.code for diagnostic in diagnostics}
    fault = next((reason for reason in _NAME_FAULTS if reason in codes), None)
    if fault is None and "name" in unquoted_fields(document):
        return Reason.INVALID_FIELD
    return fault


def _with_added_name(draft: Draft, folder: str, fault: Reason) -> Draft:
    """Insert a name as the first field, which moves all earlier fixes in the frontmatter down by a line."""
    moved = tuple(replace(fix, line=fix.line + (fix.line > 1)) for fix in draft.fixes)
    fix = Fix(fault, f"added the folder's name, {folder!r}", 2)
    yaml = f"name: {_yaml_string(folder)}{draft.line_end}{draft.yaml}"
    edited = replace(draft, fixes=moved).edited(yaml, {**draft.document().fields, "name": folder}, fix)
    return edited if fix in edited.fixes else draft


def _with_replaced_name(draft: Draft, folder: str, fault: Reason) -> Draft:
    """Replace the value of the field `name`, unless that would lose a comment."""
    document = draft.document()
    place = read_layout(draft.yaml).get("name")
    if place is None or place.value is None:
        return draft
    written = place.value.of(draft.yaml)
    if _is_block_with_comment(written):
        return draft
    # A block value includes the line breaks at its end, and an empty value may directly follow the colon.
    line_breaks = written[len(written.rstrip()) :]
    is_separated = written.strip() or draft.yaml[: place.value.start].endswith((" ", "\t"))
    value = f"{'' if is_separated else ' '}{_yaml_string(folder)}{line_breaks}"
    front, _ = parse_frontmatter(document, folder, "")
    old = f", not {front.name[:_MAX_EXCERPT]!r}" if front.name else ""
    fix = Fix(fault, f"set the name to the folder's, {folder!r}{old}", draft.line(place.value.start))
    return draft.edited(place.value.replaced(draft.yaml, value), {**document.fields, "name": folder}, fix)


def _is_block_with_comment(written: str) -> bool:
    """Tell whether a value is a block scalar with a comment behind its indicator: `| # the name`."""
    return written[:1] in {"|", ">"} and "#" in written.partition("\n")[0]


def _yaml_string(name: str) -> str:
    """Write a valid name as YAML, quoted if some parser would read it as a number, a date or a special word."""
    plain = name[0].isalpha() and name.lower() not in _YAML_WORDS
    return name if plain else json.dumps(name, ensure_ascii=False)
