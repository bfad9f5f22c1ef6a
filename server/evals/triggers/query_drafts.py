"""Write a file of drafted trigger queries into a skill, which never replaces a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from server.evals.triggers.query_file import find_query_file
from skills_core.disk.folders import EVALS
from skills_core.disk.json_files import json_bytes
from skills_core.disk.opening import open_new
from skills_core.errors import SkillsError
from skills_core.evals.triggers.queries import QUERY_FILES
from skills_core.system_faults import system_message

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from skills_core.evals.triggers.queries import Query

__all__ = ["QueriesExistError", "drafts_document", "require_no_queries", "write_drafts"]


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
            "query": query.query,
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
