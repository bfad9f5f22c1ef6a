"""Mend what is mechanical in a SKILL.md: bytes in, bytes and what was done out.

Only the frontmatter is edited, one place at a time, so that comments, order, line ends and every other byte stay. Each
edit is read again and dropped where the result is not what was there before with that one thing mended. The body is
never touched, nor is a file whose frontmatter cannot be read at all.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.authoring.typos import meant_fields
from skills_core.diagnostics import Reason
from skills_core.format.document import BOM, Document, Fences, find_fences, parse_document
from skills_core.format.frontmatter import is_folder_name, parse_frontmatter, unquoted_fields
from skills_core.format.hidden import find_hidden, without_hidden
from skills_core.format.layout import read_layout
from skills_core.format.repair import repair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.format.yaml12 import JsonValue

__all__ = ["Fix", "Fixed", "fix_main"]

_ROUNDS = 10
# What is not done after so many rounds is left to a person: removing hidden characters may make others count as such.

_SHOWN = 64
# Characters of a name that a message repeats.

_NAME_FAULTS = (Reason.MISSING_NAME, Reason.NAME_MISMATCH, Reason.INVALID_NAME, Reason.NAME_TOO_LONG)

_NO_STRINGS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
# What some parser of YAML 1.1 or 1.2 reads as no string, where it begins with a letter and has no special character.


@dataclass(frozen=True, slots=True)
class Fix:
    """One thing that was mended: the reason of its diagnostic, what was done, and the line in the mended file."""

    code: Reason
    message: str
    line: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """The bytes of a SKILL.md after mending, and what was done; the same bytes where that is nothing."""

    raw: bytes
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class _Draft:
    """A SKILL.md on the way: its text up to the frontmatter, the frontmatter, and all that follows."""

    head: str
    yaml: str
    tail: str
    fixes: tuple[Fix, ...] = ()

    @property
    def raw(self) -> bytes:
        return f"{self.head}{self.yaml}{self.tail}".encode()

    def document(self) -> Document:
        return parse_document(self.raw, "")

    def line(self, position: int) -> int:
        """Return the line in the file of a position in the frontmatter."""
        return self.yaml.count("\n", 0, position) + 2

    def edited(self, yaml: str, expected: Mapping[str, JsonValue] | None, *fixes: Fix) -> _Draft:
        """Return the draft with another frontmatter, or as it is where that does not say what is expected.

        `expected` is None where the frontmatter before could not be read, so that any that can be is better.
        """
        draft = replace(self, yaml=yaml, fixes=(*self.fixes, *fixes))
        document = draft.document()
        same_place = _cut(draft.raw.decode()) == replace(draft, fixes=())
        fits = document.fields == expected if expected is not None else document.fault is None
        return draft if same_place and fits else self


def fix_main(raw: bytes, folder: str) -> Fixed:
    """Mend the bytes of a SKILL.md; `folder` is the name of the skill's folder.

    Mends, in this order: a byte order mark, text on the line of the closing fence, hidden characters in the
    frontmatter, values that are no YAML, misspelt fields, a name that is missing or breaks a rule where the folder's
    name does not, and values that need quotes.
    """
    fixes: tuple[Fix, ...] = ()
    content = raw
    while content.startswith(BOM):
        content = content.removeprefix(BOM)
        fixes = (Fix(Reason.HIDDEN_CHARACTERS, "removed the byte order mark", 1),)
    try:
        draft = _cut(content.decode("utf-8"))
    except UnicodeDecodeError:
        return Fixed(raw)
    if draft is None:
        return Fixed(raw)
    glued, draft = _is_glued(draft), _with_own_fence(replace(draft, fixes=fixes))
    for _ in range(_ROUNDS):
        before, draft = draft.yaml, _mended(draft, folder)
        if draft.yaml == before:
            break
    if draft.document().fault is not None:
        return Fixed(raw)
    if glued:
        line = draft.line(len(draft.yaml)) + 1
        draft = replace(draft, fixes=(*draft.fixes, Fix(Reason.YAML_REPAIRED, "ended the line of the '---'", line)))
    fixes = tuple(sorted(draft.fixes, key=lambda fix: fix.line))
    return Fixed(draft.raw, fixes) if fixes else Fixed(raw)


def _mended(draft: _Draft, folder: str) -> _Draft:
    """Take each step once; what one step mends may let another do more."""
    draft = _as_yaml(_without_hidden(draft))
    document = draft.document()
    if document.fault is not None or _is_repaired(document):
        return draft
    return _finished(_with_meant_fields(draft, folder), folder)


def _is_repaired(document: Document) -> bool:
    return any(found.code is Reason.YAML_REPAIRED for found in document.diagnostics)


def _cut(text: str) -> _Draft | None:
    fences = find_fences(text)
    if not isinstance(fences, Fences):
        return None
    return _Draft(text[: fences.start], text[fences.start : fences.end], text[fences.end :])


def _is_glued(draft: _Draft) -> bool:
    fences = find_fences(draft.raw.decode())
    return isinstance(fences, Fences) and fences.glued


def _with_own_fence(draft: _Draft) -> _Draft:
    """Let the closing fence stand alone on its line."""
    if not _is_glued(draft):
        return draft
    line_end = "\r\n" if draft.head.endswith("\r\n") else "\n"
    return replace(draft, tail=draft.tail.replace("---", f"---{line_end}", 1))


def _without_hidden(draft: _Draft) -> _Draft:
    """Remove from the frontmatter what nobody sees. Escapes can be seen, and so are left to a person."""
    yaml, first = draft.yaml, find_hidden(draft.yaml)
    if not first:
        return draft
    for _ in range(_ROUNDS):
        yaml = without_hidden(yaml)
    if find_hidden(yaml):
        return draft
    before = draft.document()
    removed = Counter(draft.yaml) - Counter(yaml)
    fix = Fix(Reason.HIDDEN_CHARACTERS, f"removed hidden characters ({removed.total()})", first[0].line + 1)
    after = draft.edited(yaml, None, fix)
    read = before.fault is None and not _is_repaired(before)
    if read and _bare(before, removed) != _bare(after.document(), removed):
        return draft
    # A description of nothing else is a matter for its author.
    return after if _has_description(after) or not _has_description(draft) else draft


def _has_description(draft: _Draft) -> bool:
    return bool(str(draft.document().fields.get("description") or "").strip())


def _bare(document: Document, removed: Mapping[str, int]) -> str:
    """Return all that the frontmatter says as one text, without any of the characters that were removed."""
    return json.dumps(dict(document.fields), ensure_ascii=False).translate(dict.fromkeys(map(ord, removed)))


def _as_yaml(draft: _Draft) -> _Draft:
    """Write what is no YAML, and is read as it was meant all the same, so that every parser reads it."""
    document = draft.document()
    if not _is_repaired(document):
        return draft
    mended = repair(draft.yaml)
    if mended is None:
        return draft
    fixes = (
        Fix(Reason.YAML_REPAIRED, f"wrote the value of {key[:_SHOWN]!r} as YAML", line + 1)
        for key, line in mended.mended
    )
    moved = tuple(replace(fix, line=mended.moved[fix.line - 2] + 1) if fix.line > 1 else fix for fix in draft.fixes)
    after = replace(draft, fixes=moved).edited(mended.text, document.fields, *fixes)
    return after if after.yaml == mended.text else draft


def _with_meant_fields(draft: _Draft, folder: str) -> _Draft:
    """Rename misspelt fields, each unless the value is not what the known field takes."""
    for wrong, right in meant_fields(draft.document().fields).items():
        place = read_layout(draft.yaml).get(wrong)
        if place is None or place.key is None:
            continue
        written = place.key.of(draft.yaml)
        quote = written[:1] if written[:1] in {"'", '"'} else ""
        fields = {right if key == wrong else key: value for key, value in draft.document().fields.items()}
        line = draft.line(place.key.start)
        fix = Fix(Reason.UNKNOWN_FIELD, f"renamed the field {wrong[:_SHOWN]!r} to {right!r}", line)
        after = draft.edited(place.key.replaced(draft.yaml, f"{quote}{right}{quote}"), fields, fix)
        if not _breaches(_finished(after, folder), folder) - _breaches(_finished(draft, folder), folder):
            draft = after
    return draft


def _breaches(draft: _Draft, folder: str) -> Counter[Reason]:
    document = draft.document()
    _, found = parse_frontmatter(document, folder, "")
    return Counter(each.code for each in (*document.diagnostics, *found))


def _finished(draft: _Draft, folder: str) -> _Draft:
    return _with_quotes(_with_name(draft, folder))


def _with_name(draft: _Draft, folder: str) -> _Draft:
    """Give the skill the name of its folder where its own breaks a rule, and the folder's does not."""
    document = draft.document()
    front, found = parse_frontmatter(document, folder, "")
    codes = {each.code for each in found}
    code = next((reason for reason in _NAME_FAULTS if reason in codes), None)
    if code is None and "name" in unquoted_fields(document):
        code = Reason.INVALID_FIELD
    if code is None or not is_folder_name(folder):
        return draft
    fields = {**document.fields, "name": folder}
    if "name" not in document.fields:
        line_end = "\r\n" if draft.head.endswith("\r\n") else "\n"
        moved = tuple(replace(fix, line=fix.line + (fix.line > 1)) for fix in draft.fixes)
        added = Fix(code, f"added the folder's name, {folder!r}", 2)
        edited = replace(draft, fixes=moved).edited(f"name: {_scalar(folder)}{line_end}{draft.yaml}", fields, added)
        return edited if added in edited.fixes else draft
    place = read_layout(draft.yaml).get("name")
    if place is None or place.value is None:
        return draft
    written = place.value.of(draft.yaml)
    # A block ends in line breaks that belong to it, and a comment may stand where it begins.
    kept = written[len(written.rstrip()) :]
    gap = "" if written.strip() or draft.yaml[: place.value.start].endswith((" ", "\t")) else " "
    if written[:1] in {"|", ">"} and "#" in written.partition("\n")[0]:
        return draft
    was = f", not {front.name[:_SHOWN]!r}" if front.name else ""
    fix = Fix(code, f"set the name to the folder's, {folder!r}{was}", draft.line(place.value.start))
    return draft.edited(place.value.replaced(draft.yaml, f"{gap}{_scalar(folder)}{kept}"), fields, fix)


def _scalar(name: str) -> str:
    """Write a valid name as YAML, in quotes where some parser would read a number, a date or a word with a meaning."""
    plain = name[0].isalpha() and name.lower() not in _NO_STRINGS
    return name if plain else json.dumps(name, ensure_ascii=False)


def _with_quotes(draft: _Draft) -> _Draft:
    """Put values in quotes, as they were written, that are to be strings and are numbers or booleans without them."""
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
    """Return a copy of `fields` with another value at `path`, which is there."""
    copy: dict[str, JsonValue] = json.loads(json.dumps(fields))
    *above, last = path.replace("]", "").replace("[", ".").split(".")
    within: JsonValue = copy
    for step in above:
        within = within[int(step)] if isinstance(within, list) else within[step] if isinstance(within, dict) else None
    if isinstance(within, dict):
        within[last] = value
    return copy
