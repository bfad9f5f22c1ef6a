"""The commands `search` and `drift`: find skills by a query, keep queries, and repeat them later."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson, Directories, Embeddings, FollowSymlinks, TrustWorkspace
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, json_text, print_json, print_notice
from server.config.bootstrap import open_with_settings
from server.hosting.searches import match_object, reranker_of
from server.hosting.status import display_path
from skills_core.diagnostics import printable
from skills_core.disk.files import Location, read_file
from skills_core.disk.sources import real_path
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.selection.drift import DEFAULT_TOLERANCE, MAX_QUERIES, KeptQuery, KeptQueryError, compared
from skills_core.selection.policy import SelectionPolicy
from skills_core.selection.ranking import SkillIndex, SkillSearch

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.selection.drift import QueryDrift
    from skills_core.selection.policy import Match
    from skills_core.skills.skill import Skill

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


class Ranking(StrEnum):
    """The scoring of matches."""

    DEFAULT = "default"
    LEXICAL = "lexical"


def search(  # noqa: PLR0913 - one parameter for each flag
    query: Annotated[str, typer.Argument(help="The task in your own words; may be empty if --tag is given.")],
    directories: Directories = None,
    *,
    ranking: Annotated[
        Ranking, typer.Option(help="How to score matches; lexical is the word score of adk-skill.")
    ] = Ranking.DEFAULT,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Print at most N matches.")] = 10,
    min_score: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE", help="Print only matches with at least this score.", show_default="any match of a word"
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG", help="Search only skills with this tag, or one of several; repeatable."),
    ] = None,
    exclude_tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Leave out skills with this tag; repeatable.")
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the query and what it finds in FILE, for `skillserve drift`."),
    ] = None,
    embeddings: Embeddings = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Find skills that match a query, best match first.

    The exit code is 1 if no skill matches.
    """
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace, embeddings=embeddings
    )
    policy = SelectionPolicy(limit, min_score or 0.0, tuple(tag or ()), tuple(exclude_tag or ()))
    asked = KeptQuery(query, ranking.value, policy)
    matches = CatalogSearch(library.catalog.active, settings).matches(asked, all_scores=min_score is not None)
    if record is not None:
        _keep(record, asked.with_matches(matches))
    if as_json:
        print_json({"matches": [_match_document(match) for match in matches]})
    else:
        from server.cli.tables import print_matches

        print_matches(matches, library.catalog)
    if not matches:
        raise SystemExit(EXIT_NO)


def _keep(file: Path, query: KeptQuery) -> None:
    try:
        keep_query(file, query)
    except SkillsError as error:
        fail(str(error), EXIT_USAGE)


class CatalogSearch:
    """Searches of one catalog, which share their indexes."""

    def __init__(self, skills: tuple[Skill, ...], settings: Settings) -> None:
        """Search these skills, with the reranker of the settings in the default ranking."""
        self._skills = skills
        self._settings = settings

    @cached_property
    def _full_text(self) -> SkillSearch:
        return SkillSearch(reranker_of(self._settings, wait=True))

    @cached_property
    def _lexical(self) -> SkillIndex:
        return SkillIndex().extended(self._skills)

    def matches(self, asked: KeptQuery, *, all_scores: bool = False) -> list[Match]:
        """Return what a query finds with its ranking.

        The lexical one lists skills with the score 0 for `all_scores`, or if tags alone select them.
        """
        if asked.ranking == Ranking.DEFAULT:
            return self._full_text.select(self._skills, asked.query, asked.policy)
        matches = self._lexical.select(asked.query, asked.policy)
        return matches if all_scores or not asked.query.strip() else [match for match in matches if match.score]


def _match_document(match: Match) -> dict[str, Any]:
    skill = match.skill
    return {
        "name": printable(skill.name),
        "key": printable(skill.key),
        "id": printable(skill.id) if skill.id else None,
        **match_object(match),
        "path": display_path(skill),
        "uri": skill.uri,
        "description": skill.description,
    }


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
        print_json(_drift_document(file, found))
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


def _drift_document(file: Path, found: list[QueryDrift]) -> dict[str, object]:
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
