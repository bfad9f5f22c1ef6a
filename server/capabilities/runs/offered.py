"""What settings say of runs: whether clients can run skills and workflows, and why not, the model, and the stores.

The entries of the tools are in `tools`, which a server without runs does not import.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from server.capabilities.runs.settings import RUN_SKILL, RUN_WORKFLOW, RunSettings
from server.config.machine import state_home
from server.config.values import home_path
from skills_core.diagnostics import one_line, printable
from skills_core.errors import Fault, fault_of
from skills_core.runs.models import CLIENT, ModelUnavailableError, check_model, open_model, parse_model

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.config.settings.model import Settings
    from server.config.settings.tools import ToolSettings
    from server.config.values import SecretStr
    from skills_core.runs.durable.store import Store
    from skills_core.runs.trace import TraceStore

logger = logging.getLogger(__name__)


def runs_unavailable_reason(settings: RunSettings, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return why no skill can be run, None if one can as far as is known without a request to the model."""
    if settings.model is None:
        return "no model is set; name one with --model"
    try:
        check_model(parse_model(settings.model), environment)
    except ModelUnavailableError as error:
        return str(error)
    return None


def command_unavailable_reason(settings: RunSettings) -> str | None:
    """Return why a command can run no skill, None if it can: it has no connected client whose model could."""
    if (reason := runs_unavailable_reason(settings)) is not None or settings.model != CLIENT:
        return reason
    return "the model `client` needs a connected client; name another model with --model"


def offers_tool(settings: Settings) -> bool:
    """Return whether `run_skill` is available: it is switched on, and a model is configured."""
    return RUN_SKILL in settings.tools.enabled and runs_unavailable_reason(settings.section(RunSettings)) is None


def offers_workflows(settings: Settings) -> bool:
    """Return whether `run_workflow` is available: it is switched on, and a model and workflows are configured."""
    runs = settings.section(RunSettings)
    named = RUN_WORKFLOW in settings.tools.enabled
    return named and runs_unavailable_reason(runs) is None and _why_no_workflow(runs) is None


def offers_runs(settings: Settings) -> bool:
    """Return whether clients can run skills or workflows."""
    return offers_tool(settings) or offers_workflows(settings)


def runs_object(settings: Settings) -> dict[str, Any]:
    """Return what the status says of runs: the model, and for each tool whether it is available, and why not."""
    runs = settings.section(RunSettings)
    reason = runs_unavailable_reason(runs)
    model = str(parse_model(runs.model)) if runs.model and reason is None else None
    skill = reason or _not_switched_on(RUN_SKILL, settings.tools)
    workflow = reason or _not_switched_on(RUN_WORKFLOW, settings.tools) or _why_no_workflow(runs)
    return {
        "model": model,
        RUN_SKILL: skill is None,
        "reason": skill,
        RUN_WORKFLOW: workflow is None,
        "workflow_reason": workflow,
        "missing_workflows": list(map(printable, _missing(runs.workflows))),
    }


def missing_tool_messages(settings: Settings) -> Iterator[str]:
    """Yield a message for each tool and workflow that settings name and that is not available."""
    status = runs_object(settings)
    if RUN_SKILL in settings.tools.enabled and status["reason"]:
        yield f"{RUN_SKILL} is not available: {status['reason']}"
    if (RUN_WORKFLOW in settings.tools.enabled or settings.section(RunSettings).workflows) and status[
        "workflow_reason"
    ]:
        yield f"{RUN_WORKFLOW} is not available: {status['workflow_reason']}"
    gone = missing_message(status["missing_workflows"])
    if gone and gone != status["workflow_reason"]:
        yield gone


def runs_statement(runs: Mapping[str, Any]) -> str:
    """Return the sentence of the status about `runs`, as `runs_object` returns it."""
    reasons = {RUN_SKILL: runs["reason"], RUN_WORKFLOW: runs["workflow_reason"]}
    available = " and ".join(tool for tool, reason in reasons.items() if reason is None)
    offered = f"clients can call {available}" if available else "clients cannot run skills or workflows"
    model = f" (model {runs['model']})" if runs["model"] else ""
    statements = (*reasons.values(), missing_message(runs["missing_workflows"]))
    why = "; ".join(dict.fromkeys(each for each in statements if each))
    return f"{offered}{model}{'; ' if available else ': '}{why}" if why else f"{offered}{model}"


def log_missing_tools(settings: Settings) -> None:
    """Warn of the tools and workflows that settings name and that are not available."""
    for missing in missing_tool_messages(settings):
        logger.warning("%s", one_line(missing))


def missing_message(places: Sequence[str]) -> str | None:
    """Return the message for places of workflows that do not exist, None if there are none."""
    return f"--workflow names files or folders that do not exist: {', '.join(places)}" if places else None


def _why_no_workflow(settings: RunSettings) -> str | None:
    if not settings.workflows:
        return "no workflow is named; name a file or a folder with --workflow"
    missing = _missing(settings.workflows)
    return missing_message(list(map(printable, missing))) if len(missing) == len(settings.workflows) else None


@cache
def _missing(places: tuple[str, ...]) -> tuple[str, ...]:
    """Return the places of workflows that do not exist, looked up once, since each list of tools depends on them."""
    return tuple(str(home_path(place)) for place in places if _is_missing(place))


def _is_missing(place: str) -> bool:
    # `os.path.exists` reports every error as absence.
    try:
        os.stat(home_path(place))  # noqa: PTH116 - one call is all
    except ValueError:
        return True
    except OSError as error:
        return fault_of(error) in {Fault.ABSENT, Fault.REFUSED}
    return False


def _not_switched_on(tool: str, settings: ToolSettings) -> str | None:
    return None if tool in settings.enabled else f"the tool {tool} is not switched on; do so with --tool {tool}"


def open_configured(runs: RunSettings) -> Model:
    """Return the model of the runs without making a request.

    Raises:
        ModelUnavailableError: it cannot be used.
    """
    return open_named(runs.model or "", runs.model_key)


def open_named(name: str, key: SecretStr | None) -> Model:
    """Return a model with its key, which is used only if the name is an address, without making a request.

    Raises:
        ModelUnavailableError: it cannot be used.
    """
    return open_model(parse_model(name), key.get_secret_value() if key else None)


def trace_store() -> TraceStore:
    """Return the store of the trace files on this machine."""
    from skills_core.runs.trace import TraceStore

    return TraceStore(state_home() / "runs")


def run_store(settings: RunSettings) -> Store:
    """Return the store that records runs: the configured one, or a SQLite file of this user."""
    from skills_core.runs.durable.store import SqliteStore, store_of

    if settings.store is not None:
        return store_of(settings.store.get_secret_value())
    return SqliteStore(state_home() / "runs.sqlite")
