"""Put the best skill for a user's message before it, as a block of text between marks that a skill cannot forge.

Source: adk-skill.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from skills_core.diagnostics import one_line
from skills_core.rendering.escaping import escape_line, escape_tags_and_marks, quote_attribute
from skills_core.selection.policy import Match, SelectionPolicy
from skills_core.selection.ranking import SkillIndex, SkillSearch

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill


Ranking: TypeAlias = Callable[[str, SelectionPolicy], Sequence[Match]]
"""A function that returns the best matches for a query, best first."""

logger = logging.getLogger(__name__)

MAX_INJECTED_CHARS = 2000
"""Default maximum code points of a body that are injected."""

_POLICY = SelectionPolicy()


def by_shared_words(skills: Iterable[Skill]) -> Ranking:
    """Return adk-skill's ranking of the active ones of `skills` that models may choose."""
    return SkillIndex().extended(_offered(skills)).select


def by_full_text(skills: Iterable[Skill]) -> Ranking:
    """Return the default ranking of the active ones of `skills` that models may choose."""
    offered, search = _offered(skills), SkillSearch()
    return lambda query, policy: search.select(offered, query, policy)


def _offered(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    return tuple(skill for skill in skills if skill.is_offered)


def prompt_block(skill: Skill, max_chars: int) -> str:
    """Return `[skill:<name>]`, at most `max_chars` code points of the body, and `[/skill]`, on separate lines."""
    return f"{_opening_mark(skill)}\n{escape_tags_and_marks(skill.body)[:max_chars]}\n[/skill]"


def instruction_of(skill: Skill, tools: Sequence[str], max_chars: int) -> str:
    """Return a system instruction: the skill's name and description, its available tools, and its body.

    A body longer than `max_chars` code points is cut, and a line says so.
    """
    body = escape_tags_and_marks(skill.body)
    parts = [_opening_mark(skill), f"# {_mark_name(skill)}\n{escape_tags_and_marks(skill.description)}"]
    if tools:
        parts.append(f"Tools for this: {escape_tags_and_marks(', '.join(map(one_line, tools)))}.")
    parts.append(body[:max_chars])
    if len(body) > max_chars:
        parts.append(f"(The instructions are cut here, after {max_chars} of {len(body)} characters.)")
    return "\n\n".join([*parts, "[/skill]"])


def section_entry(skill: Skill) -> str:
    """Return a skill's entry for the section `<skills>`, with its whole body.

    The element is that of an activation: its name is unmistakable, so the body can hold `</skill>` as its own text.
    """
    attributes = f"name={quote_attribute(skill.key)} uri={quote_attribute(skill.uri)}"
    return f"<skill_content {attributes}>\n{escape_tags_and_marks(skill.body)}\n</skill_content>"


def _opening_mark(skill: Skill) -> str:
    return f"[skill:{_mark_name(skill)}]"


def _mark_name(skill: Skill) -> str:
    return escape_line(skill.key).replace("[", "(").replace("]", ")")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text part of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its role and parts. Parts other than `TextPart` may be of any type and stay unchanged."""

    role: str
    parts: tuple[object, ...]

    @property
    def text(self) -> str:
        """All text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class Injection:
    """A message and the match that was injected; None if the message is unchanged."""

    message: Message
    match: Match | None


@dataclass(frozen=True, slots=True)
class SkillBlock:
    """The best match for a query, and its block of text."""

    match: Match
    text: str

    def before(self, text: str) -> str:
        """Return the block and `text`, separated by an empty line."""
        return f"{self.text}\n\n{text}"


def select_block(
    query: str, ranking: Ranking, policy: SelectionPolicy = _POLICY, max_injected_chars: int = MAX_INJECTED_CHARS
) -> SkillBlock | None:
    """Return the block of the best match for a query; None if the query is blank or nothing matches."""
    match = next(iter(ranking(query, policy)), None) if query.strip() else None
    if match is None:
        return None
    logger.info("context: selected %s", match.for_log)
    return SkillBlock(match, prompt_block(match.skill, max_injected_chars))


def inject(
    message: Message, ranking: Ranking, policy: SelectionPolicy = _POLICY, max_injected_chars: int = MAX_INJECTED_CHARS
) -> Injection:
    """Insert the best match's block before the first text of a user's message, separated by an empty line.

    A message of another role, without text or without a match is returned unchanged.
    """
    block = select_block(message.text, ranking, policy, max_injected_chars) if message.role == "user" else None
    if block is None:
        return Injection(message, None)
    parts = list(message.parts)
    for at, part in enumerate(parts):
        if isinstance(part, TextPart):
            parts[at] = TextPart(block.before(part.text))
            break
    return Injection(replace(message, parts=tuple(parts)), block.match)
