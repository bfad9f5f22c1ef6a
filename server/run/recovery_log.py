"""Log the interrupted runs that a server continues or skips."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from skills_core.run.durable.heartbeat import InterruptedRun
    from skills_core.run.durable.recorded_run import RecordedRun

__all__ = ["log_interrupted"]

logger = logging.getLogger(__name__)

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
