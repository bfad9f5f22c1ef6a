"""Read and cancel runs for `runs list`, `runs show` and `runs cancel`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from server.cli.console import EXIT_USAGE, fail, print_notice
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places
from server.run.trace_files import summaries, trace_store
from skills_core.run.models import has_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.run.ports import JsonObject

__all__ = ["cancel_runs", "read_summaries", "read_trace"]

_NO_RECORD = "Reading the record of runs requires the extra `run`: pip install 'skillserve[run]'."
_TRACES_ONLY = "The result comes from the trace files alone and may be outdated."


def read_summaries() -> list[JsonObject]:
    """Return the summaries of all runs, latest first; report unreadable traces on stderr."""
    if not has_extra():
        found = summaries(trace_store().readable(print_notice).values())
        if found:
            print_notice(f"{_NO_RECORD} {_TRACES_ONLY}")
        return found
    from server.run.run_list import open_run_list
    from skills_core.run.durable.recorded_run import StoreError

    try:
        with open_run_list(settings_of(Machine(current_places()), {})) as run_list:
            return summaries(run_list.all(print_notice))
    except StoreError as error:
        print_notice(f"{error} {_TRACES_ONLY}")
        return summaries(trace_store().readable(print_notice).values())


def read_trace(run_id: str) -> JsonObject:
    """Return the trace of a run, with the status from the record.

    Raises:
        UnknownTraceError: the run has neither a trace nor a record.
    """
    if not has_extra():
        return trace_store().read(run_id)
    from server.run.run_list import open_run_list
    from skills_core.run.durable.recorded_run import StoreError

    try:
        with open_run_list(settings_of(Machine(current_places()), {})) as run_list:
            return run_list.get(run_id, print_notice)
    except StoreError as error:
        print_notice(f"{error} {_TRACES_ONLY}")
        return trace_store().read(run_id)


def cancel_runs(run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Cancel runs; return for each run whether it is cancelled, its status and a message.

    Raises:
        StoreError: the record cannot be used.
    """
    if not has_extra():
        fail("cancelling runs requires the extra `run`: pip install 'skillserve[run]'", EXIT_USAGE)
    from server.run.run_list import open_run_list

    with open_run_list(settings_of(Machine(current_places()), {})) as run_list:
        return [asdict(run_list.cancel(run_id)) for run_id in dict.fromkeys(run_ids)]
