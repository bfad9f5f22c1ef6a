"""Build the run service from a library and settings, for servers and for the command line."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from server.capabilities.guard.guards import guard_of
from server.capabilities.guard.settings import GuardSettings
from server.capabilities.runs.offered import run_store, trace_store
from server.capabilities.runs.service import RunService
from server.capabilities.runs.settings import RunSettings, lease_seconds
from server.capabilities.runs.skill_runner import RunnerConfig
from server.capabilities.scripts.factory import script_runner, variables_of
from server.capabilities.scripts.settings import RUN_SKILL_SCRIPT, ScriptSettings
from server.config.values import home_path
from skills_core.diagnostics import one_line
from skills_core.runs.durable.heartbeat import ignore_interrupted
from skills_core.runs.durable.recorded_run import WorkerConfig

if TYPE_CHECKING:
    from server.capability import AfterRun, Improvements
    from server.config.settings.model import Settings
    from skills_core.live.library import Library
    from skills_core.runs.durable.engine import Engine
    from skills_core.runs.durable.heartbeat import InterruptedRun
    from skills_core.runs.durable.recorded_run import RecordedRun
    from skills_core.runs.durable.worker import Job

logger = logging.getLogger(__name__)


def pool_id(settings: Settings, roots: Iterable[Path], environment: Mapping[str, str] = os.environ) -> str:
    """Return the pool ID of a process with these settings and with the skills below `roots`.

    Processes with another model, other tools or other folders get another ID.
    """
    runs, scripts = settings.section(RunSettings), settings.section(ScriptSettings)
    guard = settings.section(GuardSettings)
    # Settings that affect the outcome of a run, or what it can access. The keys are hashed, so they must not change.
    values = {
        "model": runs.model,
        "run_tools": runs.tools,
        "skill_tools": settings.tools.declared,
        "danger_patterns": guard.danger_patterns,
        "confirm_patterns": guard.confirm_patterns,
        "require_sandbox": scripts.require_sandbox,
        "script_environment": scripts.environment,
        "script_network": scripts.network,
        "script_package_urls": scripts.package_urls,
        "script_uv_environment": scripts.uv_environment,
    }
    if scripts.cwd is not None:
        # The default has no key, because a further key changes every ID.
        values["script_cwd"] = scripts.cwd
    # Paths are resolved against the working directory.
    paths = {
        "workspace": _absolute(runs.workspace),
        "mcp_servers": _absolute(runs.mcp_servers),
        "script_workspace": _absolute(scripts.workspace),
    }
    # These variables set the addresses of model providers.
    addresses = {name: value for name, value in environment.items() if name.endswith("_BASE_URL")}
    offered = RUN_SKILL_SCRIPT in settings.tools.enabled
    text = json.dumps([values, paths, addresses, offered, sorted(map(str, roots))], sort_keys=True, default=list)
    return f"runs-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(home_path(path).resolve())


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def log_interrupted(interrupted: InterruptedRun) -> None:
    """Log whether the server continues or skips a run, because a continued run may have side effects."""
    run_id, target, age = interrupted.run.run_id, _target(interrupted.run), _age(interrupted.seconds)
    if interrupted.continued:
        logger.warning("run %s of %s is continued: it was interrupted %s ago", run_id, target, age)
        return
    logger.warning(
        "run %s of %s is not continued: it was interrupted %s ago, longer than run_resume_seconds allows; "
        "`skillserve runs resume` continues it, `skillserve runs cancel %s` ends it",
        *(run_id, target, age, run_id),
    )


def _target(run: RecordedRun) -> str:
    """Return the kind of a run, and the name of its skill, workflow or schedule."""
    plan = run.given.get("plan")
    name = plan.get("name") if isinstance(plan, dict) else run.given.get("skill") or run.given.get("schedule")
    return f"{run.kind or 'unknown kind'} {one_line(str(name))[:100]}"


def _age(seconds: float) -> str:
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


_BEATS_A_LEASE = 6
# So often a worker renews its lease, if it is short: it gives up its runs after two thirds of it.


def create_service(
    library: Library,
    settings: Settings,
    after_run: AfterRun | None = None,
    improvements: Improvements | None = None,
) -> RunService:
    """Return the service that runs the skills of `library`; it records nothing until `recording` is entered.

    `after_run` is awaited after each run of a skill, before a caller who waits for the run has its outcome, and
    `improvements` returns what it has changed.
    The first call in a process starts a subprocess to test whether a sandbox works.
    """
    config = RunnerConfig(
        settings,
        lambda: guard_of(library.catalog.active, settings.section(GuardSettings)),
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
    lease, runs = lease_seconds(settings), settings.section(RunSettings)
    pool = pool_id(settings, (source.root for source in library.sources))
    terms = WorkerConfig(
        # Runs of a kind that a worker lacks have a pool of their own: it would take them from the queue, and hold each
        # one back for the grace time before another worker can have it.
        pool="-".join([pool, *sorted(more_jobs)]),
        at_once=runs.at_once,
        beat_seconds=min(1.0, lease / _BEATS_A_LEASE),
        grace_seconds=lease,
        only=None if only is None else frozenset(only),
        resume_seconds=runs.resume_seconds if unattended else None,
    )
    on_interrupted = log_interrupted if unattended else ignore_interrupted
    async with service.recording(run_store(runs), terms, on_interrupted, more_jobs) as engine:
        yield engine
