"""The interface of leases: a worker owns its runs as long as it holds its lease."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["Lease", "LeaseLostError", "new_worker"]


def new_worker() -> str:
    """Return a unique name: two workers with one name would both look alive while one of them is."""
    return uuid.uuid4().hex


class LeaseLostError(Exception):
    """The lease could not be renewed this time; the message says why."""


class Lease(Protocol):
    """The lease of a worker. Methods may wait for a disk or a database; properties do not."""

    @property
    def place(self) -> str:
        """The location of the store, for messages: without a password."""

    @property
    def worker(self) -> str:
        """The worker that owns this lease."""

    @property
    def term(self) -> int:
        """How often the lease was lost and renewed: another worker may own the runs of an earlier term."""

    @property
    def holds(self) -> bool:
        """Whether no other worker can have taken over this worker's runs."""

    def renew(self) -> None:
        """Show that this worker is alive. Raises LeaseLostError, or StoreError if the store is gone permanently."""

    def taking_over(self, worker: str) -> AbstractContextManager[bool]:
        """Yield whether that worker is dead, exclusively: inside the block, no other worker gets this answer.

        Raises LeaseLostError.
        """

    def close(self) -> None:
        """Give the lease up: this worker performs no more runs."""
