"""Prompts: each skill that a user may invoke, under its name, as a slash command.

The first message is byte for byte what `activate_skill` returns for the same arguments; the second is the
user's: the free text as binding context, or the literal `/name`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.envelope import COMPLETE, cacheable
from server.faults import InvalidRequestError
from server.paging import Pager
from skills_core.diagnostics import printable
from skills_core.rendering import parameters_of, render_activation, render_request

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext

    from server.config import Settings
    from server.host import Host
    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["FREE_ARGUMENT", "PromptHandlers", "describe", "pager"]

FREE_ARGUMENT = "arguments"


def describe(skill: Skill) -> dict[str, Any] | None:
    """Return a skill's entry in the list of prompts; None where it is not for users to invoke."""
    if not skill.user_invocable:
        return None
    front = skill.frontmatter
    hint = front.argument_hint or front.hint
    free = {
        "name": FREE_ARGUMENT,
        "description": f"What to do with the skill, in your own words. {hint or ''}".strip(),
        "required": False,
    }
    named = [{"name": name, "required": False} for name in parameters_of(skill.body) if name != FREE_ARGUMENT]
    return {
        "name": printable(skill.key),
        "title": printable(skill.name),
        "description": skill.description,
        "arguments": [*named, free],
    }


def pager(catalog: Catalog, settings: Settings) -> Pager[Skill]:
    """Return the pages of the list, by key."""
    items = sorted((skill.key, skill) for skill in catalog.active if skill.user_invocable)
    return Pager(items, settings.page_size, _page)


def _page(skills: list[Skill], cursor: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"prompts": [describe(skill) for skill in skills]}
    return cacheable(result | ({"nextCursor": cursor} if cursor is not None else {}))


class PromptHandlers:
    """The handlers of `prompts/list` and `prompts/get`."""

    def __init__(self, host: Host, *, local: bool) -> None:
        """Answer from `host`; `local` tells that clients see the same disk."""
        self._host = host
        self._local = local

    async def list(
        self, _ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `prompts/list`."""
        return self._host.snapshot.prompts.page(params.cursor if params else None)

    async def get(self, _ctx: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams) -> dict[str, Any]:
        """Handle `prompts/get`."""
        skill = self._host.snapshot.catalog.skill(params.name)
        if not skill.user_invocable:
            raise InvalidRequestError(f"The skill {params.name!r} is for models only (user-invocable: false).")
        # A client sends an argument that was left empty as an empty string: that is none.
        values = {name: value for name, value in (params.arguments or {}).items() if value}
        message = values.get(FREE_ARGUMENT)
        if FREE_ARGUMENT not in parameters_of(skill.body):
            values.pop(FREE_ARGUMENT, None)
        texts = [render_activation(skill, values, directory=self._local), render_request(skill, message)]
        messages = [{"role": "user", "content": {"type": "text", "text": text}} for text in texts]
        return {"description": skill.description, "messages": messages, **COMPLETE}
