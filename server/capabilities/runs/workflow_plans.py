"""The workflows that clients may run: list them, and make plans of them."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from server.capabilities.runs.workflow_files import UnknownWorkflowError, read_workflow_file, workflow_files
from server.listing.envelope import text_block, tool_result
from server.requests import RequestReason, note_invalid
from skills_core.errors import UnknownSkillError, did_you_mean, similar_to
from skills_core.rendering.escaping import escape_json
from skills_core.runs.workflow.document import read_workflow
from skills_core.runs.workflow.faults import is_valid
from skills_core.runs.workflow.plan import prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from skills_core.catalog.catalog import Catalog
    from skills_core.runs.workflow.model import Workflow
    from skills_core.runs.workflow.plan import Plan

__all__ = ["listed", "planned"]

logger = logging.getLogger(__name__)


def planned(
    places: Iterable[str], name: str, catalog: Catalog, inputs: Mapping[str, str], *, is_view: bool = False
) -> Plan:
    """Return the workflow of this name among `places`, checked, with its inputs.

    If the catalog `is_view`, which others see more of, a workflow with a step that it lacks is as unknown as its skill.

    Raises:
        UnknownWorkflowError: there is no such workflow.
        InvalidWorkflowError: the workflow or an input is invalid.
    """
    files = workflow_files(places)
    if is_view:
        files = {known: file for known, file in files.items() if _is_within(catalog, _read(known, file))}
    if name not in files:
        note_invalid(RequestReason.UNKNOWN_WORKFLOW)
        hint = did_you_mean(similar_to(name, files))
        raise UnknownWorkflowError(f"There is no workflow {name[:100]!r}.{hint}")
    return prepare(read_workflow_file(files[name]), name, catalog, inputs)


def listed(places: Iterable[str], view: Catalog | None = None) -> dict[str, Any]:
    """Return the list of the workflows without faults as a tool's result; log which files cannot be read.

    With a `view`, only workflows whose steps are all skills of it are listed.
    """
    found: list[dict[str, Any]] = []
    for name, file in workflow_files(places).items():
        workflow = _read(name, file)
        if workflow is not None and (view is None or _is_within(view, workflow)):
            found.append({"name": name, "description": workflow.description, "inputs": _inputs(workflow)})
    structured = {"status": "listed", "workflows": found}
    text = escape_json(found) if found else "There is no workflow that can be run here."
    return {**tool_result([text_block(text)]), "structuredContent": structured}


def _read(name: str, file: Path) -> Workflow | None:
    """Return the workflow in a file, None if there is none without faults."""
    try:
        read = read_workflow(read_workflow_file(file), name)
    except UnknownWorkflowError as error:
        logger.warning("a workflow is not listed: %s", error)
        return None
    return read.workflow if is_valid(read.faults) else None


def _is_within(view: Catalog, workflow: Workflow | None) -> bool:
    """Tell whether a workflow has no fault and no step that performs a skill outside a view."""
    if workflow is None:
        return False
    with suppress(UnknownSkillError):
        return all(view.skill(step.target, ()) for step in workflow.skill_steps)
    return False


def _inputs(workflow: Workflow) -> dict[str, Any]:
    return {
        each.name: {"description": each.description, "required": each.required, "default": each.default}
        for each in workflow.inputs.values()
    }
