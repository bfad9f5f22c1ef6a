"""Requests for prompts: skills as slash commands, and the prompt `with_skills`.

The first message of a skill's prompt is byte for byte the text of `activate_skill` for the same arguments; the second
is the user's: the free text as binding context, or the literal `/name`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.listing.envelope import COMPLETE
from server.listing.prompts import WITH_SKILLS, offers_context
from server.protocol.tools.skill_context import ContextHandlers
from server.requests.notes import note_skill
from server.requests.records import Use
from server.wire.invalid_request import InvalidRequestError
from skills_core.diagnostics import one_line
from skills_core.rendering.activation import activation_inputs, render_request

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext

    from server.capabilities.schedules.prompts import SchedulePrompts
    from server.hosting.host import Host
    from server.protocol.activation.recipients import Recipients

__all__ = ["PromptHandlers"]

logger = logging.getLogger(__name__)


class PromptHandlers:
    """The handlers of `prompts/list` and `prompts/get`."""

    def __init__(self, host: Host, recipients: Recipients, schedules: SchedulePrompts) -> None:
        """Answer from `host`; `recipients` knows for whom a request's text is rendered."""
        self._host = host
        self._recipients = recipients
        self._context = ContextHandlers(host, recipients)
        self._schedules = schedules

    async def list(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `prompts/list`."""
        view = self._host.view(ctx)
        cursor = params.cursor if params else None
        page = view.prompts.page(cursor)
        if not self._schedules.offered:
            return page
        return await anyio.to_thread.run_sync(self._schedules.added_to, page, view.catalog, cursor)

    async def get(self, ctx: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams) -> dict[str, Any]:
        """Handle `prompts/get`."""
        view = self._host.view(ctx)
        catalog = view.catalog
        if params.name == WITH_SKILLS and offers_context(catalog):
            return await self._context.prompt(params.arguments or {}, ctx, view)
        if self._schedules.offered and catalog.get(params.name) is None and (found := await _scheduled(params.name)):
            return found
        skill = catalog.skill(params.name, (each for each in catalog.active if each.user_invocable))
        if not skill.user_invocable:
            raise InvalidRequestError(f"The skill {params.name!r} is for models only (user-invocable: false).")
        values, message = activation_inputs(skill, params.arguments or {})
        self._host.usage.add(skill.settings_key)
        note_skill(skill, Use.ACTIVATED)
        logger.debug("activated %s %s", one_line(skill.key), skill.digest)
        recipient = self._recipients.of(ctx, view)
        texts = [self._host.texts.text(skill, values, recipient), render_request(skill, message)]
        messages = [{"role": "user", "content": {"type": "text", "text": text}} for text in texts]
        return {"description": skill.description, "messages": messages, **COMPLETE}


async def _scheduled(name: str) -> dict[str, Any] | None:
    """Return the prompt that performs a scheduler skill, None if there is none of this name."""
    from server.capabilities.schedules.store import PREFIX, prompt_text

    found = await anyio.to_thread.run_sync(prompt_text, name) if name.startswith(PREFIX) else None
    if found is None:
        return None
    description, text = found
    logger.info("performed by hand: %s", one_line(name))
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return {"description": description, "messages": messages, **COMPLETE}
