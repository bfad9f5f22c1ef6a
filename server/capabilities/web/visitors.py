"""Who looks at the page, and what they may see and do there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from server.access import LOCAL, Principal
from server.hosting.views import COMMON_VIEW, roles_of
from server.transport.listening import requires_login

if TYPE_CHECKING:
    from starlette.requests import Request

    from server.hosting.host import Host
    from server.hosting.views import ViewName


class Visitor(NamedTuple):
    """Who sent a request for the page, and the name of the view with the skills that it sees.

    `is_operator` and `may_change` are as in `Visit`. `form_token` has to come with each form that it sends.
    """

    principal: Principal
    view: ViewName
    is_operator: bool = False
    may_change: bool = False
    form_token: str = ""


class Visitors:
    """Finds out who sends the requests for one page."""

    def __init__(self, host: Host) -> None:
        """Know the visitors of the page of `host`."""
        self._host = host
        self._needs_login = requires_login(host.settings)

    async def of(self, request: Request) -> Visitor | None:
        """Return the sender of a request, None if it has to log in."""
        del request
        return None if self._needs_login else self._visitor(LOCAL)

    def _visitor(self, principal: Principal) -> Visitor:
        return Visitor(principal, self._view_of(principal))

    def _view_of(self, principal: Principal) -> ViewName:
        if not self._host.views_differ:
            return COMMON_VIEW
        return roles_of(self._host.settings.access).of(principal)
