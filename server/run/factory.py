"""From a library and settings to a service that performs runs, alike for the command line and for servers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from server.config.guard_factory import guard_of
from server.run.pool_id import pool_of
from server.run.recovery_log import log_interrupted
from server.run.service import RunService
from server.run.skill_runner import RunnerConfig
from server.run.trace_files import store_in, trace_store
from server.scripts.factory import script_runner, variables_of
from skills_core.run.durable.takeover import ignored
from skills_core.run.durable.worker_config import Terms

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from server.config.settings import Settings
    from skills_core.library import Library
    from skills_core.run.durable.engine import Engine

__all__ = ["recording", "service_of"]


def service_of(library: Library, settings: Settings) -> RunService:
    """Return what performs the skills of `library`; nothing is recorded until `recording` is entered.

    The first time it tries out whether a sandbox works, which starts a process.
    """
    surroundings = RunnerConfig(
        settings,
        lambda: guard_of(library.catalog.active, settings),
        trace_store(),
        script_runner(settings),
        variables_of,
    )
    return RunService(surroundings, lambda: library.catalog)


@asynccontextmanager
async def recording(
    service: RunService,
    library: Library,
    settings: Settings,
    only: Iterable[str] | None = None,
    *,
    unasked: bool = False,
) -> AsyncGenerator[Engine]:
    """Let the service record its runs where settings say, and complete those that were interrupted; `only` these.

    Where they are completed `unasked`, those that were interrupted too long ago by the settings are left alone, and the
    log says of each what becomes of it.

    Raises:
        StoreError: the store cannot be used.
    """
    pool = pool_of(settings, (source.root for source in library.sources))
    terms = Terms(
        pool=pool,
        at_once=settings.runs_at_once,
        grace_seconds=settings.run_lease_seconds,
        only=None if only is None else frozenset(only),
        resume_seconds=settings.run_resume_seconds if unasked else None,
    )
    async with service.recording(store_in(settings), terms, log_interrupted if unasked else ignored) as engine:
        yield engine
