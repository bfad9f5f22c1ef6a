"""Whether skills can be performed here, by settings alone: without a model there is no tool for it, and status says so.

It imports nothing that performs: a server that lists its tools has no use for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config import OptionalTool
from skills_core.run.models import ModelUnavailableError, parse_model

if TYPE_CHECKING:
    from server.config import Settings

__all__ = ["offers_runs", "runs_object", "why_no_runs"]


def why_no_runs(settings: Settings) -> str | None:
    """Return why no skill can be performed, None where one can."""
    if settings.model is None:
        return "no model is set; name one with --model, or --model client for the connected client's own"
    try:
        parse_model(settings.model)
    except ModelUnavailableError as error:
        return str(error)
    return None


def offers_runs(settings: Settings) -> bool:
    """Tell whether the tool `run_skill` is there: where settings name it, and a model."""
    return OptionalTool.RUN_SKILL in settings.tools and why_no_runs(settings) is None


def runs_object(settings: Settings) -> dict[str, Any]:
    """Return what status says of runs."""
    reason = why_no_runs(settings)
    if reason is None and OptionalTool.RUN_SKILL not in settings.tools:
        reason = "the tool is not switched on; do so with --tool run_skill"
    model = settings.model and str(parse_model(settings.model)) if why_no_runs(settings) is None else None
    return {"model": model, "run_skill": reason is None, "reason": reason}
