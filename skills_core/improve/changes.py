"""Check what a change of an improvement does: whether it stays within the bounds, and whether it only corrects.

The bounds are the wording of one skill's texts, and nothing else. The model that wrote the change has read the errors
of tools, which may be hostile. So the rules hold whatever it was told: no file comes or goes, programs and frontmatter
stay as they are, and nothing is hidden from the person who reads the diff. What a change within the bounds may say,
that person decides, unless all of it is a correction.

Corrections need no person: the name of a tool, the target of a link, and typing errors. The rule is a list of what is
allowed, because no list of what is dangerous is complete. Both texts are cut into tokens. They must have the same
tokens in the same places, except for tokens that were replaced by one of a closed set: the names of the tools that a
run has, the paths of the skill's own texts, and a list of English words. So a correction cannot add, remove or move a
word, a character or a line.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

from skills_core.audit.engine import MARK
from skills_core.authoring.fixes import DescriptionError, split_draft, with_description
from skills_core.diagnostics import one_line
from skills_core.evals.proposals import split_lines
from skills_core.format.document import BOM, parse_document
from skills_core.format.instructions import CONVENTIONS
from skills_core.improve.improvement import ImprovementReason, ImprovementRefusal
from skills_core.mentions.markdown import without_fences
from skills_core.mentions.tools import purposes_of
from skills_core.texts import find_hidden

if TYPE_CHECKING:
    from skills_core.guard.tool import Tool


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
) -> ImprovementRefusal | None:
    """Return why a change is out of bounds, None if it is within them.

    `before` and `after` are the files of the skill by path. `main` is the path of its SKILL.md. `links` are the paths
    of links, devices and other entries of `after` that are neither files nor folders.
    """
    return next(_refusals(before, after, main, links), None)


def _refusals(
    before: Mapping[str, bytes], after: Mapping[str, bytes], main: str, links: frozenset[str]
) -> Iterator[ImprovementRefusal]:
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
        yield ImprovementRefusal(ImprovementReason.NOTHING_CHANGED, "the model changed no file")


def _not_a_text(path: str, main: str, before: Mapping[str, bytes]) -> Iterator[ImprovementRefusal]:
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


def _not_utf8(path: str, before: bytes, after: bytes) -> Iterator[ImprovementRefusal]:
    for raw in (before, after):
        try:
            if "\0" in raw.decode("utf-8"):
                yield _refuse(ImprovementReason.NOT_A_TEXT, path, "it is not a text")
        except UnicodeDecodeError:
            yield _refuse(ImprovementReason.NOT_A_TEXT, path, "it is not UTF-8")


def _frontmatter(text: ChangedText) -> Iterator[ImprovementRefusal]:
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


def _sizes(texts: tuple[ChangedText, ...]) -> Iterator[ImprovementRefusal]:
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
        yield ImprovementRefusal(ImprovementReason.TOO_LARGE, message)


def _contents(text: ChangedText) -> Iterator[ImprovementRefusal]:
    if MARK in text.added:
        yield _refuse(ImprovementReason.SUPPRESSION_ADDED, text.path, "it would switch off a rule of the audit")
    if hidden := find_hidden(text.added.removeprefix("\ufeff")):
        yield _refuse(ImprovementReason.HIDDEN_TEXT, text.path, f"it contains {hidden[0]}")


def _refuse(reason: ImprovementReason, path: str, why: str) -> ImprovementRefusal:
    return ImprovementRefusal(reason, f"{one_line(path)[:200]}: {why}")


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


class CorrectionKind(StrEnum):
    """What a correction replaces; the values are part of the contract."""

    TOOL_NAME = "tool_name"
    LINK = "link"
    TYPING_ERROR = "typing_error"


_KINDS: Final = {
    CorrectionKind.TOOL_NAME: "Name of a tool",
    CorrectionKind.LINK: "Target of a link",
    CorrectionKind.TYPING_ERROR: "Typing error",
}


@dataclass(frozen=True, slots=True)
class Correction:
    """One replaced token: `line` is counted from 1 in the file at `path`."""

    kind: CorrectionKind
    path: str
    line: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RunTools:
    """The tools of the failed run: those that it had, and the names that it called although no such tool exists."""

    offered: Sequence[Tool]
    missing: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class _Place:
    """A replaced token, in the body as it was and in the body as it is now."""

    body: str
    prose: str
    old: _Token
    new: str
    is_link: bool


_TOKEN: Final = re.compile(
    r"(?<=\]\()[A-Za-z0-9_./-]+(?:\#[A-Za-z0-9_-]+)?(?=\)) | [A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)* | .",
    re.VERBOSE | re.DOTALL,
)
# The target of a link without a title, an address or escapes; a word or an identifier; any other single character.

_LINKED_TEXTS: Final = (".md", ".markdown", ".txt")
_BEFORE_WORD: Final = frozenset(" \t\n(*")
_AFTER_WORD: Final = frozenset(" \t\r\n,;.!?)*")
_BLANK: Final = frozenset(" \t\r\n")
# Without quotes: what is quoted may be meant letter by letter.


def corrections_of(
    before: Mapping[str, bytes], after: Mapping[str, bytes], main: str, tools: RunTools
) -> tuple[Correction, ...] | None:
    """Return what a change corrects, None if it does anything else too and a person has to look at it.

    Both sets of files must have passed `bounds.refusal_of`. `main` is the path of the SKILL.md.
    """
    found: list[Correction] = []
    for text in changed_texts(before, after):
        corrections = _corrections(text, before, after, main, tools)
        if corrections is None:
            return None
        found += corrections
    return tuple(found)


def describe_corrections(corrections: Sequence[Correction]) -> str:
    """Return the message of a commit with corrections: what was replaced where."""
    return "; ".join(
        f"{_KINDS[each.kind]} in {each.path}, line {each.line}: {each.old} is now {each.new}" for each in corrections
    )


def describe_change(texts: Sequence[ChangedText]) -> str:
    """Return the message of a commit with any other change: which lines of which files differ."""
    return "; ".join(f"{text.path}: {_described_lines(text)}" for text in texts)


def _described_lines(text: ChangedText) -> str:
    old, new = split_lines(text.before), split_lines(text.after)
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed = [(one, two, three, four) for tag, one, two, three, four in codes if tag != "equal"]
    removed = sum(end - start for start, end, _, _ in changed)
    added = sum(end - start for _, _, start, end in changed)
    first, last = min(one for one, _, _, _ in changed) + 1, max(max(two, one + 1) for one, two, _, _ in changed)
    return f"lines {first} to {last}, {removed} removed and {added} added"


def _corrections(
    text: ChangedText, before: Mapping[str, bytes], after: Mapping[str, bytes], main: str, tools: RunTools
) -> list[Correction] | None:
    head, old, new = _bodies(text, main)
    if old is None:
        return None
    was, now = list(_tokens(old)), list(_tokens(new))
    if len(was) != len(now):
        return None
    prose, found = without_fences(old), []
    for one, other in zip(was, now, strict=True):
        if one.text == other.text:
            continue
        is_link = old[one.start - 2 : one.start] == "](" and old[one.end : one.end + 1] == ")"
        place = _Place(old, prose, one, other.text, is_link)
        kind = _kind(place, new, text.path, before, after, tools)
        if kind is None:
            return None
        line = (head + old[: one.start]).count("\n") + 1
        found.append(Correction(kind, text.path, line, one.text, other.text))
    return found


def _bodies(text: ChangedText, main: str) -> tuple[str, str | None, str]:
    """Return what precedes the body, the old body or None if anything else has changed, and the new body."""
    if text.path != main:
        return "", text.before, text.after
    drafts = [split_draft(each.removeprefix("\ufeff")) for each in (text.before, text.after)]
    old, new = ("" if draft is None else draft.tail for draft in drafts)
    head, now = text.before.removesuffix(old), text.after.removesuffix(new)
    return head, old if None not in drafts and head == now else None, new


def _tokens(text: str) -> Iterator[_Token]:
    return (_Token(match[0], match.start()) for match in _TOKEN.finditer(text))


def _kind(
    place: _Place,
    new_body: str,
    path: str,
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    tools: RunTools,
) -> CorrectionKind | None:
    if not _is_prose(place):
        return None
    if place.is_link:
        is_shown = _backticks(place) % 2 == 0
        return CorrectionKind.LINK if is_shown and _is_corrected_link(place, path, before) else None
    if _is_renamed_tool(place, tools):
        # A name that a prohibition and an instruction share must not be replaced in one of them alone.
        left = {token.text for token in _tokens(new_body)}
        return CorrectionKind.TOOL_NAME if place.old.text not in left else None
    if is_typing_error(place.old.text, place.new) and _is_free_word(place):
        # What stands elsewhere too, in code or as the name of a file, may be meant as it is.
        return CorrectionKind.TYPING_ERROR if not _occurs(place.old.text, after) else None
    return None


def _is_prose(place: _Place) -> bool:
    """Tell whether a token stands outside of code blocks and of lines with HTML."""
    start = place.body.rfind("\n", 0, place.old.start) + 1
    end = place.body.find("\n", place.old.end)
    line = place.body[start : len(place.body) if end < 0 else end]
    is_fenced = place.prose[place.old.start : place.old.end] != place.old.text
    return not is_fenced and not line.startswith(("    ", "\t")) and "<" not in line


def _is_corrected_link(place: _Place, path: str, files: Mapping[str, bytes]) -> bool:
    """Tell whether a link that leads nowhere now leads to the only text of the skill with that file name."""
    target, _, part = place.old.text.partition("#")
    wanted, _, new_part = place.new.partition("#")
    if part != new_part or ".." in wanted.split("/") or wanted.startswith("/"):
        return False
    folder = posixpath.dirname(path)
    found = [posixpath.normpath(posixpath.join(base, wanted)) for base in {"", folder}]
    reached = next((each for each in found if each in files), None)
    if reached is None or any(posixpath.normpath(posixpath.join(base, target)) in files for base in {"", folder}):
        return False
    name = posixpath.basename(target).casefold()
    same = [each for each in files if posixpath.basename(each).casefold() == name]
    return same == [reached] and reached.lower().endswith(_LINKED_TEXTS)


def _is_renamed_tool(place: _Place, tools: RunTools) -> bool:
    """Tell whether a name that no tool has was replaced by that of a tool which does the same."""
    old = place.old.text
    is_known = any(tool.name == old for tool in tools.offered)
    if is_known or old not in tools.missing or not _names_a_tool(place):
        return False
    return any(tool.name == place.new and _is_same_tool(old, tool) for tool in tools.offered)


def _is_same_tool(name: str, tool: Tool) -> bool:
    """Tell whether a name is another spelling of a tool's name, or that of the same tool on another host."""
    known = frozenset(purposes_of(name))
    if known:
        return known <= tool.role.purposes
    return name in tool.role.aliases or _spelled(name) == _spelled(tool.name)


