"""The tool `skill_context` and the prompt `with_skills`, for programs that assemble prompts themselves.

Both are listed while models may use at least one skill; the tool also has to be switched on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from server.clients.known import client_of
from server.config.settings.tools import SKILL_CONTEXT
from server.hosting.searches import match_object
from server.listing.envelope import COMPLETE, text_block, tool_result, user_message
from server.listing.prompts import MESSAGE, WITH_SKILLS, with_skills_prompt
from server.listing.schemas import MAX_TAGS, SCORED, TEXT, TEXTS, hints, list_of, object_of, or_null
from server.protocol.prompt_words import whole_message
from server.protocol.tool_call import Tool, has_offered
from server.requests import Use, note_skill
from server.wire.params import InvalidRequestError, read_arguments, string, strings

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.hosting.host import Host
    from server.hosting.views import View
    from server.protocol.recipients import Recipients
    from server.protocol.tool_call import ToolCall
    from skills_core.context.assembly import AssembledContext
    from skills_core.selection.policy import Match, SelectionPolicy
    from skills_core.skills.skill import Skill


_MIN_SCORE = "min_score"
_TOP_K = "top_k"
_TAGS = "tags"
_EXCLUDE_TAGS = "exclude_tags"

_MAX_MESSAGE = 100_000
# Most characters of a message.

_MAX_MATCHES = 5
# Most matches that take part, which is as many as a menu shows.

_NAMED = {"name": TEXT, "digest": TEXT, "uri": TEXT}
_FOUND = object_of(**_NAMED, **SCORED)

_TAG_LIST: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "maxItems": MAX_TAGS}

_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        MESSAGE: {"type": "string", "maxLength": _MAX_MESSAGE, "description": "The user's message, as it was typed."},
        _MIN_SCORE: {"type": "number", "minimum": 0, "description": "Leave out matches with a lower score."},
        _TOP_K: {
            "type": "integer",
            "minimum": 1,
            "maximum": _MAX_MATCHES,
            "description": f"Most matches that take part, {_MAX_MATCHES} if not given; with 1, there is no menu.",
        },
        _TAGS: {**_TAG_LIST, "description": "Search only skills with such a tag."},
        _EXCLUDE_TAGS: {**_TAG_LIST, "description": "Leave out skills with such a tag."},
    },
    "required": [MESSAGE],
    "additionalProperties": False,
}
# The prompt takes these arguments as well.

_SKILL_CONTEXT: dict[str, Any] = {
    "name": SKILL_CONTEXT,
    "title": "Skills for a message",
    "description": (
        "For programs that put a prompt together: return a user's message with the skills that apply to it, and which "
        "these are. A model calls activate_skill instead."
    ),
    "inputSchema": _INPUT,
    "outputSchema": object_of(
        text=TEXT,
        always=list_of(object_of(**_NAMED), "Skills that go with every message."),
        triggered=list_of(object_of(**_NAMED, triggers=TEXTS), "Skills with a trigger in the message."),
        left_out=list_of(TEXT, "Names of those that were too long for the text, which names them too."),
        called=or_null(object_of(**_NAMED), "The skill that the message calls, as /name does."),
        selected=or_null(_FOUND, "The skill that the search found."),
        menu=list_of(_FOUND, "Where the first matches lie close together: a choice to make."),
    ),
    "annotations": hints("Skills for a message"),
}

_NOTHING = "No skill applies to this message."


class ContextHandlers:
    """The handlers of both."""

    def __init__(self, host: Host, recipients: Recipients) -> None:
        """Answer from `host`; `recipients` knows for whom a request's text is rendered."""
        self._host = host
        self._recipients = recipients

    async def prompt(
        self, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any, Any], view: View
    ) -> dict[str, Any]:
        """Return the result of `prompts/get`: all texts as one message, because some clients show only the first."""
        given, notes = whole_message(arguments, client_of(ctx))
        found = await self._assembled(_of_prompt(given), ctx, view)
        messages = [user_message(found.text, *notes)]
        return {"description": with_skills_prompt()["description"], "messages": messages, **COMPLETE}

    async def call(self, call: ToolCall) -> dict[str, Any]:
        """Return the result of a call of the tool."""
        found = await self._assembled(call.arguments, call.ctx, call.view, for_model=True)
        texts = [*found.texts]
        if not call.structured and not _has_skills(found):
            # Without the structure, an answer that is the message alone would say nothing.
            texts.append(_NOTHING)
        return {**tool_result([text_block(text) for text in texts]), "structuredContent": _structured(found)}

    async def _assembled(
        self, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any, Any], view: View, *, for_model: bool = False
    ) -> AssembledContext:
        """Return the context; with `for_model`, refuse a call of a skill that only users may call."""
        message = string(arguments, MESSAGE)
        if len(message) > _MAX_MESSAGE:
            raise InvalidRequestError(f"message may have at most {_MAX_MESSAGE} characters")
        # Few clients need this, and importing it takes time at each start.
        from skills_core.context.assembly import ContextBounds, assemble_context

        choice = _choice(arguments)
        bounds = ContextBounds(injected=self._host.settings.search.max_injected_chars)
        recipient = self._recipients.of(ctx, view)

        async def assembled() -> AssembledContext:
            view = self._host.view(ctx)
            assemble = partial(assemble_context, message, view.catalog, view.search, bounds, recipient, choice)
            return await self._host.searches.run(ctx, assemble)

        found = await self._host.with_bodies(assembled)
        if found.call is not None:
            key = found.call.skill.key
            if for_model and not found.call.skill.model_invocable:
                raise InvalidRequestError(
                    f"The skill {key!r} is for the user to call: get the prompt {WITH_SKILLS!r} with this message, or "
                    "the prompt of the skill. No tool returns it, as a model may call every tool."
                )
            self._host.usage.add(found.call.skill.settings_key)
            note_skill(found.call.skill, Use.ACTIVATED)
        return found


