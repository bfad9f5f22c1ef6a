"""Whether skills are performed here, by settings alone: which tools for it there are, and why not.

It stands apart from what the tools look like, which a server without them has no use for.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from server.config.settings import OptionalTool
from skills_core.diagnostics import printable
from skills_core.run.models import ModelUnavailableError, check_model, parse_model
from skills_core.system_faults import Fault, fault_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from server.config.settings import RunSettings, Settings, ToolSettings

__all__ = [
    "CONFIRM",
    "CONTINUE",
    "RUN",
    "RUN_WORKFLOW",
    "may_ask",
    "offers_runs",
    "offers_tool",
    "offers_workflows",
    "runs_object",
    "said_of_missing",
    "what_is_missing",
    "why_no_runs",
]

RUN = OptionalTool.RUN_SKILL.value
RUN_WORKFLOW = OptionalTool.RUN_WORKFLOW.value

CONTINUE = "continue"
"""The argument by which a call goes on with a run that has not finished, or whose user said no."""
CONFIRM = "confirm"
"""The argument by which a call says that the user agrees."""


def why_no_runs(settings: RunSettings, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return why no skill can be performed, None where one can as far as can be told without asking the model."""
    if settings.model is None:
        return "no model is set; name one with --model"
    try:
        check_model(parse_model(settings.model), environment)
    except ModelUnavailableError as error:
        return str(error)
    return None


def offers_tool(settings: Settings) -> bool:
    """Tell whether the tool `run_skill` is there: it is where settings name it, and a model."""
    return OptionalTool.RUN_SKILL in settings.tools.enabled and why_no_runs(settings.runs) is None


def offers_workflows(settings: Settings) -> bool:
    """Tell whether the tool `run_workflow` is there: it is where settings name it, a model, and workflows."""
    named = OptionalTool.RUN_WORKFLOW in settings.tools.enabled
    return named and why_no_runs(settings.runs) is None and _why_no_workflow(settings.runs) is None


def offers_runs(settings: Settings) -> bool:
    """Tell whether clients can have anything performed."""
    return offers_tool(settings) or offers_workflows(settings)


def may_ask(settings: Settings) -> bool:
    """Tell whether a tool may have to ask the user, or tell of its progress, before it answers."""
    scripts = OptionalTool.RUN_SKILL_SCRIPT in settings.tools.enabled or bool(settings.tools.declared)
    return scripts or offers_runs(settings)


def runs_object(settings: Settings) -> dict[str, Any]:
    """Return what status says of runs: the model, and for each tool that performs whether it is there, and why not."""
    reason = why_no_runs(settings.runs)
    model = str(parse_model(settings.runs.model)) if settings.runs.model and reason is None else None
    skill = reason or _not_switched_on(RUN, settings.tools)
    workflow = reason or _not_switched_on(RUN_WORKFLOW, settings.tools) or _why_no_workflow(settings.runs)
    return {
        "model": model,
        RUN: skill is None,
        "reason": skill,
        RUN_WORKFLOW: workflow is None,
        "workflow_reason": workflow,
        "missing_workflows": list(map(printable, _missing(settings.runs.workflows))),
    }


def what_is_missing(settings: Settings) -> Iterator[str]:
    """Yield what settings ask for of runs and clients do not get, each with the reason."""
    told = runs_object(settings)
    if RUN in settings.tools.enabled and told["reason"]:
        yield f"{RUN} is not there: {told['reason']}"
    if (RUN_WORKFLOW in settings.tools.enabled or settings.runs.workflows) and told["workflow_reason"]:
        yield f"{RUN_WORKFLOW} is not there: {told['workflow_reason']}"
    gone = said_of_missing(told["missing_workflows"])
    if gone and gone != told["workflow_reason"]:
        yield gone


def said_of_missing(places: Sequence[str]) -> str | None:
    """Return the words for places of workflows at which there is nothing, None where there are no such."""
    return f"what --workflow names is not there: {', '.join(places)}" if places else None


def _why_no_workflow(settings: RunSettings) -> str | None:
    if not settings.workflows:
        return "no workflow is named; name a file or a folder with --workflow"
    missing = _missing(settings.workflows)
    return said_of_missing(list(map(printable, missing))) if len(missing) == len(settings.workflows) else None


@cache
def _missing(places: tuple[str, ...]) -> tuple[str, ...]:
    """Return the places of workflows at which there is nothing, looked up once: lists of tools follow skills alone."""
    return tuple(filter(_is_missing, places))


def _is_missing(place: str) -> bool:
    # `os.path.exists` takes every fault of the system for an absence.
    try:
        os.stat(os.path.expanduser(place))  # noqa: PTH111, PTH116 - `Path` raises for a user that is not there
    except ValueError:
        return True
    except OSError as error:
        return fault_of(error) in {Fault.ABSENT, Fault.REFUSED}
    return False


def _not_switched_on(tool: str, settings: ToolSettings) -> str | None:
    return None if tool in settings.enabled else f"the tool {tool} is not switched on; do so with --tool {tool}"
