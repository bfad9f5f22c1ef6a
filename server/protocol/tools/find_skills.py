"""The tool `find_skills`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from server.listing.catalog_texts import loading_text
from server.listing.envelope import text_block, tool_result
from server.listing.schemas import MAX_TAGS, TEXT, TEXTS, hints, list_of, object_of
from server.listing.tools import FIND, metadata_for
from server.protocol.tool_call import Tool, has_active, has_offered
from server.requests import note_found
from server.wire.params import InvalidRequestError, string, strings
from skills_core.rendering.escaping import escape_line
from skills_core.rendering.matches import alike_in_words, reason_in_words, render_matches
from skills_core.selection.policy import menu_of
from skills_core.selection.ranking import TOP_TEN

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.listing.tools import ToolListing
    from server.protocol.tool_call import ToolCall
    from skills_core.catalog.catalog import Catalog
    from skills_core.selection.policy import Match


logger = logging.getLogger(__name__)

_DEFAULT_MATCHES = 10
_MAX_MATCHES = 100
_MAX_QUERY = 2000

_LOGGED = 3
# Most matches of a search that are logged.

_MATCH = object_of(
    name=TEXT,
    description=TEXT,
    why={**TEXT, "description": "Words of the query that the skill has."},
    weak={"type": "boolean", "description": "Little of the query is in the skill."},
    uri=TEXT,
)
_MATCH["properties"]["alike"] = {**TEXT, "description": "Skills that are nearly the same, for which it stands."}
_OUTPUT = {
    "type": "object",
    "properties": {
        "matches": list_of(_MATCH, "Best first."),
        "menu": {**TEXTS, "description": "The first matches, where they fit about equally well."},
        "note": {**TEXT, "description": "What to do where nothing matches, or not all skills were searched."},
        "left_out": {**TEXT, "description": "How many more matches there are, if the result would be too long."},
    },
    "required": ["matches"],
}


def _entry(listing: ToolListing) -> dict[str, Any]:
    layout = listing.layout
    # With skills, the instructions suffice.
    description = f"{listing.faults}\n" if listing.faults and not listing.catalog.offered else ""
    description += (
        "Search all skills by what they do. Word the query as task, technology, file format and synonyms, "
        "and try again in other words if nothing fits or the matches are marked weak. "
        f"Then call {layout.activation_tool} with a name from the result."
    )
    if listing.texts.search:
        description += f"\n{listing.texts.search}"
    return {
        "name": FIND,
        "title": "Find skills",
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "maxLength": _MAX_QUERY, "description": "What the skill should do."},
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": MAX_TAGS,
                    "description": "Only skills with such a tag.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": _MAX_MATCHES,
                    "description": f"Most results; {_DEFAULT_MATCHES} if not given.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": _OUTPUT,
        "annotations": hints("Find skills"),
        "_meta": metadata_for(layout, listing.hint),
    }


async def _find(host: Host, call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments
    query = string(arguments, "query")
    tags = strings(arguments, "tags", MAX_TAGS)
    limit = arguments.get("limit", _DEFAULT_MATCHES)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MAX_MATCHES:
        raise InvalidRequestError(f"limit must be a whole number from 1 to {_MAX_MATCHES}")
    if len(query) > _MAX_QUERY:
        raise InvalidRequestError(f"query may have at most {_MAX_QUERY} characters")
    policy = replace(TOP_TEN, top_k=limit, include_tags=tags)
    view = call.view
    host.keep_search_ready(view)

    def search() -> tuple[list[Match], int]:
        return view.search_distinct(query, policy), view.unsearched

    matches, unsearched = await host.searches.run(call.ctx, search)
    if unsearched:
        host.index_for_search()
    loading = loading_text(view.catalog)
    note = loading or _incomplete(unsearched, len(view.catalog.offered))
    logger.info("found: %s", ", ".join(match.for_log for match in matches[:_LOGGED]) or "nothing")
    note_found(match.skill.settings_key for match in matches)
    room = call.room
    shown = len(matches)
    while shown > 1 and room is not None and not room.fits_with_news(_found(matches, shown, note)):
        shown -= 1
    if not matches:
        return _found_nothing("\n".join(filter(None, (call.view.faults, note or _no_match(query)))))
    return _found(matches, shown, note)


def _found(matches: Sequence[Match], shown: int, note: str) -> dict[str, Any]:
    """Return the result of a search with the first matches; it says how many are left out, and has the note, if any."""
    lines = render_matches(matches, shown)
    structured: dict[str, Any] = {"matches": [_described(match) for match in matches[:shown]]}
    if menu := menu_of(matches[:shown]):
        structured["menu"] = [match.skill.key for match in menu]
    if shown < len(matches):
        why = "this client passes on no more of one result; narrow the query, or use tags"
        structured["left_out"] = f"{len(matches) - shown} more matches: {why}"
        lines.append(structured["left_out"])
    if note:
        structured["note"] = note
        lines.append(note)
    return {**tool_result([text_block("\n".join(lines))]), "structuredContent": structured}


def _described(match: Match) -> dict[str, Any]:
    skill = match.skill
    return {
        "name": skill.key,
        "description": skill.description,
        "why": reason_in_words(match),
        "weak": match.weak,
        "uri": skill.uri,
        **({"alike": alike} if (alike := alike_in_words(match)) else {}),
    }


def _found_nothing(note: str) -> dict[str, Any]:
    return {**tool_result([text_block(note)]), "structuredContent": {"matches": [], "note": note}}


def _incomplete(unsearched: int, total: int) -> str:
    """Return a note that not all skills were searched; empty if they were."""
    if not unsearched:
        return ""
    searched = max(0, total - unsearched)
    return f"The search index is still being built: {searched} of {total} skills were searched. Search again later."


def _no_match(query: str) -> str:
    return (
        f"No skill matches {escape_line(repr(query[:200]))}. Try the task, technology or file format in other words; "
        "if nothing matches then, work without a skill."
    )


def _has_fault(catalog: Catalog) -> bool:
    """Tell whether a folder could not be used at the start: without skills, this tool tells of it."""
    return any(found.source.fault for found in catalog.sources)


TOOLS = (
    Tool(
        FIND,
        _entry,
        lambda services: partial(_find, services.host),
        is_listed=lambda catalog: has_offered(catalog) or _has_fault(catalog),
        is_callable=lambda catalog: has_active(catalog) or _has_fault(catalog),
    ),
)
