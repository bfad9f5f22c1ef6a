"""A locked file for each worker, in a folder beside the database: the system drops the lock when the process ends."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from skills_core.disk.locks import lock_now
from skills_core.run.durable.errors import StoreError
from skills_core.run.durable.leases.lease import new_worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["FileLease", "is_held"]

_FOLDER = ".workers"
# What follows the name of the database in that of the folder.


class FileLease:
    """This process's locked file. A process that is stopped keeps it, so its runs wait until it goes on or ends."""

    def __init__(self, database: Path) -> None:
        """Take a name, lock its file, and remove the files of those who are gone."""
        self._database, self._opened = database, database.stat()
        self._folder = _folder_of(database)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._worker = new_worker()
        descriptor = None
        while descriptor is None:  # until the file is there and ours: another one may just have removed it
            descriptor = _locked(self._path(self._worker), create=True)
        self._descriptor = descriptor
        self._closed = False
        for path in self._folder.iterdir():
            if path.name != self._worker and (other := _locked(path)) is not None:
                _remove(path, other)

    @property
    def place(self) -> str:
        """The path of the database."""
        return str(self._database)

    @property
    def worker(self) -> str:
        """Whose lease this is."""
        return self._worker

    @property
    def term(self) -> int:
        """Zero: it is never lost."""
        return 0

    @property
    def holds(self) -> bool:
        """True until it is closed: while the file is there, only the end of this process ends it."""
        return not self._closed

    def renew(self) -> None:
        """See that the database and this worker's file are still there: without them nothing is recorded or held.

        Raises:
            StoreError: one of them was removed, or is another one.
        """
        own = self._path(self._worker)
        try:
            there = os.path.samestat(self._database.stat(), self._opened)
            there = there and os.path.samestat(own.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            there = False
        if not there:
            message = f"{self._database}: the record of runs was removed or replaced while runs were recorded there."
            raise StoreError(f"{message} Begin them again.")

    @contextmanager
    def taking_over(self, worker: str) -> Iterator[bool]:
        """Yield whether no process holds that worker's file."""
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
        _remove(self._path(self._worker), self._descriptor)

    def _path(self, worker: str) -> Path:
        return _path_of(self._folder, worker)


def is_held(database: Path, worker: str) -> bool:
    """Tell whether a process is that worker of the database now."""
    path = _path_of(_folder_of(database), worker)
    descriptor = _locked(path)
    if descriptor is None:
        return path.exists()
    os.close(descriptor)
    return False


def _folder_of(database: Path) -> Path:
    return database.with_name(database.name + _FOLDER)


def _path_of(folder: Path, worker: str) -> Path:
    # A name from the database is only ever looked up if it is one that we could have given.
    return folder / (worker if worker.isalnum() and worker.isascii() else "unknown")


def _locked(path: Path, *, create: bool = False) -> int | None:
    """Return the locked file, None where another process has it or there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    except OSError:
        if create:
            raise
        return None
    try:
        lock_now(descriptor)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove(path: Path, descriptor: int) -> None:
    # Removed while it is locked, so that nobody finds it unlocked; where the system forbids that, afterwards.
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)
    if os.name == "nt":
        with suppress(OSError):
            path.unlink()
