"""Requests for resources: the list, the templates, and contents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from server.capabilities.operation.tools import read_status
from server.listing.resources import STATUS_URI, contents_of, offers_status, served_uri, status_contents
from server.requests.notes import note_denied, note_skill
from server.requests.records import RequestReason, Use
from server.wire.invalid_request import InvalidRequestError

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext

    from server.hosting.host import Host

__all__ = ["ResourceHandlers"]


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
        if uri == STATUS_URI and offers_status(view.settings):
            return status_contents(
                json.dumps(await read_status(view.catalog, view.settings), ensure_ascii=False), view.envelope
            )
        if uri == STATUS_URI and offers_status(self._host.settings):
            note_denied(RequestReason.ROLE)
        skill, file, raw = await self._host.read(uri, ctx)
        note_skill(skill, Use.READ)
        return {"contents": [contents_of(served_uri(uri, skill, file), file, raw)], **view.envelope}
