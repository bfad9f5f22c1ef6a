"""What `runs list`, `runs show` and `runs cancel` do with traces and the record of runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from server.cli.console import WRONG_USE, fail, tell
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places
from server.run.trace_files import summaries, trace_store
from skills_core.run.models import has_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.run.ports import JsonObject

__all__ = ["cancelled_runs", "listed_runs", "shown_run"]

_NO_RECORD = "The record of runs cannot be read without the extra `run`: pip install 'skillserve[run]'."
_AS_WRITTEN = "What follows is what traces say by themselves, which may be out of date."


def listed_runs() -> list[JsonObject]:
    """Return the summaries of all runs, the latest first; what cannot be read is told of on stderr."""
    if not has_extra():
        found = summaries(trace_store().readable(tell).values())
        if found:
            tell(f"{_NO_RECORD} {_AS_WRITTEN}")
        return found
    from server.run.run_list import open_overview
    from skills_core.run.durable.errors import StoreError

    try:
        with open_overview(settings_of(Machine(current_places()), {})) as overview:
            return summaries(overview.listed(tell))
    except StoreError as error:
        tell(f"{error} {_AS_WRITTEN}")
        return summaries(trace_store().readable(tell).values())


def shown_run(run_id: str) -> JsonObject:
    """Return the trace of a run with what the record says of it.

    Raises:
        UnknownTraceError: there is neither a trace nor a record of it.
    """
    if not has_extra():
        return trace_store().read(run_id)
    from server.run.run_list import open_overview
    from skills_core.run.durable.errors import StoreError

    try:
        with open_overview(settings_of(Machine(current_places()), {})) as overview:
            return overview.shown(run_id, tell)
    except StoreError as error:
        tell(f"{error} {_AS_WRITTEN}")
        return trace_store().read(run_id)


def cancelled_runs(run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Cancel runs, and return for each whether it is cancelled, with its status and a word about it.

    Raises:
        StoreError: the record cannot be used.
    """
    if not has_extra():
        fail("runs cannot be cancelled without the extra `run`: pip install 'skillserve[run]'", WRONG_USE)
    from server.run.run_list import open_overview

    with open_overview(settings_of(Machine(current_places()), {})) as overview:
        return [asdict(overview.cancel(run_id)) for run_id in dict.fromkeys(run_ids)]
