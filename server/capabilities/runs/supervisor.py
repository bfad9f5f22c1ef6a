"""Own the run service of a server: open it in the background, and close it with the server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.capabilities.runs.additions import background_runs, open_service
from server.capabilities.runs.offered import offers_runs
from server.capabilities.runs.settings import RunSettings
from server.capability import ServerPart
from server.limits.pacing import Backoff
from skills_core.errors import SkillsError
from skills_core.runs.models import CLIENT

if TYPE_CHECKING:
    from server.capabilities.runs.service import RunService
    from server.hosting.host import Host

logger = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 30.0
_OPENING_SECONDS: Final = 10.0
# How long a call waits for a database that has not answered since the server was started.


class RunsUnavailableError(SkillsError):
    """The run service is not open; the log has the cause."""

    def __init__(self, why: str) -> None:
        super().__init__(f"This server cannot run skills ({why}); its log has the cause.")


class RunSupervisor(ServerPart):
    """The run service of one server, if its settings offer runs, and the runs that the server begins by itself."""

    needs_skills = True

    def __init__(self, host: Host) -> None:
        """Run the skills of `host`; nothing is opened before `run` starts."""
        self._host = host
        self._background = background_runs(host)
        self._created = anyio.Event()
        self._ready = anyio.Event()
        self._service: RunService | None = None
        self._error: SkillsError | None = None
        self._problem = ""
        self._closing = False

    def close(self) -> None:
        """Announce the server's end: runs cancelled from now on stay interrupted, for the next server to continue.

        Call it before cancelling the requests that wait for the runs.
        """
        self._closing = True
        if self._service is not None:
            self._service.close()

    async def run(self) -> None:
        """Open the service, complete interrupted runs, and keep the service open until cancelled.

        While the database of runs cannot be reached, try again, with pauses that grow.
        """
        if not offers_runs(self._host.settings) and self._background is None:
            return
        try:
            # The import takes about a second; in a thread, the server answers requests meanwhile.
            service = await anyio.to_thread.run_sync(_create_service, self._host)
            self._created.set()
            if self._host.settings.section(RunSettings).model == CLIENT and self._background is None:
                self._open(service)
                return
            for pause in Backoff(_FIRST_RETRY_SECONDS, _RETRY_SECONDS):
                problem = await self._keep_open(service)
                self._fail(RunsUnavailableError("its record of runs cannot be reached now; try again later"), problem)
                await anyio.sleep(pause)
        except SkillsError as error:
            self._fail(error, str(error))
        except Exception as error:
            # The server goes on without runs.
            logger.exception("skills cannot be run")
            self._fail(RunsUnavailableError(type(error).__name__))

    async def _keep_open(self, service: RunService) -> str:
        """Keep the service open until cancelled; return why the database of runs cannot be reached."""
        from server.capabilities.runs.factory import recording
        from skills_core.runs.durable.recorded_run import StoreUnreachableError

        jobs = {} if self._background is None else self._background.jobs(service.follow_up)
        try:
            async with recording(
                service, self._host.library, self._host.settings, unattended=True, more_jobs=jobs
            ) as engine:
                self._open(service)
                if self._background is not None:
                    await self._background.run(engine, service.improvements)
                await anyio.sleep_forever()
        except StoreUnreachableError as error:
            return str(error)
        raise AssertionError("only an error ends the block")

    def _fail(self, error: SkillsError, problem: str = "") -> None:
        """Answer calls with `error`; log a `problem` once."""
        if problem and problem != self._problem:
            logger.error("skills cannot be run: %s", problem)
        self._problem, self._error = problem, error
        self._created.set()
        self._ready.set()

    async def service(self) -> RunService:
        """Wait until the service is open, and return it.

        Raises:
            SkillsError: the service cannot be opened, or its database has not answered yet.
        """
        await self._created.wait()
        with anyio.move_on_after(_OPENING_SECONDS):
            await self._ready.wait()
        if self._error is not None:
            raise self._error
        if self._service is None:
            raise RunsUnavailableError("its record of runs is still being opened; try again later")
        return self._service

    def _open(self, service: RunService) -> None:
        self._service = service
        if self._problem:
            logger.info("skills can be run: the database of runs can be reached")
        self._problem, self._error = "", None
        if self._closing:
            service.close()
        self._ready.set()


def _create_service(host: Host) -> RunService:
    # A watcher would notice a change after a run too, but may be off.
    return open_service(host.library, host.settings, host.try_reload)
