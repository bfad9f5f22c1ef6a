"""Build the run service from a library and settings, for servers and for the command line."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from server.config.guard_factory import guard_of
from server.run.after_run import no_improvements, nothing_after_run
from server.run.pool_id import pool_id
from server.run.recovery_log import log_interrupted
from server.run.service import RunService
from server.run.skill_runner import RunnerConfig
from server.run.trace_files import run_store, trace_store
from server.scripts.factory import script_runner, variables_of
from skills_core.run.durable.heartbeat import ignore_interrupted
from skills_core.run.durable.recorded_run import WorkerConfig

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping

    from server.config.settings import Settings
    from server.run.after_run import AfterRun, Improvements
    from skills_core.library import Library
    from skills_core.run.durable.engine import Engine
    from skills_core.run.durable.worker import Job

__all__ = ["create_service", "recording"]

_BEATS_A_LEASE = 6
# So often a worker renews its lease, if it is short: it gives up its runs after two thirds of it.


def create_service(
    library: Library,
    settings: Settings,
    after_run: AfterRun = nothing_after_run,
    improvements: Improvements = no_improvements,
) -> RunService:
    """Return the service that runs the skills of `library`; it records nothing until `recording` is entered.

    `after_run` is awaited after each run of a skill, before a caller who waits for the run has its outcome, and
    `improvements` returns what it has changed.
    The first call in a process starts a subprocess to test whether a sandbox works.
    """
    config = RunnerConfig(
        settings,
        lambda: guard_of(library.catalog.active, settings.guard),
        trace_store(),
        script_runner(settings),
        variables_of,
    )
    return RunService(config, lambda: library.catalog, after_run, improvements)


@asynccontextmanager
async def recording(
    service: RunService,
    library: Library,
    settings: Settings,
    only: Iterable[str] | None = None,
    *,
    unattended: bool = False,
    more_jobs: Mapping[str, Job] = MappingProxyType({}),
) -> AsyncGenerator[Engine]:
    """Record the service's runs in the store that the settings name, and complete interrupted runs.

    `only` limits the recovery to these run IDs. An `unattended` recovery logs each interrupted run, and skips the runs
    that were interrupted longer ago than the settings allow. `more_jobs` are those of further kinds of runs.

    Raises:
        StoreError: the store cannot be used.
    """
    lease = settings.lease_seconds
    pool = pool_id(settings, (source.root for source in library.sources))
    terms = WorkerConfig(
        # Runs of a kind that a worker lacks have a pool of their own: it would take them from the queue, and hold each
        # one back for the grace time before another worker can have it.
        pool="-".join([pool, *sorted(more_jobs)]),
        at_once=settings.runs.at_once,
        beat_seconds=min(1.0, lease / _BEATS_A_LEASE),
        grace_seconds=lease,
        only=None if only is None else frozenset(only),
        resume_seconds=settings.runs.resume_seconds if unattended else None,
    )
    async with service.recording(
        run_store(settings.runs), terms, log_interrupted if unattended else ignore_interrupted, more_jobs
    ) as engine:
        yield engine
