"""Own the run service of a server: open it in the background, and close it with the server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from server.listing.runs import offers_runs
from skills_core.errors import SkillsError
from skills_core.run.models import CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from server.hosting.host import Host
    from server.run.after_run import FollowUp
    from server.run.service import RunService
    from skills_core.run.durable.engine import Engine
    from skills_core.run.durable.worker import Job

__all__ = ["BackgroundRuns", "RunSupervisor", "RunsUnavailableError", "create_host_service"]

logger = logging.getLogger(__name__)


class RunsUnavailableError(SkillsError):
    """The run service failed to start; the log has the cause."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"This server cannot run skills ({kind}); its log has the cause.")


class BackgroundRuns(Protocol):
    """Runs without a client, which a server begins by itself."""

    def jobs(self, follow_up: FollowUp) -> Mapping[str, Job]:
        """Return the jobs of their kinds, which call `follow_up` with each run of a skill that has ended."""

    async def run(self, engine: Engine) -> None:
        """Begin runs until cancelled."""


def create_host_service(host: Host) -> RunService:
    """Return the run service for the skills of a host."""
    from server.run.factory import create_service

    return create_service(host.library, host.settings)


class RunSupervisor:
    """The run service of one server, if its settings offer runs."""

    def __init__(
        self,
        host: Host,
        create: Callable[[Host], RunService] = create_host_service,
        background: BackgroundRuns | None = None,
    ) -> None:
        """Run the skills of `host` with the service that `create` returns, and `background` runs beside them.

        Nothing is opened before `run` starts.
        """
        self._host = host
        self._create = create
        self._background = background
        self._ready = anyio.Event()
        self._service: RunService | None = None
        self._error: SkillsError | None = None
        self._closing = False

    def close(self) -> None:
        """Announce the server's end: runs cancelled from now on stay interrupted, for the next server to continue.

        Call it before cancelling the requests that wait for the runs.
        """
        self._closing = True
        if self._service is not None:
            self._service.close()

    async def run(self) -> None:
        """Open the service, complete interrupted runs, and keep the service open until cancelled."""
        if not offers_runs(self._host.settings) and self._background is None:
            return
        try:
            # The import takes about a second; in a thread, the server answers requests meanwhile.
            service = await anyio.to_thread.run_sync(self._create, self._host)
            if self._host.settings.runs.model == CLIENT and self._background is None:
                self._open(service)
                return
            from server.run.factory import recording

            jobs = {} if self._background is None else self._background.jobs(service.follow_up)
            async with recording(
                service, self._host.library, self._host.settings, unattended=True, more_jobs=jobs
            ) as engine:
                self._open(service)
                if self._background is not None:
                    await self._background.run(engine)
                await anyio.sleep_forever()
        except SkillsError as error:
            logger.error("skills cannot be run: %s", error)  # noqa: TRY400 - the message is complete
            self._fail(error)
        except Exception as error:
            # The server goes on without runs.
            logger.exception("skills cannot be run")
            self._fail(RunsUnavailableError(type(error).__name__))

    def _fail(self, error: SkillsError) -> None:
        self._error = error
        self._ready.set()

    async def service(self) -> RunService:
        """Wait until the service is open, and return it.

        Raises:
            SkillsError: the service cannot be opened.
        """
        await self._ready.wait()
        if self._error is not None:
            raise self._error
        assert self._service is not None  # noqa: S101 - set before the event
        return self._service

    def _open(self, service: RunService) -> None:
        self._service = service
        if self._closing:
            service.close()
        self._ready.set()
