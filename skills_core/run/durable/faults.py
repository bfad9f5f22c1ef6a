"""Errors of the database and of dbos, told by their type alone: what they say may hold what was recorded."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from dbos import error as dbos_errors
from sqlalchemy.exc import SQLAlchemyError

from skills_core.run.durable.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FAULTS", "faults_told"]

FAULTS: Final = (SQLAlchemyError, dbos_errors.DBOSException)


@contextmanager
def faults_told() -> Iterator[None]:
    """Raise StoreError for what the database or dbos raise inside of the block."""
    try:
        yield
    except FAULTS as error:
        raise StoreError(f"The database of runs cannot be used: {type(error).__name__}.") from None
