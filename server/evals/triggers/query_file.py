"""Find and read the trigger queries of a skill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.disk.bounded import read_bounded
from skills_core.disk.files import Location, read_file
from skills_core.errors import FileRefusedError
from skills_core.evals.triggers.queries import MAX_FILE, QUERY_FILES, QueryFileError, read_queries
from skills_core.system_faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from skills_core.evals.triggers.queries import Query

__all__ = ["find_query_file", "queries_in", "queries_of_skill"]


def queries_of_skill(folder: Path) -> tuple[str, tuple[Query, ...]] | None:
    """Return the queries of the skill in `folder` with the path of their file there; None if it has no such file.

    Raises:
        QueryFileError: the file cannot be read, or is no file of queries.
    """
    for name in QUERY_FILES:
        try:
            raw, _ = read_file(Location(folder, name), MAX_FILE)
        except FileRefusedError as error:
            if error.fault is Fault.ABSENT:
                continue
            raise QueryFileError(str(folder / name), "", error.message) from error
        return name, read_queries(raw, str(folder / name))
    return None


def find_query_file(folder: Path) -> str | None:
    """Return the path of the file of queries that a skill has, whatever is in it."""
    return next((name for name in QUERY_FILES if (folder / name).exists() or (folder / name).is_symlink()), None)


def queries_in(file: Path) -> tuple[Query, ...]:
    """Return the queries in a file that the user named.

    Raises:
        QueryFileError: there is no such file, it cannot be read, or it is no file of queries.
    """
    try:
        raw = read_bounded(file, MAX_FILE)
    except FileRefusedError as error:
        raise QueryFileError(str(file), "", error.message) from error
    if raw is None:
        raise QueryFileError(str(file), "", "there is no such file")
    return read_queries(raw, str(file))
