"""This server as one of several replicas."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import anyio

from server.replicas.following import CatalogFollower
from server.replicas.keys import shared_keys
from server.replicas.link import RedisLink

if TYPE_CHECKING:
    from server.hosting.host import Host

__all__ = ["Replica"]


class Replica:
    """What a server does to be one of several replicas."""

    def __init__(self, host: Host) -> None:
        """Prepare to follow the other replicas of the host's settings.

        Raises:
            ReplicaSettingsError: the settings cannot be used.
        """
        settings = host.settings.replicas
        self.name = secrets.token_hex(8)
        self._link = RedisLink(settings, shared_keys(settings))
        self._following = CatalogFollower(host, self._link, self.name)

    async def run(self) -> None:
        """Follow the other replicas until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._link.run)
            tasks.start_soon(self._following.run)

    @property
    def is_connected(self) -> bool:
        """Whether this replica hears of the others now."""
        return self._link.is_connected
