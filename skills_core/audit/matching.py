"""Matches in text: tables of patterns, and how the place of a match changes its severity.

Documentation and negation lower a severity, and nothing removes a match. A model follows what SKILL.md says, so
documentation lowers nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from skills_core.audit.findings import Hit, Severity
from skills_core.audit.search import SearchedText, find, is_found
from skills_core.diagnostics import shortened

if TYPE_CHECKING:
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


_LINE = 2000
# Characters of a line before a hit that may open a code span or a quote.

_SENTENCE = 160
# Characters before a hit that may negate it.

_NEGATION = (
    r"\b(?:never|(?:do|does|must|should|shall|may|can|will|would|is|are)(?: not|n't)|cannot|dont|avoid"
    r"|refuse to|forbid(?:s|den)?"
    r"|block(?:s|ed)?|den(?:y|ies|ied)|reject(?:s|ed)?|prevent(?:s|ed)?|instead of|rather than"
    r"|not allowed|prohibited)\b"
)
_DOUBLE = (
    r"(?:forget|hesitate|fail|omit|skip|neglect|stop|refrain|mention|tell|warn|ask|wait)\b"
    r"|[;,:]\s*(?:just|then|but|simply|instead)\b"
)
# What turns a negation round: "never forget to".

_AROUND = 200
# Characters on each side of a hit that say what it is.

_ATTACK = (
    r"\b(?:attack(?:s|ers?|er's)?|adversar(?:y|ial|ies)|exploit(?:s|ed|able|ation)?|injections?|malicious|hostile"
    r"|payloads?|exfiltrat\w+|vulnerab\w+|untrusted|dangerous)\b"
)
_INERT = rf"{_ATTACK}|\b(?:inert|as data|are data|is data|not (?:as )?(?:instructions|commands))\b"
_QUOTES = {'"': '"', "\u201c": "\u201d"}
_TAG = r"^<[^<>`\n]{1,60}>`"

_COMMENT = ("#", "//", "*", "--", "REM ", '"""')


def severity_at(skill: SkillUnderAudit, file: AuditedFile, start: int, severity: Severity) -> Severity:
    """Return the severity of a hit at a position of a file."""
    return Severity.NOTE if is_negated(file, start) else demoted_in_documentation(skill, file, start, severity)


def hit_at(skill: SkillUnderAudit, file: AuditedFile, start: int, message: str, severity: Severity) -> Hit:
    """Return a hit at a position of a file, with the severity that it has there."""
    return Hit(file, message, start, severity_at(skill, file, start, severity))


def first_in_lines(hits: Iterable[Hit]) -> Iterator[Hit]:
    """Yield the hits with a position, of several in one line the first."""
    seen: set[tuple[str, int]] = set()
    for hit in hits:
        line = hit.file.path, hit.file.place_of(hit.start or 0)[0]
        if line not in seen:
            seen.add(line)
            yield hit


def demoted_in_documentation(skill: SkillUnderAudit, file: AuditedFile, start: int, severity: Severity) -> Severity:
    """Return the severity of a hit at a position, whether or not its sentence is negated."""
    if skill.is_main(file) or not (file.is_eval or _is_documentation(file, start)):
        return severity
    is_shown = is_quoted_data(file, start) or _is_named_tag(file, start) or describes_attack(file, start)
    return Severity.NOTE if is_shown else severity.demoted


def is_quoted_data(file: AuditedFile, start: int) -> bool:
    """Tell whether a quote begins at a position, and the text around it calls it data or an attack."""
    return _is_quoted(file, start) and _is_called(_INERT, file, start)


def describes_attack(file: AuditedFile, start: int) -> bool:
    """Tell whether the text around a position says that it is about an attack."""
    return _is_called(_ATTACK, file, start)


def is_negated(file: AuditedFile, start: int) -> bool:
    """Tell whether the sentence says not to do what begins at `start`."""
    before = file.prose[max(0, start - _SENTENCE) : start]
    sentence = before[max(before.rfind(end) + 1 for end in ("\n", ". ", "! ", "? ", "; ")) :]
    return is_found(_NEGATION, sentence) and not is_found(_DOUBLE, sentence)


