"""Activations that are too long for one result of the client: their beginning, with the call that reads the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skills_core.rendering.parts import Beginning, cut_before, render_beginning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from server.clients.results import ResultRoom
    from skills_core.rendering.recipient import Recipient
    from skills_core.skill import Skill

__all__ = ["beginning_within", "message_within"]

_MESSAGE_SHARE = 6
# The share of the room that a message may take: the model knows it, as it has sent it.


def beginning_within(
    room: ResultRoom,
    answer: Callable[[str], Mapping[str, Any]],
    skill: Skill,
    values: Mapping[str, str],
    recipient: Recipient,
    replaces: str | None,
) -> Beginning:
    """Return the longest beginning of an activation that leaves room for news; `answer` makes a result of a text."""

    def fits(text: str) -> bool:
        return room.fits_with_news(answer(text))

    return render_beginning(skill, values, recipient, replaces=replaces, most=room.most, fits=fits)


def message_within(message: str, room: ResultRoom | None) -> str:
    """Return the user's message, cut if it would take much of the room."""
    most = room.most // _MESSAGE_SHARE if room is not None else len(message)
    if len(message) <= most:
        return message
    end = cut_before(message, 0, most)
    return f"{message[:end]}\n[The first {end} of {len(message)} characters; the whole message is in your call.]"
