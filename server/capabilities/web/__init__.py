"""The page at `/`: what skills there are, what they say, what is wrong with them, and what runs without their users.

The page shows what its visitor may see as a client: the skills of its roles. Other capabilities add panels to the page
of a skill, and tabs beside the catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capabilities.web.settings import SECTION, WebSettings
from server.capability import Capability

if TYPE_CHECKING:
    from server.capability import ServerPart
    from server.hosting.host import Host


def _http_part(host: Host) -> ServerPart | None:
    if not host.settings.section(WebSettings).enabled:
        return None
    if host.views_differ and not host.settings.access.known_roles:
        # A program has a rule of its own, whose views have other names than those of roles.
        return None
    from server.capabilities.web.part import WebPage

    return host.service(WebPage)


CAPABILITY: Final = Capability(name="web", sections=(SECTION,), http_part=_http_part)
