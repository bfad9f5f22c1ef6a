"""Fix mechanical faults of a SKILL.md: bytes in, fixed bytes and a list of fixes out.

Only the frontmatter is edited, in one place at a time. Each edit is parsed again and discarded unless the result has
the same fields apart from the fix. The body is never changed, nor is a file whose frontmatter cannot be parsed at all.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.authoring.draft import Draft, Fix, split_draft
from skills_core.authoring.name_fix import with_folder_name
from skills_core.authoring.typos import misspelt_fields
from skills_core.diagnostics import Reason, Severity
from skills_core.format.document import BOM, Document, repair
from skills_core.format.frontmatter import parse_frontmatter, unquoted_fields
from skills_core.format.hidden import find_hidden, without_hidden
from skills_core.format.layout import read_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.format.yaml12 import JsonValue

__all__ = ["Fix", "FixResult", "fix_main"]

_MAX_ROUNDS = 10
# A person fixes what is left after so many rounds: removing hidden characters may turn others into hidden ones.

_MAX_EXCERPT = 64
# Characters of a field's name that a message repeats.


@dataclass(frozen=True, slots=True)
class FixResult:
    """The fixed bytes of a SKILL.md and the applied fixes; the original bytes if there are none."""

    raw: bytes
    fixes: tuple[Fix, ...] = ()


def fix_main(raw: bytes, folder: str) -> FixResult:
    """Fix the bytes of a SKILL.md; `folder` is the name of the skill's folder.

    Fixes, in this order: a byte order mark, fences of stars, text on the line of the closing fence, hidden characters
    in the frontmatter, values that are not YAML, misspelt fields, a name that is missing or breaks a rule while the
    folder's name does not, and values that need quotes.
    """
    content = raw
    while content.startswith(BOM):
        content = content.removeprefix(BOM)
    try:
        draft = split_draft(content.decode("utf-8"))
    except UnicodeDecodeError:
        return FixResult(raw)
    if draft is None:
        return FixResult(raw)
    if content != raw:
        draft = replace(draft, fixes=(Fix(Reason.HIDDEN_CHARACTERS, "removed the byte order mark", 1),))
    draft = _with_dashes(draft)
    glued, draft = _is_fence_glued(draft), _with_separate_fence(draft)
    for _ in range(_MAX_ROUNDS):
        before, draft = draft.yaml, _fixed_once(draft, folder)
        if draft.yaml == before:
            break
    if draft.document().fault is not None:
        return FixResult(raw)
    if glued:
        line = draft.line(len(draft.yaml)) + 1
        draft = replace(draft, fixes=(*draft.fixes, Fix(Reason.YAML_REPAIRED, "ended the line of the '---'", line)))
    fixes = tuple(sorted(draft.fixes, key=lambda fix: fix.line))
    return FixResult(draft.raw, fixes) if fixes else FixResult(raw)


def _fixed_once(draft: Draft, folder: str) -> Draft:
    """Apply each step once; one fix may make another possible, so the caller repeats this."""
    draft = _with_valid_yaml(_without_hidden(draft))
    document = draft.document()
    if document.fault is not None or _is_repaired(document):
        return draft
    return _with_valid_values(_with_corrected_fields(draft, folder), folder)


def _with_valid_values(draft: Draft, folder: str) -> Draft:
    return _with_quotes(with_folder_name(draft, folder))


def _is_repaired(document: Document) -> bool:
    return any(found.code is Reason.YAML_REPAIRED for found in document.diagnostics)


def _with_dashes(draft: Draft) -> Draft:
    """Replace fences of stars by fences of dashes, unless a line of the frontmatter would then end it."""
    if draft.fences is None or not draft.fences.stars:
        return draft
    head, tail = draft.head.replace("***", "---", 1), draft.tail.replace("***", "---", 1)
    fix = Fix(Reason.STAR_FENCES, "wrote the fences as '---'", 1)
    fixed = replace(draft, head=head, tail=tail, fixes=(*draft.fixes, fix))
    before, after = draft.document(), fixed.document()
    return fixed if (after.fields, after.body) == (before.fields, before.body) else draft


def _is_fence_glued(draft: Draft) -> bool:
    return draft.fences is not None and draft.fences.glued


def _with_separate_fence(draft: Draft) -> Draft:
    """Move text that follows the closing fence to a line of its own."""
    if not _is_fence_glued(draft):
        return draft
    return replace(draft, tail=draft.tail.replace("---", f"---{draft.line_end}", 1))


def _without_hidden(draft: Draft) -> Draft:
    """Remove invisible characters from the frontmatter. Escapes are visible, so a person decides on them."""
    yaml, first = draft.yaml, find_hidden(draft.yaml)
    if not first:
        return draft
    for _ in range(_MAX_ROUNDS):
        yaml = without_hidden(yaml)
    if find_hidden(yaml):
        return draft
    before = draft.document()
    removed = Counter(draft.yaml) - Counter(yaml)
    fix = Fix(Reason.HIDDEN_CHARACTERS, f"removed hidden characters ({removed.total()})", first[0].line + 1)
    after = draft.edited(yaml, None, fix)
    parsed = before.fault is None and not _is_repaired(before)
    if parsed and _text_without(removed, before) != _text_without(removed, after.document()):
        return draft
    # The author has to rewrite a description of nothing but hidden characters.
    return after if _has_description(after) or not _has_description(draft) else draft


def _has_description(draft: Draft) -> bool:
    return bool(str(draft.document().fields.get("description") or "").strip())


def _text_without(removed: Mapping[str, int], document: Document) -> str:
    """Return all fields as one text, without the removed characters."""
    return json.dumps(dict(document.fields), ensure_ascii=False).translate(dict.fromkeys(map(ord, removed)))


def _with_valid_yaml(draft: Draft) -> Draft:
    """Rewrite values that only our parser accepts, by repair, so that every YAML parser reads them alike."""
    document = draft.document()
    if not _is_repaired(document):
        return draft
    repaired = repair(draft.yaml)
    if repaired is None:
        return draft
    fixes = (
        Fix(Reason.YAML_REPAIRED, f"wrote the value of {key[:_MAX_EXCERPT]!r} as YAML", line + 1)
        for key, line in repaired.entries
    )
    moved = tuple(
        replace(fix, line=repaired.new_lines[fix.line - 2] + 1) if fix.line > 1 else fix for fix in draft.fixes
    )
    after = replace(draft, fixes=moved).edited(repaired.text, document.fields, *fixes)
    return after if after.yaml == repaired.text else draft


def _with_corrected_fields(draft: Draft, folder: str) -> Draft:
    """Rename misspelt fields, except where the value would be invalid in the known field."""
    for wrong, right in misspelt_fields(draft.document().fields).items():
        place = read_layout(draft.yaml).get(wrong)
        if place is None or place.key is None:
            continue
        written = place.key.of(draft.yaml)
        quote = written[:1] if written[:1] in {"'", '"'} else ""
        fields = {right if key == wrong else key: value for key, value in draft.document().fields.items()}
        line = draft.line(place.key.start)
        fix = Fix(Reason.UNKNOWN_FIELD, f"renamed the field {wrong[:_MAX_EXCERPT]!r} to {right!r}", line)
        after = draft.edited(place.key.replaced(draft.yaml, f"{quote}{right}{quote}"), fields, fix)
        if not _faults(_with_valid_values(after, folder), folder) - _faults(_with_valid_values(draft, folder), folder):
            draft = after
    return draft


def _faults(draft: Draft, folder: str) -> Counter[Reason]:
    document = draft.document()
    _, found = parse_frontmatter(document, folder, "")
    breaches = (each for each in (*document.diagnostics, *found) if each.severity is not Severity.INFO)
    return Counter(each.code for each in breaches)


def _with_quotes(draft: Draft) -> Draft:
    """Quote numbers and booleans in fields that take strings, spelled as they were."""
    for path in unquoted_fields(draft.document()):
        place = read_layout(draft.yaml).get(path)
        if place is None or place.value is None or not place.plain:
            continue
        written = place.value.of(draft.yaml)
        expected = _with_value(draft.document().fields, path, written)
        fix = Fix(Reason.INVALID_FIELD, f"put the value of {path!r} in quotes", draft.line(place.value.start))
        draft = draft.edited(place.value.replaced(draft.yaml, f'"{written}"'), expected, fix)
    return draft


def _with_value(fields: Mapping[str, JsonValue], path: str, value: str) -> Mapping[str, JsonValue]:
    """Return a copy of `fields` with another value at `path`, such as `metadata.tags[0].name`, which exists."""
    copy: dict[str, JsonValue] = json.loads(json.dumps(fields))
    *parents, last = path.replace("]", "").replace("[", ".").split(".")
    within: JsonValue = copy
    for step in parents:
        within = within[int(step)] if isinstance(within, list) else within[step] if isinstance(within, dict) else None
    if isinstance(within, dict):
        within[last] = value
    return copy
