"""Requests for resources: lists, contents, and the Skills extension `io.modelcontextprotocol/skills` (SEP-2640)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from server.clients.known import client_of
from server.clients.layout import page_for
from server.listing.envelope import EXTENSIONS, without_envelope
from server.listing.extensions import extensions_of, read_for
from server.listing.resources import (
    extra_contents,
    extra_resource,
    served_uri,
)
from server.requests import RequestReason, Use, note_denied, note_skill
from server.wire.params import InvalidRequestError
from skills_core.diagnostics import Reason

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server

    from server.hosting.host import Host
    from skills_core.skills.skill import Skill


class ResourceHandlers:
    """The handlers of `resources/list`, `resources/templates/list` and `resources/read`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def list(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `resources/list`."""
        view = self._host.view(ctx)
        return page_for(client_of(ctx), view.resources.page(params.cursor if params else None), "resources")

    async def list_templates(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `resources/templates/list`."""
        view = self._host.view(ctx)
        if params is not None and params.cursor is not None:
            raise InvalidRequestError("invalid cursor: this list has one page; ask for it without a cursor")
        return view.templates

    async def read(
        self, ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> dict[str, Any]:
        """Handle `resources/read`."""
        view, uri = self._host.view(ctx), str(params.uri)
        if (contents := await read_for(uri, extensions_of(ctx, view.settings))) is not None:
            # Only some clients may read it, so no cache may hand it to others.
            return {"contents": [contents], **view.envelope, "cacheScope": "private"}
        if (extra := extra_resource(uri, view.settings)) is not None:
            return extra_contents(extra, await extra.read(view.catalog, view.settings), view.envelope)
        if extra_resource(uri, self._host.settings) is not None:
            note_denied(RequestReason.ROLE)
        skill, file, raw = await self._host.read(uri, ctx)
        note_skill(skill, Use.READ)
        return view.contents(served_uri(uri, skill, file), file, raw)


class _GetParams(types.RequestParams):
    uri: str


class _DirectoryParams(types.PaginatedRequestParams):
    uri: str


class SkillsExtension:
    """The handlers of `skills/list`, `skills/get` and `resources/directory/read`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def register(self, server: Server[Any]) -> None:
        """Declare the extension and add its methods."""
        server.extensions.update(EXTENSIONS)
        server.add_request_handler("skills/list", types.PaginatedRequestParams, self.list)
        server.add_request_handler("skills/get", _GetParams, self.get)
        server.add_request_handler("resources/directory/read", _DirectoryParams, self.read_directory)

    async def list(self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams) -> dict[str, Any]:
        """Handle `skills/list`."""
        view = self._host.view(ctx)
        return _for_era(ctx, view.skills.page(params.cursor))

    async def get(self, ctx: ServerRequestContext[Any, Any], params: _GetParams) -> dict[str, Any]:
        """Handle `skills/get`: the entry of the skill whose SKILL.md the URI names."""
        view = self._host.view(ctx)
        found = view.catalog.file(params.uri)
        if found is None or not found[0].content.is_main(found[1]):
            raise InvalidRequestError(f"No skill is served at {params.uri[:500]}")
        note_skill(found[0], Use.READ)
        if not found[0].content.published:
            raise InvalidRequestError(
                f"The skill at {params.uri[:500]} is not published: {_unpublished_reason(found[0])}"
            )
        return _for_era(ctx, view.skill(found[0]))

    async def read_directory(self, ctx: ServerRequestContext[Any, Any], params: _DirectoryParams) -> dict[str, Any]:
        """Handle `resources/directory/read`: direct children only."""
        view = self._host.view(ctx)
        pages = view.directory(params.uri)
        if pages is None:
            raise InvalidRequestError(f"Not a directory resource: {params.uri[:500]}")
        return _for_era(ctx, pages.page(params.cursor))


def _unpublished_reason(skill: Skill) -> str:
    messages = (found.message for found in skill.diagnostics if found.code is Reason.NOT_PUBLISHED)
    return next(messages, "the status of the server says why")


def _for_era(ctx: ServerRequestContext[Any, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Remove the envelope for clients of the handshake era; the SDK does so for its own methods only."""
    return without_envelope(result) if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else result
