"""Keeps the service that performs runs beside a server: opened in the background, closed with it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server.listing.runs import offers_runs
from skills_core.errors import SkillsError
from skills_core.run.models import CLIENT

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.run.service import RunService

__all__ = ["RunSupervisor", "RunsUnavailableError"]

logger = logging.getLogger(__name__)


class RunsUnavailableError(SkillsError):
    """Runs cannot be performed here, for a reason that the log tells."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"Skills cannot be run here ({kind}); the server's log says why.")


class RunSupervisor:
    """The service of one server, where settings offer runs."""

    def __init__(self, host: Host) -> None:
        """Perform the skills of `host`; nothing is opened before `keep` runs."""
        self._host = host
        self._ready = anyio.Event()
        self._service: RunService | None = None
        self._fault: SkillsError | None = None
        self._closing = False

    def close(self) -> None:
        """Take note that the server is about to end: runs that are cancelled from now on are continued by the next.

        It has to be called before what waits for them is cancelled.
        """
        self._closing = True
        if self._service is not None:
            self._service.close()

    async def keep(self) -> None:
        """Open the service, complete what was interrupted, and be there until cancelled."""
        if not offers_runs(self._host.settings):
            return
        try:
            # What performs takes a second to import, in which others want to be answered.
            service = await anyio.to_thread.run_sync(self._made)
            if self._host.settings.model == CLIENT:
                self._open(service)
                return
            from server.run.factory import recording

            async with recording(service, self._host.library, self._host.settings, unasked=True):
                self._open(service)
                await anyio.sleep_forever()
        except SkillsError as error:
            logger.error("no skill can be run: %s", error)  # noqa: TRY400 - the message says it all
            self._fail(error)
        except Exception as error:
            # Skills are served all the same.
            logger.exception("no skill can be run")
            self._fail(RunsUnavailableError(type(error).__name__))

    def _fail(self, error: SkillsError) -> None:
        self._fault = error
        self._ready.set()

    async def service(self) -> RunService:
        """Return the service once it is open.

        Raises:
            SkillsError: it cannot be opened.
        """
        await self._ready.wait()
        if self._fault is not None:
            raise self._fault
        assert self._service is not None  # noqa: S101 - set before the event is
        return self._service

    def _made(self) -> RunService:
        from server.run.factory import service_of

        return service_of(self._host.library, self._host.settings)

    def _open(self, service: RunService) -> None:
        self._service = service
        if self._closing:
            service.close()
        self._ready.set()
