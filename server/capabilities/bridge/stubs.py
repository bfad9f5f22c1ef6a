"""The stubs that a client should have for the skills of a server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from server.access import LOCAL
from server.clients.known import find_client
from server.hosting.views import role_rule, roles_of
from server.listing.layout import first_of
from server.transport.client_commands import USUAL_NAME
from skills_core.disk.sources import Scope, real_path
from skills_core.format.stubs import render_stub, stub_name
from skills_core.rendering.catalog import ACTIVATION_TOOL, listing_order

if TYPE_CHECKING:
    from server.capabilities.bridge.clients import BridgedClient
    from server.clients.profile import ClientProfile
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


@dataclass(slots=True)
class WantedStubs:
    """The texts of stubs by their names, and by key why a skill has none."""

    texts: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def server_name(settings: Settings) -> str:
    """Return the name by which clients call this server."""
    return settings.clients.server_name or USUAL_NAME


def local_catalog(catalog: Catalog, settings: Settings) -> Catalog:
    """Return what a client on this machine sees of a catalog, without a token."""
    rule = role_rule(settings.access)
    return catalog if rule is None else rule.part_of(catalog, roles_of(settings.access).of(LOCAL))


def wanted_stubs(client: BridgedClient, seen: Catalog, settings: Settings, home: Path) -> WantedStubs:
    """Return the stubs of the skills in `seen` for a client of the user with this home.

    Skills that the client finds itself have none, nor have those of a project: other sessions of the client, in other
    folders, would see them too.
    """
    found, server = WantedStubs(), server_name(settings)
    own = tuple(real_path(place) for place in client.own_places(home, os.environ))
    called = _called(find_client(client.facts), server)
    candidates = _bridged(listing_order(seen, first_of(seen, settings.catalog.pinned, {})), own)
    for skill in islice(candidates, client.most):
        name = stub_name(skill.key)
        if not name:
            found.left_out[skill.key] = "its name has no letter that every client accepts"
        elif name in found.texts:
            found.left_out[skill.key] = f"another skill has the stub {name}"
        else:
            found.texts[name] = render_stub(
                name,
                skill.key,
                skill.description,
                server=server,
                called=called,
                user_invocable=skill.user_invocable,
            )
    more = sum(1 for _ in candidates)
    if more:
        found.left_out[f"{more} further skills"] = f"{client.title} gets at most {client.most:,} stubs"
    return found


def _bridged(skills: Iterable[Skill], own: tuple[Path, ...]) -> Iterator[Skill]:
    for skill in skills:
        source = skill.source
        if source.project is None and source.scope is not Scope.WORKSPACE and source.root not in own:
            yield skill


def _called(profile: ClientProfile, server: str) -> str:
    form = profile.called.value if profile.called else "mcp__{server}__{tool}"
    return form.format(server=server, tool=ACTIVATION_TOOL)
