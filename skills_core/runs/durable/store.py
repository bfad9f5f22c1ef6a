"""Where runs are recorded: a SQLite file for the processes of one user on one machine, or a PostgreSQL database."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, quote

from skills_core.disk.files import open_to_change
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
    return SqliteStore(Path(text).expanduser())


def make_private(path: Path) -> None:
    """Create the file and its folder if missing, and make sure that only this user can access the file.

    Raises:
        StoreError: the file or folder belongs to others, or others may write there.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_shared(path.parent)
        descriptor = open_to_change(path)
        try:
            _make_file_private(path, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path}: runs cannot be recorded here: {error.strerror}.") from error


def check_private(path: Path) -> None:
    """Check what exists of a file and its folder as `make_private` does, and change nothing.

    Raises:
        StoreError: the file or folder belongs to others, or others may write there.
    """
    try:
        if path.parent.exists():
            _refuse_shared(path.parent)
        descriptor = open_to_change(path, creates=False)
        try:
            _refuse_foreign(path, descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{path}: runs cannot be recorded here: {error.strerror}.") from error


def _refuse_shared(folder: Path) -> None:
    mode = folder.stat().st_mode
    if os.name != "nt" and mode & _WRITABLE_BY_OTHERS and not mode & stat.S_ISVTX:
        raise StoreError(
            f"{folder}: other users may write to this folder, so they could replace the record of runs. "
            "Run chmod go-w on it."
        )


def _make_file_private(path: Path, descriptor: int) -> None:
    if os.name == "nt":
        return  # a new file inherits the permissions of its folder, which the user owns
    _refuse_foreign(path, descriptor)
    os.fchmod(descriptor, 0o600)


def _refuse_foreign(path: Path, descriptor: int) -> None:
    if os.name == "nt":
        return
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise StoreError(f"{path}: this is not a regular file that you own. Choose another file to record runs in.")
