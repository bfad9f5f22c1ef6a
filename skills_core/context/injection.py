"""Injection: the best skill for a user's message, put before it as a block of text.

Source: adk-skill. Knows messages as values and nothing of who sends them.
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
"""Most code points of a body that are put before a message, if not said otherwise."""

_POLICY = SelectionPolicy()


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a message that is text."""

    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message: who speaks, and its parts. Parts that are no `TextPart` may be anything and stay as they are."""

    role: str
    parts: tuple[object, ...]

    @property
    def text(self) -> str:
        """All text parts, each on its own lines."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class Injection:
    """A message, and the match that was put before it; None where the message is the same as before."""

    message: Message
    match: Match | None


def inject(
    message: Message, ranking: Ranking, policy: SelectionPolicy = _POLICY, max_injected_chars: int = MAX_INJECTED_CHARS
) -> Injection:
    """Put the block of the best match before the first text of a user's message, with an empty line between.

    A message of another role, without text, or that no skill matches is returned as it is.
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
