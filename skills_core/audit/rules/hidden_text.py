"""Text that a reviewer does not see and a model reads: hidden characters, comments, padding, and disguises.

A disguise is text that is spelled letter by letter, split by markup, written as escapes, or encoded.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import first_in_lines, hit_at, shown
from skills_core.audit.rules.injection import says_override, says_secret_harm
from skills_core.audit.search import find, is_found, plain_prose
from skills_core.diagnostics import Reason
from skills_core.texts import find_hidden

if TYPE_CHECKING:
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


_BOM = "\ufeff"
_SPLIT_WORD = re.compile("[A-Za-z][\u00ad\u200b-\u200d\u2060-\u2064\ufeff][A-Za-z]")
_OVERRIDE = re.compile("[\u202d\u202e\u2066-\u2069]")
_MANY = 8
# Zero-width characters in one file from which they count as a code, not as an accident of copying.

_HARMLESS_KINDS = frozenset({"zero-width characters", "text direction marks", "control characters"})

_LINK_COMMENT = r"^\[[^\]\n]{0,40}\]:[ \t]*#[ \t]+[(\"'][^\n]+"
# A link definition without a use, which a rendered page does not show.

_MAX_COMMENTS = 200
_TEMPLATES = ("assets/", "templates/")
_FEW_WORDS = 5
# With its marks, a comment of fewer words is a label.

_DIRECTIVE = (
    r"\b(?:you (?:must|should|shall|need to|have to|are)|ignore|disregard|override|secretly|silently"
    r"|do not (?:tell|show|ask))\b"
    r"|(?:^|[.:;(]\s*|then\s+|also\s+|please\s+|always\s+|<!--\s*)(?:run|execute|send|upload|fetch|download|read"
    r"|delete|install|call|invoke|post|curl|wget|activate|write|add|append|include|open)\b"
    r"|https?://|\b(?:assistant|agent|model|claude|gpt|ai)\b[:,]"
)
_TOOL_COMMENT = (
    r"^<!--\s*(?:skillserve-audit|prettier|markdownlint|eslint|vale|cspell|textlint|toc|tocstop|todo|fixme|license"
    r"|copyright|spdx|doctoc|all-contributors|omit|more|lint|rumdl|begin|end|/?snippet)"
)

_PADDING = r"\n(?:[ \t\r]*\n){40}[\s]*\S|[ \t]{200}[ \t]*[^ \t\r\n]"


def _hidden(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        for each in find_hidden(file.path):
            yield Hit(file, f"the name of the file has {each}", severity=Severity.ERROR)
        text = file.text
        for each in find_hidden((text or "").removeprefix(_BOM)):
            start = (text or "").find(each.first, max(file.start_of(each.line), int(each.first == _BOM)))
            severity = _severity_of(file, each.kind, each.count)
            yield Hit(file, f"{each}: invisible to people, but read by models", start, severity, evidence=each.kind)
    yield from _escaped(skill)


def _severity_of(file: AuditedFile, kind: str, count: int) -> Severity:
    """Return an error for what carries or disguises text, a warning for what copying leaves behind."""
    text = file.text or ""
    if kind == "text direction marks" and _OVERRIDE.search(text):
        return Severity.ERROR
    if kind == "zero-width characters" and (count >= _MANY or _SPLIT_WORD.search(text)):
        return Severity.ERROR
    return Severity.WARNING if kind in _HARMLESS_KINDS else Severity.ERROR


def _escaped(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Find hidden characters that the frontmatter writes as escapes."""
    for each in skill.instructions.diagnostics:
        if each.code is Reason.HIDDEN_CHARACTERS and each.message.endswith("escapes") and skill.main is not None:
            yield Hit(skill.main, each.message, skill.main.start_of(each.line or 1))


