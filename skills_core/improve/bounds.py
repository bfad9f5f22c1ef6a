"""Check that a change stays within the bounds of an improvement: the wording of one skill's texts, and nothing else.

The model that wrote the change has read the errors of tools, which may be hostile. So the rules hold whatever it was
told: no file comes or goes, programs and frontmatter stay as they are, and nothing is hidden from the person who reads
the diff. What a change within the bounds may say, that person decides, unless `corrections` recognizes all of it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.audit.engine import MARK
from skills_core.authoring.draft import DescriptionError, split_draft, with_description
from skills_core.diagnostics import one_line
from skills_core.evals.proposals.unified_diff import split_lines
from skills_core.format.document import BOM, parse_document
from skills_core.format.instructions import CONVENTIONS
from skills_core.improve.reasons import ImprovementReason, Refusal
from skills_core.texts import find_hidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


MAX_LINES: Final = 60
"""Lines that an improvement may add and remove in all files together."""

MAX_SHARE: Final = 0.5
"""Share of the lines of a file that may be removed; a few lines may always be."""

_FEW_LINES: Final = 6
_MAX_ADDED: Final = 4000
_MAX_DESCRIPTION_SHARE: Final = 0.3
_TEXTS: Final = (".md", ".markdown")
_REFERENCES: Final = ("references/", "reference/", "docs/")
# Where a `.txt` file is a text to read; elsewhere it may be the input of a program, as `requirements.txt` is.

_MAIN_FILE: Final = "skill.md"
_MAX_COPIED: Final = 60
"""Characters in a row that a new line may share with the record of a run: the name of a tool, a short message."""


@dataclass(frozen=True, slots=True)
class ChangedText:
    """One changed file, with its path in the skill."""

    path: str
    before: str
    after: str

    @property
    def added(self) -> str:
        """The lines that are new."""
        known = frozenset(split_lines(self.before))
        return "".join(line for line in split_lines(self.after) if line not in known)


def changed_texts(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[ChangedText, ...]:
    """Return the changed files; both sets must have passed `refusal_of`."""
    return tuple(
        ChangedText(path, before[path].decode("utf-8"), after[path].decode("utf-8"))
        for path in sorted(before)
        if before[path] != after[path]
    )


def refusal_of(
    before: Mapping[str, bytes], after: Mapping[str, bytes], main: str, links: frozenset[str] = frozenset()
) -> Refusal | None:
    """Return why a change is out of bounds, None if it is within them.

    `before` and `after` are the files of the skill by path. `main` is the path of its SKILL.md. `links` are the paths
    of links, devices and other entries of `after` that are neither files nor folders.
    """
    return next(_refusals(before, after, main, links), None)


def _refusals(
    before: Mapping[str, bytes], after: Mapping[str, bytes], main: str, links: frozenset[str]
) -> Iterator[Refusal]:
    for path in sorted(links):
        yield _refuse(ImprovementReason.LINK, path, "it is a link or another special file")
    for path in sorted(after.keys() - before.keys()):
        yield _refuse(ImprovementReason.FILE_ADDED, path, "an improvement adds no file")
    for path in sorted(before.keys() - after.keys()):
        yield _refuse(ImprovementReason.FILE_REMOVED, path, "an improvement removes no file")
    changed = [path for path in sorted(before) if before[path] != after.get(path)]
    for path in changed:
        yield from _not_a_text(path, main, before)
        yield from _not_utf8(path, before[path], after[path])
    texts = changed_texts(before, after)
    for text in texts:
        if text.path == main:
            yield from _frontmatter(text)
    yield from _sizes(texts)
    for text in texts:
        yield from _contents(text)
    if not texts:
        yield Refusal(ImprovementReason.NOTHING_CHANGED, "the model changed no file")


def _not_a_text(path: str, main: str, before: Mapping[str, bytes]) -> Iterator[Refusal]:
    name = _name(path)
    is_reference = name.endswith(".txt") and path.startswith(_REFERENCES) and not name.startswith("requirements")
    if not name.endswith(_TEXTS) and not is_reference:
        yield _refuse(ImprovementReason.NOT_A_TEXT, path, "an improvement changes only the texts of this skill")
    inner = {each.rpartition("/")[0] for each in before if each != main and _name(each) == _MAIN_FILE}
    if path != main and (name.upper() in CONVENTIONS or name == _MAIN_FILE or inner & {*_folders(path)}):
        yield _refuse(ImprovementReason.OTHER_SKILL, path, "it belongs to another skill")


def _name(path: str) -> str:
    return path.rpartition("/")[2].lower()


def _folders(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _not_utf8(path: str, before: bytes, after: bytes) -> Iterator[Refusal]:
    for raw in (before, after):
        try:
            if "\0" in raw.decode("utf-8"):
                yield _refuse(ImprovementReason.NOT_A_TEXT, path, "it is no text")
        except UnicodeDecodeError:
            yield _refuse(ImprovementReason.NOT_A_TEXT, path, "it is not UTF-8")


def _frontmatter(text: ChangedText) -> Iterator[Refusal]:
    old, new = split_draft(text.before.removeprefix("\ufeff")), split_draft(text.after.removeprefix("\ufeff"))
    same_mark = text.before.startswith("\ufeff") == text.after.startswith("\ufeff")
    if same_mark and old is not None and new is not None and (old.head, old.yaml) == (new.head, new.yaml):
        return
    fields = parse_document(text.after.encode(), "").fields
    known = parse_document(text.before.encode(), "").fields
    if fields.get("name") != known.get("name"):
        yield _refuse(ImprovementReason.NAME_CHANGED, text.path, "the name must stay")
    description, earlier = fields.get("description"), known.get("description")
    if not isinstance(description, str) or not isinstance(earlier, str) or not _only_description(text, description):
        why = "of the frontmatter, only the description may change"
        yield _refuse(ImprovementReason.FRONTMATTER_CHANGED, text.path, why)
        return
    ratio = difflib.SequenceMatcher(None, earlier, description, autojunk=False).ratio()
    if ratio < 1 - _MAX_DESCRIPTION_SHARE or len(description) > len(earlier) * (1 + _MAX_DESCRIPTION_SHARE):
        why = "the description may only be corrected: it says when the skill is used"
        yield _refuse(ImprovementReason.DESCRIPTION_CHANGED, text.path, why)


def _only_description(text: ChangedText, description: str) -> bool:
    """Tell whether the frontmatter is that of before, byte by byte, but for the value of the description."""
    try:
        wanted = with_description(text.before.encode(), description)
        now = with_description(text.after.encode(), description)
    except DescriptionError:
        return False
    expected, found = (split_draft(raw.removeprefix(BOM).decode()) for raw in (wanted, now))
    if expected is None or found is None or wanted.startswith(BOM) != now.startswith(BOM):
        return False
    return (expected.head, expected.yaml) == (found.head, found.yaml)


def _sizes(texts: tuple[ChangedText, ...]) -> Iterator[Refusal]:
    lines = characters = 0
    for text in texts:
        old, new = split_lines(text.before), split_lines(text.after)
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        changes = [each for each in matcher.get_opcodes() if each[0] != "equal"]
        removed = sum(end - start for _, start, end, _, _ in changes)
        lines += removed + sum(end - start for _, _, _, start, end in changes)
        characters += len(text.added)
        if removed > max(_FEW_LINES, len(old) * MAX_SHARE):
            why = f"{removed} of {len(old)} lines would be replaced"
            yield _refuse(ImprovementReason.TOO_LARGE, text.path, why)
    if lines > MAX_LINES or characters > _MAX_ADDED:
        limits = f"the limits are {MAX_LINES} lines and {_MAX_ADDED} new characters"
        message = f"{lines} lines would change, with {characters} new characters; {limits}"
        yield Refusal(ImprovementReason.TOO_LARGE, message)


def _contents(text: ChangedText) -> Iterator[Refusal]:
    if MARK in text.added:
        yield _refuse(ImprovementReason.SUPPRESSION_ADDED, text.path, "it would switch off a rule of the audit")
    if hidden := find_hidden(text.added.removeprefix("\ufeff")):
        yield _refuse(ImprovementReason.HIDDEN_TEXT, text.path, f"it contains {hidden[0]}")


def _refuse(reason: ImprovementReason, path: str, why: str) -> Refusal:
    return Refusal(reason, f"{one_line(path)[:200]}: {why}")


def repeats_record(added: str, whole: str, record: Iterable[str]) -> bool:
    """Tell whether new lines repeat a long piece of the texts of a record.

    The texts may hold what no reader of the skill should see. What the skill said before is not counted.
    """
    new, known = _plain(added), _plain(whole)
    pieces = {new[place : place + _MAX_COPIED] for place in range(len(new) - _MAX_COPIED + 1)}
    for text in record:
        plain = _plain(text)
        for place in range(len(plain) - _MAX_COPIED + 1):
            piece = plain[place : place + _MAX_COPIED]
            if piece in pieces and piece not in known:
                return True
    return False


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
