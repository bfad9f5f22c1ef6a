"""Keep the stubs of clients in step with the skills while a server runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server.capabilities.bridge.clients import bridged_clients
from server.capabilities.bridge.settings import BridgeSettings
from server.capabilities.bridge.stub_folder import StubReport, sync_stubs
from server.capabilities.bridge.stubs import local_catalog, server_name, wanted_stubs
from server.capability import ServerPart
from server.config.machine import current_places
from skills_core.diagnostics import counted, one_line

if TYPE_CHECKING:
    from server.hosting.host import Host
    from skills_core.catalog.catalog import Catalog

logger = logging.getLogger(__name__)

_FIRST_BURST_SECONDS, _FIRST_BURST_AT_MOST = 0.1, 2.0
# Without a request, and at most, before the first stubs are written.

_NAMED = 3
# Stubs that a line of the log names.


class Bridge(ServerPart):
    """The stubs of one server."""

    needs_skills = True

    def __init__(self, host: Host) -> None:
        """Prepare to write stubs of the skills of `host` that a client without a token sees."""
        self._host = host
        known = bridged_clients()
        self._clients = [known[each] for each in host.settings.section(BridgeSettings).clients]
        self._home = current_places().home
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Write the stubs, and again after each change of the skills, until cancelled."""
        self._host.on_change(lambda _: self._changed.set())
        # A client's first requests come in a burst.
        await self._host.background.wait(_FIRST_BURST_SECONDS, _FIRST_BURST_AT_MOST)
        while True:
            self._changed = anyio.Event()
            await anyio.to_thread.run_sync(self._sync, self._host.everything)
            await self._changed.wait()

    def _sync(self, catalog: Catalog) -> None:
        settings = self._host.settings
        seen = local_catalog(catalog, settings)
        for client in self._clients:
            stubs = wanted_stubs(client, seen, settings, self._home)
            self._log(sync_stubs(client.place(self._home), stubs.texts, server_name(settings)))

    def _log(self, report: StubReport) -> None:
        folder = one_line(str(report.folder))
        if report.fault:
            logger.warning("the stubs in %s cannot be written: %s", folder, one_line(report.fault))
        if report.differs:
            written, removed = counted(len(report.written), "stub"), len(report.removed)
            logger.info("wrote %s and removed %d in %s", written, removed, folder)
        for name, reason in [*report.kept.items()][:_NAMED]:
            logger.warning("%s/%s is left as it is: %s", folder, one_line(name), reason)
