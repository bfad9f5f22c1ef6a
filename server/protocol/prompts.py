"""Requests for prompts: skills as slash commands, the prompt `with_skills`, and completions of arguments.

A prompt is one message, because some clients show only the first. The message of a skill begins, byte for byte, with
the text of `activate_skill` for the same arguments; at its end stands what the user typed, as binding context, or the
literal `/name`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import mcp_types as types

from server.clients.known import client_of
from server.listing.envelope import COMPLETE, user_message
from server.listing.prompts import (
    WITH_SKILLS,
    added_prompt_source,
    offers_context,
    prompt_sources,
    with_added_prompts,
)
from server.listing.resources import TEMPLATE, listed_files
from server.protocol.prompt_words import listed_for, typed, typed_words
from server.protocol.tools.skill_context import ContextHandlers
from server.requests import RequestReason, Use, note_invalid, note_skill, note_target
from server.wire.params import InvalidRequestError
from skills_core.diagnostics import one_line
from skills_core.errors import UnknownSkillError
from skills_core.rendering.activation import render_request
from skills_core.skills.skill import SCHEME, decode_path

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from server.listing.snapshot import Snapshot
    from server.protocol.recipients import Recipients
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill

logger = logging.getLogger(__name__)


class PromptHandlers:
    """The handlers of `prompts/list` and `prompts/get`."""

    def __init__(
        self, host: Host, recipients: Recipients, on_listed: Callable[[ServerRequestContext[Any, Any]], None]
    ) -> None:
        """Answer from `host`; `recipients` knows for whom a request's text is rendered.

        `on_listed` is called with each request for the list.
        """
        self._host = host
        self._on_listed = on_listed
        self._recipients = recipients
        self._context = ContextHandlers(host, recipients)

    async def list(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `prompts/list`."""
        self._on_listed(ctx)
        view = self._host.view(ctx)
        cursor = params.cursor if params else None
        page = view.prompts.page(cursor)
        if cursor is None and (sources := prompt_sources(self._host.parts)):
            page = await anyio.to_thread.run_sync(with_added_prompts, page, view.catalog, sources)
        return listed_for(client_of(ctx), page, view.catalog)

    async def get(self, ctx: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams) -> dict[str, Any]:
        """Handle `prompts/get`."""
        view = self._host.view(ctx)
        catalog = view.catalog
        if params.name == WITH_SKILLS and offers_context(catalog):
            return await self._context.prompt(params.arguments or {}, ctx, view)
        if (source := added_prompt_source(params.name, catalog, prompt_sources(self._host.parts))) is not None:
            added = await anyio.to_thread.run_sync(source.get, params.name)
            if added is not None:
                return _added_prompt(params.name, *added, typed_words(params.arguments or {}, client_of(ctx)))
        view, skill = await self._host.skill(ctx, lambda catalog: _callable_by_users(catalog, params.name))
        given = typed(skill, params.arguments or {}, client_of(ctx))
        self._host.usage.add(skill.settings_key)
        note_skill(skill, Use.ACTIVATED)
        logger.debug("activated %s %s", one_line(skill.key), skill.digest)
        recipient = self._recipients.of(ctx, view)
        text = self._host.texts.text(skill, given.values, recipient)
        return _one_message(skill.description, text, render_request(skill, given.message), *given.notes)


def _callable_by_users(catalog: Catalog, name: str) -> Skill:
    skill = catalog.skill(name, (each for each in catalog.active if each.user_invocable))
    if not skill.user_invocable:
        raise InvalidRequestError(f"The skill {name!r} is for models only (user-invocable: false).")
    return skill


def _added_prompt(name: str, description: str, text: str, words: Sequence[str]) -> dict[str, Any]:
    logger.info("performed by hand: %s", one_line(name))
    return _one_message(description, text, *words)


def _one_message(description: str, *texts: str) -> dict[str, Any]:
    return {"description": description, "messages": [user_message(*texts)], **COMPLETE}


