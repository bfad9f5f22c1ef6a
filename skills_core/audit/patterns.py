"""Rules that are tables of patterns: each pattern with what its match means."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skills_core.audit.context import severity_at
from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit
from skills_core.audit.search import SearchedText, find
from skills_core.diagnostics import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["Pattern", "commands_of", "prose_of", "search_for", "shown"]

_SHOWN = 100

_DECLARED = r"^(?:danger_patterns|confirm_patterns)[ \t]*:"
# Fields of the frontmatter with patterns to stop commands.


class Pattern(NamedTuple):
    """A pattern in the syntax of RE2, and what a match means; the message stands before the matched text.

    `severity` replaces that of the rule.
    """

    pattern: str
    message: str
    severity: Severity = Severity.ERROR


def search_for(
    patterns: Sequence[Pattern],
    view: Callable[[SkillUnderAudit, AuditedFile], str],
) -> Callable[[SkillUnderAudit], Iterator[Hit]]:
    """Return the check of a rule that looks for patterns in a view of each text; places found twice count once."""
    sought = tuple(pattern.pattern for pattern in patterns)

    def check(skill: SkillUnderAudit) -> Iterator[Hit]:
        for file in skill.texts:
            text = view(skill, file)
            if isinstance(text, SearchedText) and text.excludes(sought):
                continue
            seen: set[int] = set()
            for pattern in patterns:
                for found in find(pattern.pattern, text) if text else ():
                    start = found.start + len(found.text) - len(found.text.lstrip())
                    line = file.place_of(start)[0]
                    if line not in seen:
                        seen.add(line)
                        severity = severity_at(skill, file, start, pattern.severity)
                        yield Hit(file, f"{pattern.message}: {shown(found.text)}", start, severity)

    return check


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
