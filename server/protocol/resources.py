"""Requests for resources: the list, the templates, and contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.listing.resources import contents_of, extra_contents, extra_resources, served_uri
from server.requests.notes import note_denied, note_skill
from server.requests.records import RequestReason, Use
from server.wire.invalid_request import InvalidRequestError

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext

    from server.hosting.host import Host


class ResourceHandlers:
    """The handlers of `resources/list`, `resources/templates/list` and `resources/read`."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host

    async def list(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `resources/list`."""
        view = self._host.view(ctx)
        return view.resources.page(params.cursor if params else None)

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
        for extra in extra_resources(view.settings):
            if extra.uri == uri:
                return extra_contents(extra, await extra.read(view.catalog, view.settings), view.envelope)
        if any(extra.uri == uri for extra in extra_resources(self._host.settings)):
            note_denied(RequestReason.ROLE)
        skill, file, raw = await self._host.read(uri, ctx)
        note_skill(skill, Use.READ)
        return {"contents": [contents_of(served_uri(uri, skill, file), file, raw)], **view.envelope}
