"""The command `search`: find skills by a query."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from pathlib import Path  # noqa: TC003 - typer evaluates the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json
from server.cli.kept_queries import keep_query
from server.config.bootstrap import open_with_settings
from server.hosting.searches import load_reranker, match_object
from server.hosting.status import display_path
from skills_core.diagnostics import printable
from skills_core.errors import SkillsError
from skills_core.selection import SelectionPolicy, SkillIndex, SkillSearch
from skills_core.selection.drift import KeptQuery

if TYPE_CHECKING:
    from server.config.settings import Settings
    from skills_core.selection import Match
    from skills_core.skill import Skill

__all__ = ["CatalogSearch", "search"]


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
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Find skills that match a query, best match first.

    The exit code is 1 if no skill matches.
    """
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
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

        print_matches(matches)
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
        self._reranker = settings.search.reranker

    @cached_property
    def _full_text(self) -> SkillSearch:
        return SkillSearch(load_reranker(self._reranker))

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
