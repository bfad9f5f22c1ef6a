"""The tool `activate_skill`: return a skill's text, or a line that says that it has not changed."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from server.clients.profile import holds
from server.listing.envelope import text_block, tool_result
from server.listing.layout import enum_names, names_within, size_of
from server.listing.resources import mime_type
from server.listing.schemas import hints, with_nullable
from server.listing.tools import ACTIVATE, metadata_for
from server.protocol.tool_call import Tool, has_active, has_offered
from server.requests import Use, note_skill
from server.wire.kept_result import KeptResult
from server.wire.params import InvalidRequestError, string
from skills_core.diagnostics import one_line, printable
from skills_core.rendering.activation import (
    activation_inputs,
    render_link,
    render_linked_activation,
    render_request,
    render_unchanged,
)
from skills_core.rendering.parts import READ_THE_REST, cut_before, render_beginning
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from server.listing.tools import ToolListing
    from server.protocol.tool_call import ResultRoom, ToolCall, ToolServices
    from skills_core.catalog.catalog import Catalog
    from skills_core.rendering.parts import Beginning
    from skills_core.rendering.recipient import Recipient
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

META_SKILL = "skillserve/skill"
"""The key in `_meta` of an activation under which hosts find the skill's name, URI and digest."""

MAX_ARGUMENTS = 100_000
"""Most characters of all arguments together: a body may repeat each of them."""

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{12,64})")

_MESSAGE_SHARE = 6
# The share of the room that a message may take: the model knows it, as it has sent it.


def _entry(listing: ToolListing) -> dict[str, Any]:
    catalog, settings, layout, first = listing.catalog, listing.settings, listing.layout, listing.first
    offered = len(catalog.offered)
    # A client that checks names against the first list it got would refuse those that are not loaded yet.
    names = () if catalog.is_loading else enum_names(catalog, first, layout, settings.catalog.enum_limit)
    schema = _activation_schema(names, offered)
    if layout.schema is not None and size_of(schema) > layout.schema:
        # A client that drops a tool with a large schema would lose the tool for skills.
        bare = size_of(_activation_schema([""], offered))
        schema = _activation_schema(names_within(layout.schema - bare, names), offered)
    return {
        "name": ACTIVATE,
        "title": "Activate a skill",
        "description": listing.texts.description,
        "inputSchema": schema,
        "annotations": hints("Activate a skill"),
        "_meta": metadata_for(layout, listing.hint),
    }


def _activation_schema(names: Sequence[str], offered: int) -> dict[str, Any]:
    name: dict[str, Any] = {"type": "string", "description": "The skill's name."}
    if names:
        # An empty enum would accept no name.
        name["enum"] = names
    if offered > len(names):
        name["description"] += (
            " Any other name that find_skills returns is accepted as well."
            if names
            else " Any name that the list of skills or find_skills gives is accepted."
        )
    properties = {
        "name": name,
        "arguments": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Values of the skill's {{parameters}}.",
        },
        "message": {
            "type": "string",
            "description": "The user's own words, where they bind the skill.",
        },
        "have": {
            "type": "string",
            "description": "The receipt of the text that you still have: one line answers if it is still current.",
        },
    }
    # Its size counts.
    return with_nullable(
        {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}
    )


