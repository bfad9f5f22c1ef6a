"""Measure a change with the evals of the skill: both versions perform all cases, and the pass rate must not fall."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from server.evals.iterations.plan import EvalOptions, plan_eval
from server.evals.iterations.session import EvalSession, check_models
from skills_core.errors import SkillsError
from skills_core.evals.grading.cases import EVALS_FILE
from skills_core.evals.grading.results import Arm
from skills_core.improve.reasons import ImprovementReason, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.config.settings import Settings
    from server.improve.folders import ImprovementFolders

__all__ = ["EVAL_SECONDS", "has_evals", "refusal_of_benchmark", "refusal_of_evals"]

logger = logging.getLogger(__name__)

EVAL_SECONDS = 1800.0
"""Time limit for the evals of one change."""

_AT_ONCE = 2


def has_evals(folders: ImprovementFolders) -> bool:
    """Tell whether the skill has evals."""
    return (folders.before / EVALS_FILE).is_file()


async def refusal_of_evals(folders: ImprovementFolders, settings: Settings) -> tuple[Refusal | None, dict[str, Any]]:
    """Run the evals of both versions; return why the change is not taken, and the pass rates.

    A change that cannot be measured is not taken.
    """
    try:
        with anyio.fail_after(EVAL_SECONDS):
            benchmark = await _benchmark(folders, settings)
    except TimeoutError:
        return Refusal(ImprovementReason.EVALS_FAILED, f"the evals took longer than {EVAL_SECONDS:g} seconds"), {}
    except (SkillsError, OSError) as error:
        return Refusal(ImprovementReason.EVALS_FAILED, str(error)), {}
    return refusal_of_benchmark(benchmark)


def refusal_of_benchmark(benchmark: Mapping[str, Any]) -> tuple[Refusal | None, dict[str, Any]]:
    """Return why a change with these results is not taken, and the pass rates of both versions."""
    before, after = (_rate(benchmark, arm) for arm in (Arm.OLD_SKILL, Arm.WITH_SKILL))
    rates = {"before": before, "after": after}
    if before is None or after is None or _has_errors(benchmark):
        return Refusal(ImprovementReason.EVALS_FAILED, "a run of the evals failed or could not be graded"), rates
    if after < before:
        message = f"the pass rate would fall from {before:.0%} to {after:.0%}"
        return Refusal(ImprovementReason.PASS_RATE_LOWER, message), rates
    return None, rates


async def _benchmark(folders: ImprovementFolders, settings: Settings) -> dict[str, Any]:
    options = EvalOptions(
        skill=folders.after,
        workspace=folders.evals,
        baseline=str(folders.before),
        jobs=_AT_ONCE,
        seconds=float(settings.runs.seconds),
        new=True,
    )
    plan = await anyio.to_thread.run_sync(plan_eval, options, settings, folders.root / "revision")
    check_models(plan, settings)
    return await EvalSession(plan, settings, logger.info).run()


def _rate(benchmark: Mapping[str, Any], arm: Arm) -> float | None:
    rate = benchmark["run_summary"][arm.value]["pass_rate"]["mean"]
    return None if rate is None else float(rate)


def _has_errors(benchmark: Mapping[str, Any]) -> bool:
    return any(run["result"] is None or run["result"].get("errors") for run in benchmark["runs"])
