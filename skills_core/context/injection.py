"""Inject the best skill for a user's message before it, as a block of text.

Source: adk-skill.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.context.blocks import prompt_block
from skills_core.selection.policy import SelectionPolicy

if TYPE_CHECKING:
    from skills_core.context.rankings import Ranking
    from skills_core.selection.policy import Match

__all__ = ["MAX_INJECTED_CHARS", "Injection", "Message", "SkillBlock", "TextPart", "inject", "select_block"]

logger = logging.getLogger(__name__)

MAX_INJECTED_CHARS = 2000
"""Default maximum code points of a body that are injected."""

_POLICY = SelectionPolicy()


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
