"""The command `drift`: repeat kept queries, and tell what they find differently."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer evaluates the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.commands.search import CatalogSearch
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice
from server.cli.kept_queries import read_queries, write_queries
from server.config.bootstrap import open_with_settings
from skills_core.errors import SkillsError
from skills_core.selection.drift import DEFAULT_TOLERANCE, compared

if TYPE_CHECKING:
    from skills_core.selection.drift import KeptQuery, QueryDrift

__all__ = ["drift"]


def drift(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The queries, as `search --record FILE` keeps them.")],
    directories: Directories = None,
    *,
    tolerance: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SHARE", help="Ignore changes of a score up to this share of it."),
    ] = DEFAULT_TOLERANCE,
    update: Annotated[
        bool, typer.Option("--update", help="Keep what the queries find now in FILE, and exit with code 0.")
    ] = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Repeat the queries of a file, and report matches that moved.

    A match moved if it is lost, or if its rank, its band or its score is another one. The exit code is 1 if a match
    moved, or if a query of the file has no result yet.
    """
    try:
        queries = read_queries(file)
    except SkillsError as error:
        fail(str(error), EXIT_USAGE)
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
    search = CatalogSearch(library.catalog.active, settings)
    found: list[QueryDrift] = []
    now: list[KeptQuery] = []
    for query in queries:
        matches = search.matches(query)
        found.append(compared(query, matches, tolerance))
        now.append(query.with_matches(matches))
    if as_json:
        print_json(_document(file, found))
    else:
        from server.cli.tables import print_drift

        print_drift(found)
    if update:
        try:
            write_queries(file, now)
        except SkillsError as error:
            fail(str(error), EXIT_USAGE)
        print_notice(f"{file} now has what the queries find")
    elif any(each.moved or each.is_new for each in found):
        raise SystemExit(EXIT_NO)


def _document(file: Path, found: list[QueryDrift]) -> dict[str, object]:
    return {
        "file": str(file),
        "moved": sum(bool(each.moved) for each in found),
        "new": sum(each.is_new for each in found),
        "queries": [
            {
                "query": each.query.query,
                "ranking": each.query.ranking,
                "new": each.is_new,
                "moved": [move.as_object() for move in each.moved],
            }
            for each in found
        ],
    }
