"""Instructions in disguise: spelled letter by letter, split by markup, written as escapes, or encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.audit.context import severity_at
from skills_core.audit.finding import Severity
from skills_core.audit.patterns import shown
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.rules.injection import says_override, says_secret_harm
from skills_core.audit.search import is_found
from skills_core.audit.skill.disguises import encoded_texts, marked_up_texts, shifted_texts, spelled_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_SPELLED_OVERRIDE = (
    r"(?:ignore|disregard|forget|override|discard)(?:all|any|every|the|of|these|those|each|your|my|everything){0,4}"
    r"(?:previous|prior|earlier|above|preceding|existing|original|other|current|system|safety|security|developer|user){1,2}"
    r"(?:instruction|rule|prompt|guideline|direction|constraint|guardrail|polic|restriction)"
)


def _disguised(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if file.is_script and not skill.is_main(file):
            continue
        seen: set[int] = set()
        for start, how, text in _instructions(file):
            line = file.place_of(start)[0]
            if line not in seen:
                seen.add(line)
                severity = severity_at(skill, file, start, Severity.ERROR)
                yield Hit(file, f"an instruction is hidden by {how}: {shown(text)}", start, severity)


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
    """Return the paragraph at a position as a reader takes it: what stands there openly is no disguise."""
    prose = file.prose
    stop = prose.find("\n\n", start)
    return prose[
        max(prose.rfind("\n\n", 0, start), start - 4000, 0) : min(stop if stop >= 0 else len(prose), start + 4000)
    ]


RULES = (
    Rule(
        "disguised-instruction",
        Severity.ERROR,
        "Instruction in disguise",
        "A model reads spelled, split and encoded words that reviewers and filters pass over.",
        "Write the sentence in plain words, or remove it.",
        _disguised,
        8.5,
    ),
)
