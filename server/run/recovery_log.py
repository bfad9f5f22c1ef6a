"""What a server logs of the interrupted runs that it comes upon."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from skills_core.run.durable.recorded_run import Run
    from skills_core.run.durable.takeover import Interrupted

__all__ = ["log_interrupted"]

logger = logging.getLogger(__name__)

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def log_interrupted(interrupted: Interrupted) -> None:
    """Log whether a run is continued or left alone: it may change things, and nobody asks for it now."""
    run_id, what, age = interrupted.run.run_id, _name(interrupted.run), _age(interrupted.seconds)
    if interrupted.continued:
        logger.warning("run %s of %s is continued: it was interrupted %s ago", run_id, what, age)
        return
    logger.warning(
        "run %s of %s is left alone: it was interrupted %s ago, longer than run_resume_seconds says; "
        "`skillserve runs resume` continues it, `skillserve runs cancel %s` ends it",
        *(run_id, what, age, run_id),
    )


def _name(run: Run) -> str:
    """Return what a run performs: a skill, or a workflow by its name."""
    plan = run.given.get("plan")
    named = plan.get("name") if isinstance(plan, dict) else run.given.get("skill")
    return f"{run.kind or 'unknown kind'} {one_line(str(named))[:100]}"


def _age(seconds: float) -> str:
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
