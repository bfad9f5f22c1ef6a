"""Descriptions: what decides whether a model loads the skill, and so must say what it does and when to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.search import find, is_found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["RULES"]

_CATCH_ALL = (
    r"\b(?:always|must(?: always)?)\s+(?:use|load|invoke|activate|call|run|apply)\b[^.]{0,60}\b(?:any"
    r"|every|all|first|before (?:anything|any|every)|no matter)\b"
    r"|\b(?:use|load|invoke|activate|call|apply|relevant|useful|works)\b[^.]{0,40}\b(?:for|on|with|to|in"
    r"|at)\s+(?:any|every|all)\s+(?:\w+\s+){0,1}(?:tasks?|requests?|questions?|messages?|prompts?"
    r"|quer(?:y|ies)|conversations?|sessions?|situations?|purposes?|things?|user input)\b"
    r"|\b(?:for|with|about)\s+(?:everything|anything)\b(?:\s*[.!,]|\s*$|\s+(?:the user|you))"
    r"|\bregardless of (?:the |what |which )?(?:\w+\s+)?(?:task|topic|request|question|user)\b"
    r"|\b(?:before|instead of)\s+(?:using\s+)?(?:any|every|all)\s+other\s+(?:skills?|tools?)\b"
    r"|\boverrides? (?:all )?other skills\b"
)

_WHEN = (
    r"\b(?:when(?:ever)?|if|while|before|after|during|upon|once|trigger(?:s|ed)?|for (?:tasks?|questions?"
    r"|requests?|queries|work|cases|projects|files|users|creating|writing|building|working)"
    r"|asks?|asked|wants?|needs?|requests?|mentions?|use (?:this|it|for|to|in|with|on|as)|used (?:for|to"
    r"|by)|useful (?:for|in)|suitable for|applies to|intended for|designed for|invoke)\b"
)

_VAGUE = (
    r"^(?:this skill\s+|a skill (?:that|for|to)\s+|skill (?:for|to)\s+)?(?:helps?|assists?|deals?|works?"
    r"|handles?|manages?|supports?|does|processes|tools?|utilit(?:y|ies)|helpers?|stuff|things"
    r"|functions)\b[^.,;:]{0,48}[.!]?\s*$"
)
_FEW_WORDS = 6


def _place_of(skill: SkillUnderAudit) -> int:
    text = (skill.main.text or "")[: skill.body_start] if skill.main is not None else ""
    return next((found.start for found in find(r"^description[ \t]*:", text)), 0)


def _catch_all(skill: SkillUnderAudit) -> Iterator[Hit]:
    if skill.main is not None:
        for found in find(_CATCH_ALL, _description_of(skill)):
            yield Hit(skill.main, f"the description claims every task: {found.text.strip()!r}", _place_of(skill))
            return


def _without_when(skill: SkillUnderAudit) -> Iterator[Hit]:
    front = skill.frontmatter
    described = _description_of(skill)
    if skill.main is None or not described or not front.model_invocable or front.always_on:
        return
    if front.when_to_use or front.triggers or is_found(_WHEN, described):
        return
    yield Hit(skill.main, "the description does not say when to use the skill", _place_of(skill))


def _vague(skill: SkillUnderAudit) -> Iterator[Hit]:
    described = _description_of(skill)
    if skill.main is None or not described:
        return
    if len(described.split()) < _FEW_WORDS or is_found(_VAGUE, described):
        message = f"the description {described[:60]!r} is vague: it does not tell this skill from others"
        yield Hit(skill.main, message, _place_of(skill))


def _description_of(skill: SkillUnderAudit) -> str:
    return " ".join(skill.frontmatter.description.split()) if skill.instructions.fault is None else ""


_FIX = (
    "Say in one or two sentences what the skill does and when to use it: name the tasks, file types and words that"
    " users say."
)

RULES = (
    Rule(
        "catch-all-description",
        Severity.WARNING,
        "Description that claims every task",
        "A model loads the skill for tasks that it does not serve, in place of skills that do.",
        "Name the tasks that the skill serves, and no others.",
        _catch_all,
        5.0,
    ),
    Rule(
        "description-without-when",
        Severity.WARNING,
        "Description without when",
        "A model decides by the description alone; without a condition it loads the skill rarely, or at random.",
        _FIX,
        _without_when,
    ),
    Rule(
        "vague-description",
        Severity.WARNING,
        "Vague description",
        "A description such as “Helps with PDFs.” matches no request in particular.",
        _FIX,
        _vague,
    ),
)
