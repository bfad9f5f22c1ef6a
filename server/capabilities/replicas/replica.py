"""This server as one of several replicas."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import anyio

from server.capabilities.replicas.following import CatalogFollower
from server.capabilities.replicas.forwarding import CallForwarding
from server.capabilities.replicas.keys import shared_keys
from server.capabilities.replicas.link import RedisLink
from server.capabilities.replicas.settings import ReplicaSettings
from server.capability import ServerPart

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.protocol.server import SkillServer


class Replica(ServerPart):
    """What a server does to be one of several replicas."""

    def __init__(self, host: Host) -> None:
        """Prepare to follow the other replicas of the host's settings.

        Raises:
            ReplicaSettingsError: the settings cannot be used.
        """
        settings = host.settings.section(ReplicaSettings)
        self.name = secrets.token_hex(8)
        self._link = RedisLink(settings, shared_keys(settings))
        self._following = CatalogFollower(host, self._link, self.name)
        self.forwarding: CallForwarding | None = None

    def attach(self, server: SkillServer) -> None:
        """Let clients continue calls of `server` at any replica."""
        self.forwarding = CallForwarding(self._link, self.name, server.exchanges)
        server.exchanges.join(self.forwarding)

    async def run(self) -> None:
        """Follow the other replicas until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._link.run)
            tasks.start_soon(self._following.run)
            if self.forwarding is not None:
                tasks.start_soon(self.forwarding.run)

    @property
    def is_connected(self) -> bool:
        """Whether this replica hears of the others now."""
        return self._link.is_connected

    @property
    def running(self) -> int:
        """How many calls are being answered whose clients are at other replicas."""
        return 0 if self.forwarding is None else self.forwarding.running
