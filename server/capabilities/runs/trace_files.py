"""Locate the record of runs and the trace files, and summarize traces for lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.config.machine import state_home
from skills_core.runs.durable.store import SqliteStore, store_of
from skills_core.runs.trace.store import TraceStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.capabilities.runs.settings import RunSettings
    from skills_core.format.yaml12 import JsonObject
    from skills_core.runs.durable.store import Store

__all__ = ["run_store", "summaries", "trace_store"]

_SUMMARY = (
    "run_id",
    "skill",
    "workflow",
    "digest",
    "model",
    "started",
    "ended",
    "status",
    "problem",
    "message",
    "trigger_reason",
)


def trace_store() -> TraceStore:
    """Return the store of the trace files on this machine."""
    return TraceStore(state_home() / "runs")


def run_store(settings: RunSettings) -> Store:
    """Return the store that records runs: the configured one, or a SQLite file of this user."""
    if settings.store is not None:
        return store_of(settings.store.get_secret_value())
    return SqliteStore(state_home() / "runs.sqlite")


def summaries(traces: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the summary fields of each trace."""
    return [{key: trace.get(key) for key in _SUMMARY} for trace in traces]
