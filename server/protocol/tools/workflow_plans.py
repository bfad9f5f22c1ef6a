"""The workflows that clients may run: listed for a model, and made plans that can be run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from server.listing.envelope import text_block, tool_result
from server.run.workflow_files import UnknownWorkflowError, read_workflow_file, workflow_files
from skills_core.errors import did_you_mean, similar_to
from skills_core.rendering.escaping import escape_json
from skills_core.run.workflow.document import read_workflow
from skills_core.run.workflow.faults import is_valid
from skills_core.run.workflow.plan import prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skills_core.catalog import Catalog
    from skills_core.run.workflow.model import Workflow
    from skills_core.run.workflow.plan import Plan

__all__ = ["listed", "planned"]

logger = logging.getLogger(__name__)


def planned(places: Iterable[str], name: str, catalog: Catalog, inputs: Mapping[str, str]) -> Plan:
    """Return the workflow of this name among `places`, checked, with its inputs.

    Raises:
        UnknownWorkflowError: there is none.
        InvalidWorkflowError: something is wrong with it or the inputs.
    """
    files = workflow_files(places)
    if name not in files:
        hint = did_you_mean(similar_to(name, files))
        raise UnknownWorkflowError(f"There is no workflow {name[:100]!r}.{hint}")
    return prepare(read_workflow_file(files[name]), name, catalog, inputs)


def listed(places: Iterable[str]) -> dict[str, Any]:
    """Return the result that tells which workflows there are: those without faults; what cannot be read is logged."""
    found: list[dict[str, Any]] = []
    for name, file in workflow_files(places).items():
        try:
            read = read_workflow(read_workflow_file(file), name)
        except UnknownWorkflowError as error:
            logger.warning("a workflow is not listed: %s", error)
            continue
        if read.workflow is not None and is_valid(read.faults):
            described = {"name": name, "description": read.workflow.description, "inputs": _inputs(read.workflow)}
            found.append(described)
    structured = {"status": "listed", "workflows": found}
    return {**tool_result([text_block(escape_json(found))]), "structuredContent": structured}


def _inputs(workflow: Workflow) -> dict[str, Any]:
    return {
        each.name: {"description": each.description, "required": each.required, "default": each.default}
        for each in workflow.inputs.values()
    }
