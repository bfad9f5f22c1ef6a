"""Inject the best skill for a user's message before it, as a block of text.

Source: adk-skill.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.context.blocks import prompt_block
from skills_core.selection.policy import SelectionPolicy

if TYPE_CHECKING:
    from skills_core.context.rankings import Ranking
    from skills_core.selection.policy import Match

__all__ = ["MAX_INJECTED_CHARS", "Injection", "Message", "TextPart", "inject"]

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


def inject(
    message: Message, ranking: Ranking, policy: SelectionPolicy = _POLICY, max_injected_chars: int = MAX_INJECTED_CHARS
) -> Injection:
    """Insert the best match's block before the first text of a user's message, separated by an empty line.

    A message of another role, without text or without a match is returned unchanged.
    """
    if message.role != "user" or not message.text.strip():
        return Injection(message, None)
    match = next(iter(ranking(message.text, policy)), None)
    if match is None:
        return Injection(message, None)
    block = prompt_block(match.skill, max_injected_chars)
    parts = list(message.parts)
    for at, part in enumerate(parts):
        if isinstance(part, TextPart):
            parts[at] = TextPart(f"{block}\n\n{part.text}")
            break
    return Injection(replace(message, parts=tuple(parts)), match)