MAX_VALUES = 100
"""Most values in one answer, a limit of the protocol."""

_GROUP = re.compile(r"[\[<]([^\[\]<>]*)[\]>]")


def choices_of(skill: Skill, argument: str) -> tuple[str, ...]:
    """Return the choices that a skill's hint lists for an argument.

    The bracketed groups of `argument-hint` (or `hint`) correspond to the parameters of the body, in order:
    `[filePath] [bullets|table]` lists two choices for the second. If their numbers differ, a group has to name its
    argument first, as in `[format: bullets|table]`.
    """
    groups = _GROUP.findall(skill.frontmatter.argument_hint or skill.frontmatter.hint or "")
    named = skill.parameters
    for number, group in enumerate(groups):
        label, colon, rest = group.partition(":")
        by_name = bool(colon) and label.strip() == argument
        by_place = not colon and len(groups) == len(named) and named[number] == argument
        values = rest if by_name else group
        if (by_name or by_place) and "|" in values:
            return tuple(value.strip() for value in values.split("|") if value.strip())
    return ()


class CompletionHandlers:
    """The handler of `completion/complete`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def complete(
        self, ctx: ServerRequestContext[Any, Any], params: types.CompleteRequestParams
    ) -> dict[str, Any]:
        """Handle `completion/complete`: return values that start with the text first, then those that contain it."""
        view = self._host.view(ctx)
        catalog = view.catalog
        name, value = params.argument.name, params.argument.value
        if isinstance(params.ref, types.PromptReference) and params.ref.name == WITH_SKILLS and offers_context(catalog):
            candidates: Iterable[str] = ()
        elif isinstance(params.ref, types.PromptReference) and added_prompt_source(
            params.ref.name, catalog, prompt_sources(self._host.parts)
        ):
            # It has no arguments.
            candidates = ()
        elif isinstance(params.ref, types.PromptReference):
            note_target(params.ref.name)
            skill = catalog.skill(params.ref.name, (each for each in catalog.active if each.user_invocable))
            candidates = choices_of(skill, name) if skill.user_invocable else ()
        elif params.ref.uri == TEMPLATE:
            context = (params.context.arguments if params.context else None) or {}
            candidates = _template_values(view, name, context.get("skill"))
        else:
            raise InvalidRequestError(f"unknown resource template {params.ref.uri[:200]!r}; there is {TEMPLATE!r}")
        found = _ranked(candidates, value)
        completion = {"values": found[:MAX_VALUES], "total": len(found), "hasMore": len(found) > MAX_VALUES}
        return {"completion": completion, **COMPLETE}


def _template_values(view: Snapshot, variable: str, skill: str | None) -> Iterable[str]:
    """Return values as they are encoded in URIs, so that the expanded template can be read."""
    catalog, settings = view.catalog, view.settings
    if variable == "skill":
        return (_tail(skill.root_uri, SCHEME) for skill in catalog.active)
    if variable != "path":
        raise InvalidRequestError(f"the template has no variable {variable[:100]!r}; it has skill and path")
    if skill is None:
        return sorted({path for one in catalog.active for path in _paths(one, settings)})
    note_target(skill)
    try:
        return _paths(catalog.skill(decode_path(SCHEME + skill) or skill), settings)
    except UnknownSkillError:
        note_invalid(RequestReason.UNKNOWN_SKILL)
        return ()


def _paths(skill: Skill, settings: Settings) -> list[str]:
    return [_tail(skill.file_uri(path), skill.root_uri) for path in listed_files(skill, settings)]


def _tail(uri: str, beginning: str) -> str:
    return uri.removeprefix(beginning).removesuffix("/")


def _ranked(candidates: Iterable[str], value: str) -> list[str]:
    folded = value.casefold()
    matching = [candidate for candidate in candidates if folded in candidate.casefold()]
    return sorted(matching, key=lambda candidate: not candidate.casefold().startswith(folded))
