"""The file of kept queries: `{"queries": […]}`, with an object of `skills_core.selection.drift` for each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from server.cli.console import json_text
from skills_core.disk.files import Location, read_file
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError
from skills_core.selection.drift import MAX_QUERIES, KeptQuery, KeptQueryError
from skills_core.sources import real_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["RANKINGS", "keep_query", "read_queries", "write_queries"]

RANKINGS = ("default", "lexical")
"""The names of the rankings, the usual one first."""


def read_queries(path: Path) -> tuple[KeptQuery, ...]:
    """Return the queries of a file.

    Raises:
        KeptQueryError: the file cannot be read, or does not have queries; the message names it and the place in it.
    """
    try:
        raw, _ = read_file(_location(path))
        value = json.loads(raw)
    except FileRefusedError as error:
        raise KeptQueryError(f"{path}: {error.message}; `skillserve search QUERY --record FILE` makes it") from None
    except (ValueError, RecursionError) as error:
        raise KeptQueryError(f"{path} is not JSON: {error}") from None
    queries = value.get("queries") if isinstance(value, dict) else value
    if not isinstance(queries, list):
        raise KeptQueryError(f"{path}: expected a list of queries, or an object with the list as its field queries")
    if len(queries) > MAX_QUERIES:
        raise KeptQueryError(f"{path} has {len(queries)} queries; at most {MAX_QUERIES} are read")
    return tuple(KeptQuery.read(each, f"{path}: query {number}", RANKINGS) for number, each in enumerate(queries, 1))


def keep_query(path: Path, query: KeptQuery) -> None:
    """Add a query to a file, which is made if it is missing; the same query is replaced at its place.

    Raises:
        KeptQueryError: the file has something else than queries, or cannot be read or written.
    """
    known = read_queries(path) if path.exists() or path.is_symlink() else ()
    places = {each.identity: number for number, each in enumerate(known)}
    queries = list(known)
    place = places.get(query.identity)
    if place is None:
        queries.append(query)
    else:
        queries[place] = query
    write_queries(path, queries)


def write_queries(path: Path, queries: Iterable[KeptQuery]) -> None:
    """Write the queries to a file, as a whole.

    Raises:
        KeptQueryError: the file cannot be written.
    """
    text = json_text({"queries": [each.as_object() for each in queries]})
    try:
        write_file(_location(path), f"{text}\n".encode("utf-8", "surrogatepass"))
    except FileRefusedError as error:
        raise KeptQueryError(f"{path} was not written: {error.message}") from None


def _location(path: Path) -> Location:
    """Return where the file is; a link to it is followed, because the user named it."""
    real = real_path(path.absolute())
    return Location(real.parent, real.name)
