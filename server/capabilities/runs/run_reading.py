"""Read runs and their traces for people: with the record of runs if it can be used, else from the trace files alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from server.capabilities.runs.offered import trace_store
from skills_core.installation import extra_advice
from skills_core.runs.models import has_extra

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonObject

_TRACES_ONLY = "The result comes from the trace files alone and may be outdated."


def read_runs(settings: Settings, tell: Callable[[str], None]) -> list[JsonObject]:
    """Return all runs as traces, latest first; `tell` gets a message about each that cannot be read."""
    if not has_extra():
        found = [*trace_store().readable(tell).values()]
        if found:
            tell(f"{_TRACES_ONLY} Reading the record of runs requires the extra `run`; {extra_advice('run')}")
        return found
    from server.capabilities.runs.run_list import open_run_list
    from skills_core.runs.durable.recorded_run import StoreError

    try:
        with open_run_list(settings) as run_list:
            return run_list.all(tell)
    except StoreError as error:
        tell(f"{error} {_TRACES_ONLY}")
        return [*trace_store().readable(tell).values()]


def read_run(settings: Settings, run_id: str, tell: Callable[[str], None]) -> JsonObject:
    """Return the trace of a run, with the status from the record.

    Raises:
        UnknownTraceError: the run has neither a trace nor a record.
    """
    if not has_extra():
        return trace_store().read(run_id)
    from server.capabilities.runs.run_list import open_run_list
    from skills_core.runs.durable.recorded_run import StoreError

    try:
        with open_run_list(settings) as run_list:
            return run_list.get(run_id, tell)
    except StoreError as error:
        tell(f"{error} {_TRACES_ONLY}")
        return trace_store().read(run_id)


def without_secrets_of(settings: Settings, value: Any) -> Any:  # noqa: ANN401 - of the kind of the value
    """Return a JSON value that is shown, without the secrets of the settings and of this process.

    Traces were redacted when they were written; inputs in the record, and texts of earlier settings, were not.
    """
    if not has_extra():
        return value
    from server.capabilities.runs.skill_runner import process_secrets

    return process_secrets(settings).redact_json(value)
