"""Where runs are recorded, and the leases that tell which workers are alive.

A store is a SQLite file for the processes of one user on one machine, or a PostgreSQL database. Runs of a dead worker
are taken over, those of a live one never. `FileLease` serves the processes that share a SQLite file: a locked file in a
folder beside the database, whose lock the system drops when the process ends. `postgres` has the other lease.
"""

from __future__ import annotations

import os
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias
from urllib.parse import parse_qsl, quote

from skills_core.disk.files import open_to_change
from skills_core.disk.writing import try_lock
from skills_core.runs.durable.recorded_run import StoreError

SCHEMA: Final = "skillserve"
"""PostgreSQL: the schema of all tables."""

_POSTGRES: Final = ("postgresql://", "postgres://")
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class SqliteStore:
    """A file on a local disk. It is created if missing, readable and writable only by its user."""

    path: Path

    @property
    def url(self) -> str:
        """The URL for dbos."""
        # Quoted, because ? and % in the path would have a meaning in a URL.
        return f"sqlite:///{quote(self.path.resolve().as_posix(), safe='/:')}"

    @property
    def place(self) -> str:
        """The location, for messages."""
        return str(self.path)


@dataclass(frozen=True, slots=True)
class PostgresStore:
    """An existing database, by a URL `postgresql://user@host/database`. The password is never shown."""

    url: str = field(repr=False)

    @property
    def place(self) -> str:
        """The location, for messages: hosts and database, without user and password."""
        _, _, rest = self.url.partition("://")
        address, _, options = rest.partition("?")
        if "@" in options:
            return "PostgreSQL"  # the text before it may be part of a password
        named = [f"{name}={value}" for name, value in parse_qsl(options) if name in {"dbname", "host", "port"}]
        where = f"postgresql://{address.rpartition('@')[2]}"
        return f"{where} ({', '.join(named)})" if named else where


Store: TypeAlias = SqliteStore | PostgresStore


def store_of(text: str) -> Store:
    """Return the store that a setting names: a URL of PostgreSQL, else the path of a file."""
    if text.startswith(_POSTGRES):
        return PostgresStore(text)
    if "://" in text:
        raise StoreError(
            f"Runs cannot be recorded at {text.partition('://')[0]}://; expected a file path or postgresql://…."
        )
    return SqliteStore(Path(os.path.expanduser(text)))  # noqa: PTH111 - an unknown user is not an error


def require_private(path: Path, *, creates: bool = True) -> None:
    """Make sure that only this user can access the file and write to its folder; create both if missing.

    Without `creates`, check what exists of both, and change nothing.

    Raises:
        StoreError: the file or folder belongs to others, or others may write there.
    """
    try:
        if creates:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_shared(path.parent)
        descriptor = open_to_change(path, creates=creates)
        try:
            _refuse_foreign(path, descriptor)
            # On Windows a new file inherits the permissions of its folder, which the user owns.
            if creates and os.name != "nt":
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not creates:
            return
        raise StoreError(f"{path}: runs cannot be recorded here: {error.strerror}.") from error


def _refuse_shared(folder: Path) -> None:
    mode = folder.stat().st_mode
    if os.name != "nt" and mode & _WRITABLE_BY_OTHERS and not mode & stat.S_ISVTX:
        raise StoreError(
            f"{folder}: other users may write to this folder, so they could replace the record of runs. "
            "Run chmod go-w on it."
        )


def _refuse_foreign(path: Path, descriptor: int) -> None:
    if os.name == "nt":
        return
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise StoreError(f"{path}: this is not a regular file that you own. Choose another file to record runs in.")


if hasattr(time, "CLOCK_BOOTTIME"):
    _CLOCK = time.CLOCK_BOOTTIME

    def now() -> float:
        """Return seconds on a clock that also runs while the machine sleeps, as the database's does."""
        return time.clock_gettime(_CLOCK)

else:

    def now() -> float:
        """Return seconds on a monotonic clock."""
        return time.monotonic()


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


_FOLDER = ".workers"
# The suffix of the folder's name after the name of the database.


class FileLease:
    """This process's locked file. A suspended process keeps it, so its runs wait until it resumes or ends."""

    term = 0
    """This lease is never lost."""

    def __init__(self, database: Path) -> None:
        """Create and lock a file with a new worker name, and remove the files of dead workers."""
        self._database, self._opened = database, database.stat()
        self._folder = _folder_of(database)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self.place, self.worker = str(database), new_worker()
        descriptor = None
        while descriptor is None:  # until the file exists and is locked: another worker may just have removed it
            descriptor = _locked(self._path(self.worker), create=True)
        self._descriptor = descriptor
        self._closed = False
        for path in self._folder.iterdir():
            if path.name != self.worker and (other := _locked(path)) is not None:
                _remove(path, other)

    @property
    def holds(self) -> bool:
        """True until it is closed: while the file exists, only the end of this process ends the lease."""
        return not self._closed

    def renew(self) -> None:
        """Check that the database and this worker's lock file still exist: without them the lease means nothing.

        Raises:
            StoreError: one of them was removed or replaced.
        """
        own = self._path(self.worker)
        try:
            there = os.path.samestat(self._database.stat(), self._opened)
            there = there and os.path.samestat(own.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            there = False
        if not there:
            message = f"{self._database}: the record of runs was removed or replaced while it was in use."
            raise StoreError(f"{message} Start the runs again.")

    @contextmanager
    def taking_over(self, worker: str) -> Iterator[bool]:
        """Yield whether no process holds that worker's lock file."""
        path = _path_of(self._folder, worker)
        descriptor = _locked(path)
        try:
            yield descriptor is not None or not path.exists()
        finally:
            if descriptor is not None:
                _remove(path, descriptor)

    def close(self) -> None:
        """Remove the file."""
        self._closed = True
        _remove(self._path(self.worker), self._descriptor)

    def _path(self, worker: str) -> Path:
        return _path_of(self._folder, worker)


def is_held(database: Path, worker: str) -> bool:
    """Tell whether a live process is that worker of the database."""
    path = _path_of(_folder_of(database), worker)
    descriptor = _locked(path)
    if descriptor is None:
        return path.exists()
    os.close(descriptor)
    return False


def _folder_of(database: Path) -> Path:
    return database.with_name(database.name + _FOLDER)


def _path_of(folder: Path, worker: str) -> Path:
    # A name from the database becomes a path only if this module could have generated it.
    return folder / (worker if worker.isalnum() and worker.isascii() else "unknown")


def _locked(path: Path, *, create: bool = False) -> int | None:
    """Lock a file and return its descriptor, None if another process holds it or it does not exist."""
    try:
        descriptor = open_to_change(path, creates=create)
    except OSError:
        if create:
            raise
        return None
    try:
        try_lock(descriptor)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove(path: Path, descriptor: int) -> None:
    # Remove it while it is locked, so that no process finds it unlocked; on Windows, only afterwards.
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)
    if os.name == "nt":
        with suppress(OSError):
            path.unlink()