def _of_prompt(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the prompt, which are strings, as those of the tool; commas separate tags."""
    read = read_arguments(WITH_SKILLS, arguments, _INPUT)
    for name in (_TAGS, _EXCLUDE_TAGS):
        if isinstance(read.get(name), str):
            read[name] = [tag.strip() for tag in read[name].split(",") if tag.strip()]
    return read


def _choice(arguments: Mapping[str, Any]) -> SelectionPolicy:
    """Return which matches of the search may be selected."""
    top_k, min_score = arguments.get(_TOP_K, _MAX_MATCHES), arguments.get(_MIN_SCORE, 0)
    if not 1 <= top_k <= _MAX_MATCHES:
        raise InvalidRequestError(f"{_TOP_K} must be a whole number from 1 to {_MAX_MATCHES}")
    if min_score < 0:
        raise InvalidRequestError(f"{_MIN_SCORE} must be a number, from 0 on")
    from skills_core.selection.policy import SelectionPolicy

    tags, excluded = (strings(arguments, name, MAX_TAGS) for name in (_TAGS, _EXCLUDE_TAGS))
    return SelectionPolicy(top_k, min_score, tags, excluded)


def _has_skills(found: AssembledContext) -> bool:
    return any((found.always, found.triggered, found.left_out, found.call, found.selected, found.menu))


def _structured(found: AssembledContext) -> dict[str, Any]:
    return {
        "text": found.text,
        "always": [_named(skill) for skill in found.always],
        "triggered": [{**_named(each.skill), "triggers": list(each.triggers)} for each in found.triggered],
        "left_out": [skill.key for skill in found.left_out],
        "called": _named(found.call.skill) if found.call else None,
        "selected": _scored(found.selected) if found.selected else None,
        "menu": [_scored(match) for match in found.menu],
    }


def _named(skill: Skill) -> dict[str, Any]:
    return {"name": skill.key, "digest": skill.digest, "uri": skill.uri}


def _scored(match: Match) -> dict[str, Any]:
    return {**_named(match.skill), **match_object(match)}


TOOLS = (
    Tool(
        SKILL_CONTEXT,
        lambda _: _SKILL_CONTEXT,
        lambda services: ContextHandlers(services.host, services.recipients).call,
        is_listed=has_offered,
        is_callable=has_offered,
        when_cut="Call activate_skill for a skill whose text is cut.",
    ),
)
