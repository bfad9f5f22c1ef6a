"""This server as one of several replicas, which tell each other of changes to the skills.

Replicas exchange no events. Each one tells the others which catalog it has, by a digest. A replica that receives
another digest than its own compares its skills with the disk at once, instead of at its next poll, and announces to
its own subscribers how its catalog differs from the one that it announced last. However many replicas notice a change,
in whatever order, and whatever messages are lost, a subscriber is notified by its own replica, and only of differences.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from server.capabilities.replicas.forwarding import CallForwarding
from server.capabilities.replicas.link import BEAT_SECONDS, LinkLostError, RedisLink
from server.capabilities.replicas.settings import ReplicaSettings, shared_keys
from server.capability import ServerPart

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.protocol.server import SkillServer
    from skills_core.catalog.catalog import Catalog

logger = logging.getLogger(__name__)

CHANNEL: Final = "catalog"
_PAUSES: Final = (0.0, 0.1, 0.3, 1.0, 2.0, 5.0, 15.0, 60.0)
# Seconds before each comparison with the disk: a network file system may show a change later than to the other replica,
# by a minute where it keeps attributes for as long.


def catalog_digest(catalog: Catalog) -> str:
    """Return a digest of the skills, their files and states; it is the same wherever the sources are mounted."""
    numbers = {source.source.root: number for number, source in enumerate(catalog.sources)}
    whole = hashlib.sha256()
    for skill in sorted(catalog.skills, key=lambda skill: (numbers.get(skill.source.root, -1), skill.content.place)):
        content = skill.content
        parts = [str(numbers.get(skill.source.root, -1)), content.place, str(skill.state)]
        parts += (f"{path}\0{file.digest}" for path, file in sorted(content.files.items()))
        whole.update("\0\0".join(parts).encode(errors="surrogatepass") + b"\n")
    return whole.hexdigest()


class CatalogFollower:
    """Tells the other replicas which catalog this one has, and compares with the disk when another one differs."""

    def __init__(self, host: Host, link: RedisLink, replica: str) -> None:
        """Follow the replicas on `link`; `replica` is the name of this one."""
        self._host = host
        self._link = link
        self._replica = replica
        self._digests: dict[str, str] = {}
        self._changed = anyio.Event()
        self._outdated = anyio.Event()
        self._latest = ""
        self._digested: tuple[Catalog, str] | None = None
        link.listen(CHANNEL, self._on_message)
        link.on_subscribed = self._on_change
        link.on_connected = self._catch_up
        host.on_change(lambda _: self._on_change())

    async def run(self) -> None:
        """Follow the others until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._publish_digests)
            tasks.start_soon(self._compare_with_disk)

    def _on_change(self) -> None:
        self._changed.set()

    def _catch_up(self) -> None:
        """Compare with the disk, since messages may have been missed, and tell the others what is here."""
        self._digests.clear()
        self._latest = ""
        self._outdated.set()
        self._changed.set()

    def _on_message(self, message: Mapping[str, Any]) -> None:
        replica, digest = message.get("replica"), message.get("digest")
        if not isinstance(replica, str) or not isinstance(digest, str) or replica == self._replica:
            return
        # Replicas whose catalogs differ for good, by their settings, must not look at the disk at each beat.
        if self._digests.get(replica) != digest:
            self._digests[replica] = self._latest = digest
            self._outdated.set()

    async def _publish_digests(self) -> None:
        """Tell which catalog is here after each change, and regularly, because messages may be lost."""
        while True:
            self._changed = anyio.Event()
            try:
                await self._link.publish(CHANNEL, {"replica": self._replica, "digest": await self._digest()})
            except LinkLostError as error:
                logger.debug("the other replicas are not told of this one's skills: %s", error)
            with anyio.move_on_after(BEAT_SECONDS):
                await self._changed.wait()

    async def _compare_with_disk(self) -> None:
        """Compare with the disk until this replica has the catalog of another, or has looked often enough."""
        while True:
            await self._outdated.wait()
            self._outdated = anyio.Event()
            for pause in _PAUSES:
                with anyio.move_on_after(pause):
                    await self._outdated.wait()
                if self._outdated.is_set() or (self._latest and await self._digest() == self._latest):
                    break
                await self._host.try_reload()
                if not self._latest:
                    break

    async def _digest(self) -> str:
        catalog = self._host.everything
        if self._digested is None or self._digested[0] is not catalog:
            self._digested = catalog, await anyio.to_thread.run_sync(catalog_digest, catalog)
        return self._digested[1]


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
        """Whether this replica receives the messages of the others now."""
        return self._link.is_connected

    @property
    def running(self) -> int:
        """How many calls are being answered whose clients are at other replicas."""
        return 0 if self.forwarding is None else self.forwarding.running
