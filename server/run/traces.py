"""Where traces of runs are kept on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.run.trace.store import TraceStore

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["trace_store"]


def trace_store(state: Path) -> TraceStore:
    """Return the traces below the folder `state`."""
    return TraceStore(state / "runs")
