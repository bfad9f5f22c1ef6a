"""Skills as downloads over HTTP, for the installers of many agents: `/.well-known/agent-skills/index.json`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from server.capabilities.publish.settings import SECTION, PublishMode, PublishSettings, check_publish, public_roles
from server.capability import Capability

if TYPE_CHECKING:
    from server.capability import PublicAddress, ServerPart
    from server.config.settings.model import Settings
    from server.hosting.host import Host

logger = logging.getLogger(__name__)


def _http_part(host: Host) -> ServerPart | None:
    roles = public_roles(host.settings)
    if roles is None:
        if host.settings.section(PublishSettings).mode is PublishMode.ON:
            logger.warning("nothing is published, because clients have to log in and publish.roles names no known role")
        return None
    if host.views_differ and not host.settings.access.known_roles:
        # A program has a rule of its own, whose views have other names than those of roles.
        return None
    from server.capabilities.publish.part import Publishing

    return Publishing(host, roles)


def _hints(settings: Settings, address: PublicAddress) -> Iterable[str]:
    if public_roles(settings) is None:
        return ()
    is_usual = address.endpoint == address.origin + settings.http.path
    # A profile has downloads of its own.
    command = f"npx skills add {address.origin if is_usual else address.endpoint}"
    return ("Copy the skills into the folders of agents on your machine:", f"  {command}")


CAPABILITY: Final = Capability(
    name="publish",
    sections=(SECTION,),
    checks=check_publish,
    http_part=_http_part,
    hints=_hints,
)
