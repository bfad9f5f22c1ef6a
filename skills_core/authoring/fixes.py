"""Edits of a SKILL.md: fixes of mechanical faults, and another description. Bytes in, bytes out.

Only the frontmatter is edited, in one place at a time. Each edit is parsed again and discarded unless the result has
the same fields apart from the edit. All other bytes, such as comments, line ends and the body, stay as they are, and a
file whose frontmatter cannot be parsed at all is not changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from skills_core.diagnostics import MAX_PER_REASON, Diagnostic, Reason, Severity, capped, printable
from skills_core.errors import SkillsError
from skills_core.format.document import BOM, Document, Fences, find_fences, parse_document, read_layout, repair
from skills_core.format.frontmatter import (
    DESCRIPTION_LIMIT,
    is_folder_name,
    parse_frontmatter,
    similar_fields,
    unknown_fields,
    unquoted_fields,
)
from skills_core.mentions.paths import mentioned_paths
from skills_core.texts import find_hidden, without_hidden

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue
    from skills_core.skills.skill import Skill


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


_SHORT, _LONG = 5, 8
# From these lengths on, one or two letters may be wrong: `mode` is not a typo of `model`, nor `stage` of `tags`.

_SHOWN = 200
# Characters of a path or name in a message.


def misspelt_fields(fields: Mapping[str, object]) -> dict[str, str]:
    """Return the intended field for each misspelt one.

    A field is misspelt if exactly one known field is similar, differs only by a typo, is not present, and is not the
    intended field of another. With more than 20 unknown fields none is misspelt: they belong to some other format.
    """
    unknown = unknown_fields(fields)
    if len(unknown) > MAX_PER_REASON:
        return {}
    similar = {key: similar_fields(key) for key in unknown}
    meant = {key: names[0] for key, names in similar.items() if len(names) == 1 and _is_typo(key, names[0])}
    times = Counter(meant.values())
    return {key: name for key, name in meant.items() if name not in fields and times[name] == 1}


def respelled_paths(skill: Skill) -> tuple[Diagnostic, ...]:
    """Return a warning for each path that the body or a tool spells in another case than the file of the skill.

    The server finds such files; hosts that read a folder themselves do so only where the file system ignores case.
    """
    main = skill.content.main
    if main is None:
        return ()
    shown = printable(f"{skill.source.root}/{skill.within_source(main.path)}")
    return capped(
        Diagnostic(
            Severity.WARNING,
            Reason.PATH_CASE,
            f"{who} names {written[:_SHOWN]!r}, but the file is {path[:_SHOWN]!r}",
            shown,
        )
        for who, written, path in dict.fromkeys(_respelled(skill))
    )


def _respelled(skill: Skill) -> Iterator[tuple[str, str, str]]:
    """Yield who names a file in another case, as it is written there, and as it is spelled."""
    names = {skill.name, skill.content.folder.rpartition("/")[2]} - {""}
    for mention in mentioned_paths(skill.body, skill.content.files.keys(), names).respelled:
        yield "the body", mention.written, mention.path
    for tool in skill.frontmatter.tools:
        written = (tool.script or "").removeprefix("./")
        file = skill.content.file(written)
        if file is not None and file.path != written:
            yield f"the tool {tool.name[:_SHOWN]!r}", written, file.path


def _is_typo(key: str, name: str) -> bool:
    """Tell whether `key` is `name` with other case, hyphens or letter order, or with one or two wrong letters."""
    if key.lower().startswith(("x-", "x_")):
        return False  # a custom field by convention
    wrong, right = _normalized(key), _normalized(name)
    if wrong.removesuffix("s") == right.removesuffix("s") and wrong != right:
        return False  # singular and plural differ in meaning
    if sorted(wrong) == sorted(right):
        return True
    allowed = (len(key) >= _SHORT) + (len(key) >= _LONG)
    steps = SequenceMatcher(None, wrong, right, autojunk=False).get_opcodes()
    changed = sum(max(end - start, to - at) for tag, start, end, at, to in steps if tag != "equal")
    return changed <= allowed


def _normalized(key: str) -> str:
    return key[:100].casefold().replace("-", "").replace("_", "")


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


_MAX_ROUNDS = 10
# A person fixes what is left after so many rounds: removing hidden characters may turn others into hidden ones.


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