def _spelled(name: str) -> str:
    return re.sub(r"[._-]", "", name).casefold()


def _names_a_tool(place: _Place) -> bool:
    """Tell whether a token is a whole code span, is called in one, or cannot be a word of a language."""
    text, old = place.body, place.old
    before, after = text[old.start - 1 : old.start], text[old.end : old.end + 1]
    if before == "`":
        return text[old.start - 2 : old.start - 1] != "`" and after in {"`", "("} and _backticks(place) % 2 == 1
    is_identifier = "_" in old.text or old.text[1:] != old.text[1:].lower()
    return is_identifier and _is_free_word(place)


def _is_free_word(place: _Place) -> bool:
    """Tell whether a token is a word of a sentence: not part of a path, an expression, or a code span."""
    text, old = place.body, place.old
    before, after = text[max(old.start - 1, 0) : old.start] or "\n", text[old.end : old.end + 1] or "\n"
    if after == "." and text[old.end + 1 : old.end + 2] not in {*_BLANK, "", ")", "*"}:
        return False
    return before in _BEFORE_WORD and after in _AFTER_WORD and _backticks(place) % 2 == 0


def _backticks(place: _Place) -> int:
    """Count the backticks before a token in its paragraph; a code span ends with the paragraph at the latest."""
    start = max(place.body.rfind("\n\n", 0, place.old.start), 0)
    return place.body.count("`", start, place.old.start)


