"""Calls of `activate_skill`: return a skill's text, or a line that says that it has not changed."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

from server.listing.envelope import text_block, tool_result
from server.listing.resources import mime_type
from server.operation.notes import note_skill
from server.operation.records import Use
from server.protocol.activation.parts import beginning_within, message_within
from server.wire.arguments import flag, string
from server.wire.errors import InvalidRequestError
from skills_core.diagnostics import one_line, printable
from skills_core.rendering import (
    activation_inputs,
    render_link,
    render_linked_activation,
    render_request,
    render_unchanged,
)
from skills_core.rendering.parts import READ_THE_REST
from skills_core.withheld_files import files_for_models

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.hosting.host import Host
    from server.protocol.activation.recipients import Recipients
    from server.protocol.tool_call import ToolCall
    from skills_core.catalog import Catalog
    from skills_core.rendering import Recipient
    from skills_core.skill import Skill

__all__ = ["META_SKILL", "Activation", "invocable", "texts_of"]

logger = logging.getLogger(__name__)

META_SKILL = "skillserve/skill"
"""The key in `_meta` of an activation under which hosts find the skill's name, URI and digest."""

MAX_ARGUMENTS = 100_000
"""Most characters of all arguments together: a body may repeat each of them."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

# These annotations ask a host that drops old results to keep this one.
_KEEP = {"audience": ["assistant"], "priority": 1.0}


class Activation:
    """The handler of the tool."""

    def __init__(self, host: Host, recipients: Recipients) -> None:
        """Answer from `host`; `recipients` knows for whom a request's text is rendered."""
        self._host = host
        self._recipients = recipients

    async def call(self, call: ToolCall) -> dict[str, Any]:
        """Handle a call."""
        arguments, room = call.arguments, call.room
        skill = invocable(call.view.catalog, string(arguments, "name"))
        values, message = activation_inputs(skill, texts_of(arguments), string(arguments, "message", default=""))
        have = string(arguments, "have", default="")
        delivery = call.conversation.deliver(
            skill,
            values,
            have=have if _DIGEST.fullmatch(have) else None,
            force=flag(arguments, "force"),
            keeps=not call.client.compacts,
        )
        if logger.isEnabledFor(logging.DEBUG):
            state = "" if delivery.text else " (unchanged)"
            logger.debug("activated %s %s%s", one_line(skill.key), skill.digest, state)
        self._host.usage.add(skill.settings_key)
        note_skill(skill, Use.ACTIVATED)
        recipient = self._recipients.of(call.ctx, call.view)
        request = [text_block(render_request(skill, message_within(message, room)))] if message else []
        about: dict[str, Any] = {
            "name": skill.key,
            "uri": skill.uri,
            "digest": skill.digest,
            "unchanged": not delivery.text,
        }
        link = _link(skill, recipient)

        def answer(text: str) -> dict[str, Any]:
            content = [*(link if delivery.text else ()), {**text_block(text), "annotations": _KEEP}, *request]
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
        text, about["rest"] = beginning_within(room, answer, skill, values, recipient, delivery.replaces)
        return answer(text)


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
        "annotations": _KEEP,
    }
    return [link]


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