def _is_called(what: str, file: AuditedFile, start: int) -> bool:
    """Tell whether the pattern `what` matches near a position, within its paragraph."""
    text = file.text or ""
    before, after = text[max(0, start - _AROUND) : start], text[start : start + _AROUND]
    return is_found(what, before.rpartition("\n\n")[2] + after.partition("\n\n")[0])


def _is_quoted(file: AuditedFile, start: int) -> bool:
    """Tell whether a quote begins right before a position and ends in the same line."""
    text = file.text or ""
    closing = _QUOTES.get(text[start - 1]) if start else None
    return closing is not None and closing in text[start : start + _AROUND].partition("\n")[0]


def _is_named_tag(file: AuditedFile, start: int) -> bool:
    """Tell whether a code span has a tag and nothing else: it names the tag."""
    text = file.text or ""
    return start > 0 and text[start - 1] == "`" and is_found(_TAG, text[start : start + _AROUND])


def _is_documentation(file: AuditedFile, start: int) -> bool:
    """Tell whether a position is in an example or a quote of a Markdown file, or in a comment of a script."""
    line = file.line_at(start).lstrip()
    if file.is_markdown:
        text = file.text or ""
        in_fence = not text[start].isspace() and file.unfenced[start].isspace()
        before = text[max(file.start_of(file.place_of(start)[0]), start - _LINE) : start]
        return in_fence or line.startswith((">", "|")) or before.count("`") % 2 == 1 or before.count('"') % 2 == 1
    return file.is_script and line.startswith(_COMMENT)


_SHOWN = 100

_DECLARED = r"^(?:danger_patterns|confirm_patterns)[ \t]*:"
# Fields of the frontmatter with patterns to stop commands.


class TextPattern(NamedTuple):
    """A pattern in the syntax of RE2, and what a match means; the message stands before the matched text.

    `severity` replaces that of the rule.
    """

    pattern: str
    message: str
    severity: Severity = Severity.ERROR


def search_for(
    patterns: Sequence[TextPattern],
    view: Callable[[SkillUnderAudit, AuditedFile], str],
) -> Callable[[SkillUnderAudit], Iterator[Hit]]:
    """Return the check of a rule that looks for patterns in a view of each text; places found twice count once."""
    sought = tuple(pattern.pattern for pattern in patterns)

    def matches(skill: SkillUnderAudit) -> Iterator[Hit]:
        for file in skill.texts:
            text = view(skill, file)
            if isinstance(text, SearchedText) and text.excludes(sought):
                continue
            for pattern in patterns:
                for found in find(pattern.pattern, text) if text else ():
                    start = found.start + len(found.text) - len(found.text.lstrip())
                    message = f"{pattern.message}: {shown(found.text)}"
                    yield hit_at(skill, file, start, message, pattern.severity)

    return lambda skill: first_in_lines(matches(skill))


def prose_of(_: SkillUnderAudit, file: AuditedFile) -> str:
    """Return the view of a file as a reader takes it."""
    return file.prose


def commands_of(skill: SkillUnderAudit, file: AuditedFile) -> str:
    """Return the view of a file with whole commands, without the fields that have patterns to stop commands."""
    text: str = file.commands
    if not skill.is_main(file):
        return text
    head = text[: skill.body_start]
    for found in find(_DECLARED, head):
        end = next((each.start for each in find(r"^[^\s#-]", head[found.end :])), len(head) - found.end) + found.end
        text = text[: found.start] + _blank(text[found.start : end]) + text[end:]
    return text


def shown(text: str) -> str:
    """Return a matched text for a message: one line, not long."""
    return repr(shortened(" ".join(text.split()), _SHOWN))


def _blank(text: str) -> str:
    return "".join(char if char == "\n" else " " for char in text)