class _Activation:
    """The handler of the tool."""

    def __init__(self, services: ToolServices) -> None:
        """Answer from the host of `services`, whose `recipients` know for whom a request's text is rendered."""
        self._host, self._recipients = services.host, services.recipients

    async def call(self, call: ToolCall) -> dict[str, Any]:
        """Handle a call."""
        arguments, name = call.arguments, string(call.arguments, "name")
        view, skill = await self._host.skill(call.ctx, lambda catalog: invocable(catalog, name))
        call = call._replace(view=view)
        room = call.room
        values, message = activation_inputs(skill, texts_of(arguments), string(arguments, "message", default=""))
        have = _digest_meant(string(arguments, "have", default=""), skill)
        delivery = call.conversation.deliver(skill, values, have=have, keeps=not holds(call.client.compaction))
        if logger.isEnabledFor(logging.DEBUG):
            state = "" if delivery.text else " (unchanged)"
            logger.debug("activated %s %s%s", one_line(skill.key), skill.digest, state)
        self._host.usage.add(skill.settings_key)
        note_skill(skill, Use.ACTIVATED)
        recipient = self._recipients.of(call.ctx, call.view)
        request = [text_block(render_request(skill, _message_within(message, room)))] if message else []
        link = _link(skill, recipient)
        is_whole = delivery.text and delivery.replaces is None
        if is_whole and not (values or request or link):
            plain = self._plain(skill, recipient)
            if room is None or room.fits_with_news(plain):
                return plain
        about = _about(skill, unchanged=not delivery.text)

        def answer(text: str) -> dict[str, Any]:
            content = [*(link if delivery.text else ()), text_block(text), *request]
            return {**tool_result(content), "_meta": {META_SKILL: about}}

        def whole() -> dict[str, Any]:
            return answer(self._host.texts.text(skill, values, recipient, replaces=delivery.replaces))

        if not delivery.text:
            was_cut = room is not None and not link and not room.fits_with_news(whole())
            return answer(render_unchanged(skill, recipient) + (f" {READ_THE_REST}" if was_cut else ""))
        if link:
            return answer(render_linked_activation(skill, values, recipient, replaces=delivery.replaces))
        result = whole()
        if room is None or room.fits_with_news(result):
            return result
        text, about["rest"] = _beginning_within(room, answer, skill, values, recipient, delivery.replaces)
        return answer(text)

    def _plain(self, skill: Skill, recipient: Recipient) -> KeptResult:
        """Return the answer to most activations, which is the same until the skill changes."""
        kept = self._host.texts.kept(skill, recipient)
        if kept.answer is None:
            about = _about(skill, unchanged=False)
            kept.answer = KeptResult({**tool_result([text_block(kept.text)]), "_meta": {META_SKILL: about}})
        return kept.answer


def _about(skill: Skill, *, unchanged: bool) -> dict[str, Any]:
    """Return what hosts learn of an activated skill."""
    return {"name": skill.key, "uri": skill.uri, "digest": skill.digest, "unchanged": unchanged}


def _digest_meant(have: str, skill: Skill) -> str | None:
    """Return the digest that a model names by its beginning, whole where it is the skill's; None if it names none."""
    found = _DIGEST.fullmatch(have)
    if found is None:
        return None
    current = (skill.digest or "").removeprefix("sha256:")
    return skill.digest if current.startswith(found[1]) else f"sha256:{found[1]}"


def _link(skill: Skill, recipient: Recipient) -> list[dict[str, Any]]:
    """Return the link to the instructions, as a block, for a model that ignores those in the text; else nothing."""
    main = skill.content.main
    # Clients read only what is listed as a resource.
    if recipient.link_reader is None or main is None or main.path not in files_for_models(skill.content):
        return []
    link = {
        "type": "resource_link",
        "uri": skill.uri,
        "name": printable(skill.key),
        "title": render_link(skill, recipient.link_reader),
        "mimeType": mime_type(main),
    }
    return [link]


def _beginning_within(
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


def _message_within(message: str, room: ResultRoom | None) -> str:
    """Return the user's message, cut if it would take much of the room."""
    most = room.most // _MESSAGE_SHARE if room is not None else len(message)
    if len(message) <= most:
        return message
    end = cut_before(message, 0, most)
    return f"{message[:end]}\n[The first {end} of {len(message)} characters; the whole message is in your call.]"


def texts_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a call for a skill's parameters; null counts as absent.

    Raises:
        InvalidRequestError: the values are not an object, or too long.
    """
    values = arguments.get("arguments") or {}
    if not isinstance(values, dict):
        raise InvalidRequestError('arguments must be an object of strings, such as {"format": "table"}')
    if not values:
        return {}
    given = {str(key): value for key, value in values.items() if value is not None}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    if sum(len(name) + len(text) for name, text in texts.items()) > MAX_ARGUMENTS:
        raise InvalidRequestError(f"arguments may have at most {MAX_ARGUMENTS} characters in all; put more into a file")
    return texts


def invocable(catalog: Catalog, name: str) -> Skill:
    """Return the skill that a model asks for.

    Raises:
        UnknownSkillError: there is no such skill.
        InvalidRequestError: only users may call the skill.
    """
    skill = catalog.skill(name, catalog.offered)
    if not skill.model_invocable:
        raise InvalidRequestError(f"The skill {name!r} is for the user to call, as /{skill.key}; a model may not.")
    return skill


TOOLS = (
    Tool(
        ACTIVATE,
        _entry,
        lambda services: _Activation(services).call,
        is_listed=has_offered,
        is_callable=has_active,
    ),
)
