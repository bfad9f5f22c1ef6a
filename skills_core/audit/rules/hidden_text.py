"""Text that a reviewer does not see and a model reads: hidden characters, HTML comments, padding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.patterns import shown
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.search import find, is_found
from skills_core.diagnostics import Reason
from skills_core.format.hidden import find_hidden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_BOM = "\ufeff"
_SPLIT_WORD = re.compile("[A-Za-z][\u00ad\u200b-\u200d\u2060-\u2064\ufeff][A-Za-z]")
_OVERRIDE = re.compile("[\u202d\u202e\u2066-\u2069]")
_ENCODED = 8
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
    if kind == "zero-width characters" and (count >= _ENCODED or _SPLIT_WORD.search(text)):
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
)