def _occurs(word: str, files: Mapping[str, bytes]) -> bool:
    wanted = re.compile(rb"(?<![A-Za-z])" + word.encode() + rb"(?![A-Za-z])", re.IGNORECASE)
    return any(
        wanted.search(path.encode("utf-8", "surrogateescape")) or wanted.search(raw) for path, raw in files.items()
    )


def is_typing_error(old: str, new: str) -> bool:
    """Tell whether `old` is a known misspelling of the English word `new`.

    Each misspelling in the list is not a word of its own, and is close to one word only, so that a correction cannot
    turn "prevent" into "present", or "must ask" into "must act". With a capital, it may be a name.
    """
    return _misspellings().get(old) == new


@cache
def _misspellings() -> Mapping[str, str]:
    """Return each misspelling with its word."""
    pairs = _PAIRS.split()
    found = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return found | {wrong: word for word in _WORDS.split() for wrong in _mistyped(word)}


def _mistyped(word: str) -> frozenset[str]:
    """Return a word with one letter doubled or left out, or two swapped; its first and last letters stay."""
    inner = range(1, len(word) - 1)
    doubled = {word[:at] + word[at] + word[at:] for at in inner}
    missing = {word[:at] + word[at + 1 :] for at in inner}
    swapped = {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in inner[:-1]}
    return frozenset(doubled | missing | swapped) - {word}


_WORDS: Final = """
accessibility appropriate architecture assistant attention authorization background boilerplate capability category
compatibility component comprehensive configuration credentials customization demonstrate deployment determine
development distinguish documentation environment equivalent essential explanation filename framework guidance helpful
highlight identifier implementation including individual infrastructure initialize introduction javascript knowledge
maintenance management markdown metadata necessary observation occurred optimization organization otherwise paragraph
parameter performance placeholder presentation relationship repository responsibility screenshot software specification
spreadsheet straightforward subdirectory successful technique terminology themselves timestamp tutorial vocabulary
workflow worksheet
"""
# Words whose mistyped forms are not words of English, French, German, Spanish, Portuguese, Italian or Dutch, nor one
# letter away from another common English word. That was checked with the word lists of pyspellchecker 0.9.

_PAIRS: Final = """
teh the taht that thier their whcih which recieve receive recieved received seperate separate seperately separately
occured occurred occurence occurrence definately definitely enviroment environment succesful successful neccessary
necessary adress address refered referred begining beginning lenght length widht width heigth height direcotry directory
fodler folder retrun return funtion function fucntion function arguement argument comand command exmaple example
folowing following follwing following becuase because beacuse because betwen between diffrent different diferent
different existance existence independant independent langauge language libary library proccess process reponse response
responce response reuslt result similiar similar strucutre structure sytem system tempalte template udpate update
ouput output ouptut output inital initial intial initial
"""
# Common misspellings that the rule for words does not cover; none is a word of these languages.
