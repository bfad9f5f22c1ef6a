"""Find, read and write the files of trigger queries of a skill."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from skills_core.disk.files import Location, open_new, read_bounded, read_file
from skills_core.disk.folders import EVALS
from skills_core.disk.writing import json_bytes
from skills_core.errors import Fault, FileRefusedError, SkillsError, system_message
from skills_core.evals.triggers.queries import (
    MAX_FILE,
    PART_FILES,
    QUERY_FILES,
    QueryFileError,
    joined_parts,
    read_queries,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from skills_core.evals.triggers.queries import Query


def queries_of_skill(folder: Path) -> tuple[str, tuple[Query, ...]] | None:
    """Return the queries of the skill in `folder` with the path of their file there; None if it has no such file.

    Queries in two files, for training and for validation, are one set, whose path is that of both.

    Raises:
        QueryFileError: a file cannot be read, is not a file of queries, or only one of two files is there.
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


def chosen_queries(folder: Path, file: Path | None) -> tuple[str, tuple[Query, ...]]:
    """Return the queries in the file that the user named, or else those of the skill in `folder`, with their path.

    Raises:
        QueryFileError: there are none, or they cannot be read.
    """
    if file is not None:
        return str(file), queries_in(file)
    found = queries_of_skill(folder)
    if found is None:
        message = f"there are no queries; expected {' or '.join(QUERY_FILES)}, or a file named with --queries"
        raise QueryFileError(str(folder), "", message)
    return found


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
        QueryFileError: there is no such file, it cannot be read, or it is not a file of queries.
    """
    try:
        raw = read_bounded(file, MAX_FILE)
    except FileRefusedError as error:
        raise QueryFileError(str(file), "", error.message) from error
    if raw is None:
        raise QueryFileError(str(file), "", "there is no such file")
    return read_queries(raw, str(file))


class QueriesExistError(SkillsError):
    """The queries cannot be written: the skill has some, or its folder cannot be written to."""


def require_no_queries(folder: Path) -> None:
    """Refuse to draft queries for a skill that has some.

    Raises:
        QueriesExistError: it has a file of queries, or a link in the place of the folder for one.
    """
    if (name := find_query_file(folder)) is not None:
        raise QueriesExistError(
            f"{folder / name}: the skill has queries, which are not replaced; edit or move the file"
        )
    if (folder / EVALS).is_symlink():
        raise QueriesExistError(f"{folder / EVALS}: this is a link, which is not followed; use a folder")


def drafts_document(queries: Iterable[Query]) -> list[dict[str, Any]]:
    """Return the queries as the file has them."""
    return [
        {
            "query": query.text,
            "should_trigger": query.should_trigger,
            **({"expected_skill": query.expected_skill} if query.expected_skill and not query.should_trigger else {}),
        }
        for query in queries
    ]


def write_drafts(folder: Path, queries: Iterable[Query]) -> Path:
    """Write the queries to a new file of the skill in `folder`, and return its path.

    Raises:
        QueriesExistError: there is such a file, or it cannot be created.
    """
    require_no_queries(folder)
    file = folder / QUERY_FILES[0]
    try:
        (folder / EVALS).mkdir(exist_ok=True)
        # Exclusive creation follows no link and replaces nothing.
        handle = open_new(file, 0o666)
        with os.fdopen(handle, "wb") as stream:
            stream.write(json_bytes(drafts_document(queries)))
    except OSError as error:
        raise QueriesExistError(f"{file}: the queries cannot be written: {system_message(error)}") from error
    return file
