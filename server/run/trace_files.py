"""Where runs are recorded and where their traces are kept, and what a list tells of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.config.machine import state_home
from skills_core.run.durable.store import SqliteStore, store_of
from skills_core.run.trace.store import TraceStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.config.settings import Settings
    from skills_core.run.durable.store import Store
    from skills_core.run.ports import JsonObject

__all__ = ["store_in", "summaries", "trace_store"]

_SUMMARY = ("run_id", "skill", "workflow", "digest", "model", "started", "ended", "status", "problem", "message")


def trace_store() -> TraceStore:
    """Return the traces of this user's runs."""
    return TraceStore(state_home() / "runs")


def store_in(settings: Settings) -> Store:
    """Return where runs are recorded."""
    if settings.run_store is not None:
        return store_of(settings.run_store.get_secret_value())
    return SqliteStore(state_home() / "runs.sqlite")


def summaries(traces: Iterable[JsonObject]) -> list[JsonObject]:
    """Return what a list tells of each trace."""
    return [{key: trace.get(key) for key in _SUMMARY} for trace in traces]
