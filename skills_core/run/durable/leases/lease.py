"""What a worker holds for as long as its runs are its own."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["Lease", "LeaseLostError", "new_worker"]


def new_worker() -> str:
    """Return a name that no worker had before: a name used twice would look alive while one of both is."""
    return uuid.uuid4().hex


class LeaseLostError(Exception):
    """The lease could not be renewed this time; the message says why."""


class Lease(Protocol):
    """What a worker holds. All calls may wait for a disk or a database, but the properties."""

    @property
    def place(self) -> str:
        """Where runs are recorded, for messages: without a password."""

    @property
    def worker(self) -> str:
        """Whose lease this is."""

    @property
    def term(self) -> int:
        """How often the lease was lost and begun again: what was begun in an earlier term may be another worker's."""

    @property
    def holds(self) -> bool:
        """Whether nobody can have taken over this worker's runs."""

    def renew(self) -> None:
        """Show that this worker is alive. Raises LeaseLostError, and StoreError where the store is gone for good."""

    def taking_over(self, worker: str) -> AbstractContextManager[bool]:
        """Yield whether that worker is dead; while inside, nobody else is told so. Raises LeaseLostError."""

    def close(self) -> None:
        """Say that this worker performs nothing any more."""
