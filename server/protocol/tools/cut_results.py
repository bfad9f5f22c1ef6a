"""The last line of defence against cuts by clients: cut a result that is too long ourselves, and say so in it.

Tools whose results may be long end them earlier in a better way, for example with the call that reads on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.listing.envelope import text_block
from skills_core.rendering.parts import end_of_part

if TYPE_CHECKING:
    from server.protocol.tool_call import ResultRoom

_SHORT = 300
# Characters of a text that is not cut: the note on the cut is about as long.


def cut_to_room(result: dict[str, Any], room: ResultRoom | None, advice: str = "", *, news: int = 0) -> dict[str, Any]:
    """Return a result that fits the room, with `advice` where something is cut.

    The last blocks are `news`: if the others fit, only news go.
    """
    if room is None or room.fits(result):
        return result
    if not room.fits({**result, "content": []}):
        # The structure alone is too long, and a part of it would break its schema.
        return {**result, "content": [text_block(_warning(room, advice)), *result["content"]]}
    answer = result["content"][: len(result["content"]) - news]
    if not room.fits({**result, "content": [*answer, _left_out(room, news)]}):
        result = _with_cut_texts(result, room, advice)
    return _without_last_blocks(result, room)


def _with_cut_texts(result: dict[str, Any], room: ResultRoom, advice: str) -> dict[str, Any]:
    """Return a result whose longest texts are cut, one after the other, until it fits."""
    content = list(result["content"])
    waiting = [at for at, block in enumerate(content) if len(block.get("text", "")) > _SHORT]
    waiting.sort(key=lambda at: len(content[at]["text"]))
    while waiting and not room.fits({**result, "content": content}):
        at = waiting.pop()
        content[at] = _cut(content, at, result, room, advice)
    return {**result, "content": content}


def _cut(content: list[Any], at: int, result: dict[str, Any], room: ResultRoom, advice: str) -> dict[str, Any]:
    """Return the block at a place in the content with as much of its text as fits, and a note."""
    block, text = content[at], content[at]["text"]

    def ending(end: int) -> dict[str, Any]:
        note = f"[Cut here by the server: {end} of {len(text)} characters. {_reason(room, advice)}]"
        return {**block, "text": f"{text[:end]}\n{note}"}

    def fits(end: int) -> bool:
        return room.fits({**result, "content": [*content[:at], ending(end), *content[at + 1 :]]})

    return ending(end_of_part(text, 0, room.most, fits))


def _without_last_blocks(result: dict[str, Any], room: ResultRoom) -> dict[str, Any]:
    """Return a result without as many of the last blocks as do not fit, and with a note if there are any."""
    content, dropped = list(result["content"]), 0
    while content and not room.fits(result):
        content.pop()
        dropped += 1
        result = {**result, "content": [*content, _left_out(room, dropped)]}
    return result


def _left_out(room: ResultRoom, count: int) -> dict[str, Any]:
    return text_block(f"\n[Left out by the server: {count} more texts of this result. {_reason(room)}]")


def _warning(room: ResultRoom, advice: str) -> str:
    return f"[This result may be cut: it is too long. {_reason(room, advice)}]"


def _reason(room: ResultRoom, advice: str = "") -> str:
    reason = f"This client passes on at most {room.limit.characters} {room.limit.unit} of a result."
    return f"{reason} {advice}" if advice else reason
