"""The tool `read_skill_file`: return a file of a skill, or the part of a text that a call asks for.

An answer is never longer than what the client passes on to its model: where a file is, the answer ends earlier and says
where to read on. The first block of an answer has the file's own text and nothing else.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from server.listing.envelope import text_block, tool_result
from server.listing.resources import contents_of, mime_type, served_uri
from server.listing.schemas import hints
from server.listing.tools import READ, metadata_for
from server.protocol.tool_call import Tool, has_active
from server.requests import RequestReason, Use, note_denied, note_skill
from server.wire.params import InvalidRequestError, string
from skills_core.rendering.activation import short_digest
from skills_core.rendering.escaping import escape_line
from skills_core.rendering.parts import end_of_part, reading_call
from skills_core.skills.skill import decode_path
from skills_core.skills.withheld_files import is_withheld_from_models, refuse_eval_file

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.listing.tools import ToolListing
    from server.protocol.tool_call import ResultRoom, ToolCall
    from skills_core.skills.skill import Skill, SkillFile


def _entry(listing: ToolListing) -> dict[str, Any]:
    return {
        "name": READ,
        "title": "Read a file of a skill",
        "description": "Read one file of a skill: a script, reference or asset that its instructions name. "
        "An answer that ends before the file does says where to read on.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "skill": {"type": "string", "description": "The skill's name."},
                "path": {"type": "string", "description": "The file's path, relative to the skill root."},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "To read a part of a text file: its first character, counted from 0.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Most characters of the part; as many as fit if not given.",
                },
            },
            "required": ["skill", "path"],
            "additionalProperties": False,
        },
        "annotations": hints("Read a file of a skill"),
        "_meta": metadata_for(listing.layout),
    }


class _FileReader:
    """The handler of the tool."""

    def __init__(self, host: Host) -> None:
        """Read files of `host`."""
        self._host = host

    async def call(self, call: ToolCall) -> dict[str, Any]:
        """Handle a call."""
        name, path = string(call.arguments, "skill"), string(call.arguments, "path")
        catalog = call.view.catalog
        skill = catalog.skill(name, catalog.offered)
        # Models pass what they have seen: a relative path, or the file's URI.
        if path.startswith(skill.root_uri):
            uri, asked = path, decode_path(path)
        else:
            uri = skill.file_uri(catalog.file_of(skill, path).path)
            asked = f"{skill.path}/{path.removeprefix('./')}"
        owner, file, raw = await self._host.read(uri, call.ctx)
        respelled = asked != decode_path(owner.file_uri(file.path))
        note_skill(owner, Use.READ)
        if not call.view.settings.catalog.serve_evals:
            refuse_eval_file(owner, file)
        if is_withheld_from_models(owner, file, raw):
            note_denied(RequestReason.WITHHELD)
            raise InvalidRequestError(
                f"{file.path} of the skill {owner.key!r} instructs in what is for the user to call; a model may not "
                "read it. The user calls such a skill as a command."
            )
        room, ranged = call.room, not call.arguments.keys().isdisjoint({"offset", "limit"})
        # Instructions with a NUL count as binary, but their rest is read as text.
        if file.text or (ranged and owner.content.is_main(file)):
            arguments = {**call.arguments, "path": file.path} if respelled else call.arguments
            return _part(file, raw.decode("utf-8"), arguments, room, respelled=respelled)
        if ranged:
            raise InvalidRequestError(
                f"offset and limit are for text files, and {file.path} of the skill {owner.key!r} is binary "
                f"({file.size} bytes): leave them out to get the whole file"
            )
        return _within(room, owner, file, _binary(served_uri(uri, owner, file), file, raw, respelled=respelled))


def _binary(uri: str, file: SkillFile, raw: bytes, *, respelled: bool) -> dict[str, Any]:
    if mime_type(file).startswith("image/"):
        image = {"type": "image", "data": base64.b64encode(raw).decode("ascii"), "mimeType": mime_type(file)}
        return tool_result([image, *_spelling(file, respelled=respelled)])
    embedded = {"type": "resource", "resource": contents_of(uri, file, raw)}
    return tool_result([embedded, *_spelling(file, respelled=respelled)])


def _spelling(file: SkillFile, *, respelled: bool) -> list[dict[str, Any]]:
    """Return a note on the right path of a file that a call has spelled in another case."""
    note = f"\n[This is the file {escape_line(file.path)}: its path differs in case from the one you gave.]"
    return [text_block(note)] if respelled else []


def _within(room: ResultRoom | None, owner: Skill, file: SkillFile, result: dict[str, Any]) -> dict[str, Any]:
    """Return a binary file, or an error if the client would cut it as text."""
    if room is None or room.fits(result):
        return result
    raise InvalidRequestError(
        f"{file.path} of the skill {owner.key!r} is binary ({file.size} bytes), and this client passes on at most "
        f"{room.limit.characters} {room.limit.unit} of a result, so it was not sent: a part of it would be of no use. "
        "Ask the user for what you need of it."
    )


def _part(
    file: SkillFile, text: str, arguments: Mapping[str, Any], room: ResultRoom | None, *, respelled: bool
) -> dict[str, Any]:
    """Return a text, or the part of it that is asked for and fits, with a note on what the part is."""
    start, most = _range(arguments, file, len(text))
    whole = tool_result([text_block(text), *_spelling(file, respelled=respelled)])
    if start == 0 and most >= len(text) and (room is None or room.fits_with_news(whole)):
        return whole

    def answer(end: int) -> dict[str, Any]:
        return tool_result([text_block(text[start:end]), text_block(_note(file, start, end, len(text), arguments))])

    end = min(len(text), start + most)
    if room is not None and not room.fits_with_news(answer(end)):
        fitting = min(most, room.most)
        end = end_of_part(text, start, fitting, lambda end: room.fits_with_news(answer(end)))
        # A part is never empty, or reading on would never end.
        end = max(end, start + 1)
    return answer(end)


def _range(arguments: Mapping[str, Any], file: SkillFile, total: int) -> tuple[int, int]:
    """Return the character that a call reads from, and the maximum number of characters.

    Raises:
        InvalidRequestError: the offset or the limit is out of range.
    """
    start, most = arguments.get("offset", 0), arguments.get("limit", max(1, total))
    if not 0 <= start <= total:
        raise InvalidRequestError(
            f"offset must be a whole number from 0 to {total}, the number of characters of {file.path}; it is {start}"
        )
    if most < 1:
        raise InvalidRequestError(f"limit must be a whole number, from 1 on; it is {most}")
    return start, most


def _note(file: SkillFile, start: int, end: int, total: int, arguments: Mapping[str, Any]) -> str:
    """Return which part of a file an answer has, and where to read on; some clients join blocks without a break."""
    which = f"Characters {start} to {end} of {total} of {escape_line(file.path)} ({short_digest(file.digest)})"
    if end == total:
        return f"\n[{which}. Here the file ends.]"
    call = reading_call(arguments["skill"], arguments["path"], end, READ)
    return f"\n[{which}. The rest is missing. To read on, {call}]"


TOOLS = (
    Tool(
        READ,
        _entry,
        lambda services: _FileReader(services.host).call,
        # A skill that only users may call also has files to read.
        is_listed=has_active,
        is_callable=has_active,
        verbatim=True,
    ),
)
