"""The wall clock."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["utc_now"]


def utc_now() -> datetime:
    """Return this moment."""
    return datetime.now(UTC)
