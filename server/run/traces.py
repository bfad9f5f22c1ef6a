"""Where traces of runs are kept on this machine."""

from __future__ import annotations

from server.environment import state_home
from skills_core.run.trace.store import TraceStore

__all__ = ["trace_store"]


def trace_store() -> TraceStore:
    """Return the traces of this user's runs."""
    return TraceStore(state_home() / "runs")
