"""What dbos keeps to itself and we cannot do without. All of it stands here, and is tried each time an engine opens.

- dbos reads a record with `pickle` where the record says so, whichever way of writing was chosen. Whoever can write to
  the database could so run code here. We take that reader away.
- It has no public call that hands a run back to the queue if, and only if, it still belongs to a given executor, and
  that keeps count of the attempts.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from dbos import _dbos, _serialization
from dbos._sys_db import SystemDatabase
from dbos._utils import GlobalParams

from skills_core.run.durable.errors import StoreError
from skills_core.run.durable.plain_json import PlainJson

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["hand_back", "only_json", "refuse_what_does_not_fit", "stop_retrying"]

_PICKLED_NONE: Final = "gAROLg=="
_MARK: Final = _serialization.DefaultSerializer().name()


class _UnreadableError(ValueError):
    """A record asks to be read with pickle."""


def _refuse(self: object, serialized_data: str) -> Any:  # noqa: ANN401 - stands in for dbos's reader
    del self, serialized_data
    raise _UnreadableError("records are JSON")


@contextmanager
def only_json() -> Iterator[None]:
    """Take the reader of pickles away from dbos, for as long as the engine is open.

    Raises:
        StoreError: this version of dbos would still read pickles.
    """
    reader = _serialization.DefaultSerializer.deserialize
    _serialization.DefaultSerializer.deserialize = _refuse  # type: ignore[method-assign,assignment]
    try:
        _try_pickles()
        yield
    finally:
        _serialization.DefaultSerializer.deserialize = reader  # type: ignore[method-assign]


def _try_pickles() -> None:
    ours = PlainJson()
    for read in (
        _serialization.deserialize_value,
        _serialization.deserialize_args,
        _serialization.deserialize_exception,
    ):
        try:
            read(_PICKLED_NONE, _MARK, ours)
        except _UnreadableError:
            continue
        raise _wrong_version()


def refuse_what_does_not_fit() -> None:
    """See that dbos is there for us alone and has what we need.

    Raises:
        StoreError: it is not or has not.
    """
    if not callable(getattr(SystemDatabase, "reenqueue_for_recovery", None)):
        raise _wrong_version()
    if _dbos._dbos_global_instance is not None:  # noqa: SLF001 - DBOS() would hand out this one
        raise StoreError("This process has an engine for runs open already. Close it first: there can be one only.")
    if GlobalParams.dbos_cloud:
        raise StoreError("The variable DBOS__CLOUD is set, which would hand runs to a service. Unset it.")


def _wrong_version() -> StoreError:
    return StoreError(f"dbos {GlobalParams.dbos_version} does not do what runs rely on. Install dbos 3.4.")


def hand_back(run_id: str, executor: str, queue: str) -> bool:
    """Let a running run of `executor` wait in its queue again, `queue` if it has none; return whether it was so."""
    database = _database()
    return database is not None and database.reenqueue_for_recovery(run_id, [executor], queue)


def stop_retrying() -> None:
    """Let calls that wait for a lost database fail from now on: the engine is closing."""
    if (database := _database()) is not None:
        database._retry_connection_errors = False  # noqa: SLF001 - no public way


def _database() -> SystemDatabase | None:
    instance = _dbos._dbos_global_instance  # noqa: SLF001 - no public way
    return instance._sys_db_field if instance is not None else None  # noqa: SLF001 - no public way
