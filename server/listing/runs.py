"""Whether skills are performed here, by settings alone: which tools for it there are, and why not.

It stands apart from what the tools look like, which a server without them has no use for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from server.config import OptionalTool
from skills_core.run.models import ModelUnavailableError, check_model, parse_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.config import Settings

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
    "why_no_runs",
]

RUN = OptionalTool.RUN_SKILL.value
RUN_WORKFLOW = OptionalTool.RUN_WORKFLOW.value

CONTINUE = "continue"
"""The argument by which a call goes on with a run that has not finished, or whose user said no."""
CONFIRM = "confirm"
"""The argument by which a call says that the user agrees."""


def why_no_runs(settings: Settings, environment: Mapping[str, str] = os.environ) -> str | None:
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
    return OptionalTool.RUN_SKILL in settings.tools and why_no_runs(settings) is None


def offers_workflows(settings: Settings) -> bool:
    """Tell whether the tool `run_workflow` is there: it is where settings name it, a model, and workflows."""
    named = OptionalTool.RUN_WORKFLOW in settings.tools and bool(settings.workflows)
    return named and why_no_runs(settings) is None


def offers_runs(settings: Settings) -> bool:
    """Tell whether clients can have anything performed."""
    return offers_tool(settings) or offers_workflows(settings)


def may_ask(settings: Settings) -> bool:
    """Tell whether a tool may have to ask the user, or tell of its progress, before it answers."""
    scripts = OptionalTool.RUN_SKILL_SCRIPT in settings.tools or bool(settings.skill_tools)
    return scripts or offers_runs(settings)


def runs_object(settings: Settings) -> dict[str, Any]:
    """Return what status says of runs: the model, and for each tool that performs whether it is there, and why not."""
    reason = why_no_runs(settings)
    model = str(parse_model(settings.model)) if settings.model and reason is None else None
    skill, workflow = reason or _not_switched_on(RUN, settings), reason or _not_switched_on(RUN_WORKFLOW, settings)
    if workflow is None and not settings.workflows:
        workflow = "no workflow is named; name a file or a folder with --workflow"
    return {
        "model": model,
        RUN: skill is None,
        "reason": skill,
        RUN_WORKFLOW: workflow is None,
        "workflow_reason": workflow,
    }


def _not_switched_on(tool: str, settings: Settings) -> str | None:
    return None if tool in settings.tools else f"the tool {tool} is not switched on; do so with --tool {tool}"