def _comments(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if not file.is_markdown or file.is_eval:
            continue
        for start, comment in (*_html_comments(file.unfenced), *_link_comments(file.unfenced)):
            words = len(comment.split())
            if words >= _FEW_WORDS and is_found(_DIRECTIVE, comment) and not is_found(_TOOL_COMMENT, comment):
                message = f"a comment that people do not see, but models read, has an instruction: {shown(comment)}"
                # In a template, comments tell how to fill it, and the reader of the template is meant to see them.
                severity = Severity.NOTE if file.path.startswith(_TEMPLATES) else None
                yield Hit(file, message, start, severity)


def _html_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first comments of a text with their positions; an unclosed one extends to the end."""
    start = text.find("<!--")
    for _ in range(_MAX_COMMENTS):
        if start < 0:
            return
        end = text.find("-->", start + 4)
        end = len(text) if end < 0 else end + 3
        yield start, text[start:end]
        start = text.find("<!--", end)


def _link_comments(text: str) -> Iterator[tuple[int, str]]:
    for found in find(_LINK_COMMENT, text if "]:" in text else ""):
        yield found.start, found.text


def _padding(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if not (file.is_markdown or file.is_script):
            continue
        for found in find(_PADDING, file.text or ""):
            message = "text follows a long empty space, where a reviewer does not expect it"
            yield Hit(file, message, found.end - 1)


_MAX_ENCODED = 16 * 1024
# Characters of one encoded text that are decoded.

_MAX_PARAGRAPH = 4000
# Characters of one paragraph that are read without its markup.

_SPELLED = r"(?:^|[^\w])\w(?:[ \t\n._*~|/\-\x{a0}\x{2000}-\x{200b}\x{3000}]{1,3}\w){9,}(?:[^\w]|$)"
_NO_LETTER = re.compile(r"[\W_]+")

_IN_WORD = (
    r"&(?:#[0-9]{2,7}|#x[0-9a-f]{2,6}|nbsp|shy|zwnj|zwj|tab|newline);|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|\w</?\w{1,12}|<[/]tspan>"
    r"|\w<!--|[a-z](?:\*{1,3}|~~|`)[a-z]|[a-z]-\n[ \t]*[a-z]|[\x{ad}\x{200b}-\x{200d}\x{2060}\x{feff}]"
)
_TAG = re.compile(r"<!--.{0,400}?-->|</?[a-zA-Z][^<>\n]{0,200}>", re.DOTALL)
_MARKS = re.compile("[*~`\u00ad\u200b-\u200d\u2060\ufeff]|(?<=[a-zA-Z])-\n[ \t]*|\\\\(?=\n)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")

_BASE64 = r"[A-Za-z0-9+/_\-]{24,}={0,2}"
_HEX = r"\b(?:0x)?(?:[0-9a-f]{2}[ :]?){16,}|(?:\\x[0-9a-f]{2}){12,}|(?:%[0-9a-f]{2}){12,}"
_NO_HEX = re.compile(r"\\x|0x|[^0-9a-fA-F]")

_SHIFTED = r"^.*\b(?:vtaber|qvfertneq|sbetrg|bireevqr|frpergyl|fvyragyl|pbairefngvba|perqragvnyf)\b.*$"
_REVERSED = r"^.*\b(?:erongi|dragersid|tegrof|edirrevo|yltneliS|snoitcurtsni)\b.*$"


class Reveal(NamedTuple):
    """What a disguise at a position says, and how it is disguised."""

    start: int
    how: str
    text: str


def spelled_texts(text: str) -> Iterator[Reveal]:
    """Yield words whose letters stand apart, as lower-case letters without the space between words."""
    for found in find(_SPELLED, text):
        start = found.start + (not found.text[:1].isalnum())
        yield Reveal(start, "letters that stand apart", _NO_LETTER.sub("", found.text).lower())


def marked_up_texts(text: str) -> Iterator[Reveal]:
    """Yield the paragraphs with marks inside of words, without markup, entities, escapes and hyphens at line ends."""
    end = 0
    for found in find(_IN_WORD, text):
        if found.start < end:
            continue
        start = max(
            text.rfind("\n\n", 0, found.start) + 2 if "\n\n" in text[: end + 1] else end, end, found.start - 400
        )
        stop = text.find("\n\n", found.end)
        end = min(stop if stop >= 0 else len(text), found.end + _MAX_PARAGRAPH)
        yield Reveal(found.start, "markup or escapes inside words", _without_marks(text[start:end]))


def _without_marks(text: str) -> str:
    text = _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text)
    text = html.unescape(_TAG.sub("", text))
    return plain_prose(_MARKS.sub("", text)).replace("\u00a0", " ")


def encoded_texts(text: str) -> Iterator[Reveal]:
    """Yield what base64 and hexadecimal numbers in a text say, where that is readable."""
    for found in find(_BASE64, text):
        word = found.text[:_MAX_ENCODED].rstrip("=").replace("-", "+").replace("_", "/")
        word = word[: len(word) - (len(word) % 4 == 1)]
        try:
            raw = base64.b64decode(word + "=" * (-len(word) % 4))
        except (binascii.Error, ValueError):
            continue
        yield from _readable(found.start, "base64", raw)
    for found in find(_HEX, text):
        digits = _NO_HEX.sub("", found.text[:_MAX_ENCODED])
        yield from _readable(found.start, "hexadecimal numbers", bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _readable(start: int, how: str, raw: bytes) -> Iterator[Reveal]:
    try:
        decoded = raw.decode("utf-8")
    except UnicodeDecodeError:
        return
    if "\0" not in decoded:
        yield Reveal(start, how, plain_prose(decoded))


def shifted_texts(text: str) -> Iterator[Reveal]:
    """Yield the lines that hold a telling word in ROT13 or backwards, as they read."""
    for found in find(_SHIFTED, text):
        yield Reveal(found.start, "ROT13", codecs.decode(found.text, "rot13"))
    for found in find(_REVERSED, text):
        yield Reveal(found.start, "reversed letters", found.text[::-1])


_SPELLED_OVERRIDE = (
    r"(?:ignore|disregard|forget|override|discard)(?:all|any|every|the|of|these|those|each|your|my|everything){0,4}"
    r"(?:previous|prior|earlier|above|preceding|existing|original|other|current|system|safety|security|developer|user){1,2}"
    r"(?:instruction|rule|prompt|guideline|direction|constraint|guardrail|polic|restriction)"
)


def _disguised(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.documents:
        for start, how, text in _instructions(file):
            message = f"an instruction is hidden by {how}: {shown(text)}"
            yield hit_at(skill, file, start, message, Severity.ERROR)


def _instructions(file: AuditedFile) -> Iterator[tuple[int, str, str]]:
    text = file.text or ""
    for each in spelled_texts(text):
        if is_found(_SPELLED_OVERRIDE, each.text):
            yield each
    for each in marked_up_texts(text):
        if says_override(each.text) and not says_override(_around(file, each.start)):
            yield each
    for each in (*encoded_texts(text), *shifted_texts(text)):
        if says_override(each.text) or says_secret_harm(each.text):
            yield each


def _around(file: AuditedFile, start: int) -> str:
    """Return the paragraph at a position as a reader takes it: what stands there openly is not disguised."""
    prose = file.prose
    stop = prose.find("\n\n", start)
    return prose[
        max(prose.rfind("\n\n", 0, start), start - 4000, 0) : min(stop if stop >= 0 else len(prose), start + 4000)
    ]


RULES = (
    Rule(
        "hidden-characters",
        Severity.ERROR,
        "Hidden characters",
        "Tag characters, zero-width characters, variation selectors and direction overrides carry instructions that"
        " people do not see and models read.",
        "Remove the characters; write those that a program needs as escapes.",
        _hidden,
        8.0,
    ),
    Rule(
        "html-comment",
        Severity.WARNING,
        "Instruction in a comment",
        "A rendered page hides comments from a reviewer, while the model reads them.",
        "Write the instruction in the open, or remove it.",
        _comments,
        5.5,
    ),
    Rule(
        "padding",
        Severity.WARNING,
        "Text behind padding",
        "Many blank lines or blanks push text out of a reviewer's view.",
        "Remove the blank space.",
        _padding,
        5.0,
    ),
    Rule(
        "disguised-instruction",
        Severity.ERROR,
        "Instruction in disguise",
        "A model reads spelled, split and encoded words that reviewers and filters pass over.",
        "Write the sentence in plain words, or remove it.",
        lambda skill: first_in_lines(_disguised(skill)),
        8.5,
    ),
)
