"""Find and read the trigger queries of a skill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.disk.files import Location, read_bounded, read_file
from skills_core.errors import FileRefusedError
from skills_core.evals.triggers.queries import (
    MAX_FILE,
    PART_FILES,
    QUERY_FILES,
    QueryFileError,
    joined_parts,
    read_queries,
)
from skills_core.system_faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from skills_core.evals.triggers.queries import Query

__all__ = ["find_query_file", "queries_in", "queries_of_skill"]


def queries_of_skill(folder: Path) -> tuple[str, tuple[Query, ...]] | None:
    """Return the queries of the skill in `folder` with the path of their file there; None if it has no such file.

    Queries in two files, for training and for validation, are one set, whose path is that of both.

    Raises:
        QueryFileError: a file cannot be read, is no file of queries, or only one of two files is there.
    """
    for name in QUERY_FILES:
        if (queries := _read(folder, name)) is not None:
            return name, queries
    found = {part: _read(folder, name) for part, name in PART_FILES.items()}
    parts = {part: queries for part, queries in found.items() if queries is not None}
    if not parts:
        return None
    if missing := [name for part, name in PART_FILES.items() if part not in parts]:
        message = "is missing beside the other part; write it, or put all queries into evals/eval_queries.json"
        raise QueryFileError(str(folder / missing[0]), "", message)
    where = " and ".join(PART_FILES.values())
    return where, joined_parts(parts, f"{folder}: {where}")


def _read(folder: Path, name: str) -> tuple[Query, ...] | None:
    try:
        raw, _ = read_file(Location(folder, name), MAX_FILE)
    except FileRefusedError as error:
        if error.fault is Fault.ABSENT:
            return None
        raise QueryFileError(str(folder / name), "", error.message) from error
    return read_queries(raw, str(folder / name))


def find_query_file(folder: Path) -> str | None:
    """Return the path of the file of queries that a skill has, whatever is in it."""
    names = (*QUERY_FILES, *PART_FILES.values())
    return next((name for name in names if (folder / name).exists() or (folder / name).is_symlink()), None)


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
