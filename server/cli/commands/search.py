"""The command that searches skills: `search`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.console import NO, print_json
from server.config.bootstrap import open_with_settings
from server.hosting.reranker import load_reranker
from server.hosting.search_results import match_object
from server.hosting.status import shown_place
from skills_core.diagnostics import printable
from skills_core.selection import SelectionPolicy, SkillIndex, SkillSearch

if TYPE_CHECKING:
    from skills_core.selection import Match
    from skills_core.skill import Skill

__all__ = ["search"]


class Ranking(StrEnum):
    """How skills are scored."""

    DEFAULT = "default"
    LEXICAL = "lexical"


def search(  # noqa: PLR0913 - one parameter for each flag
    query: Annotated[str, typer.Argument(help="What the skill should do; may be empty where a tag is given.")],
    directories: Directories = None,
    *,
    ranking: Annotated[Ranking, typer.Option(help="lexical is adk-skill's score.")] = Ranking.DEFAULT,
    limit: Annotated[int, typer.Option(min=1, help="Most matches.")] = 10,
    min_score: Annotated[
        float | None, typer.Option(help="Least score of a match; by default, all that share a word with the query.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only skills with such a tag; may be repeated.")] = None,
    exclude_tag: Annotated[list[str] | None, typer.Option(help="No skill with this tag; may be repeated.")] = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Find the skills that answer a query, best first. The exit code is 1 where there is none."""
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
    policy = SelectionPolicy(limit, min_score or 0.0, tuple(tag or ()), tuple(exclude_tag or ()))
    if ranking is Ranking.DEFAULT:
        matches = SkillSearch(load_reranker(settings.reranker)).select(library.catalog.active, query, policy)
    else:
        matches = _by_words(library.catalog.active, query, policy, all_scores=min_score is not None)
    if as_json:
        print_json({"matches": [_object(match) for match in matches]})
    else:
        from server.cli.tables import print_matches

        print_matches(matches)
    if not matches:
        raise SystemExit(NO)


def _by_words(skills: tuple[Skill, ...], query: str, policy: SelectionPolicy, *, all_scores: bool) -> list[Match]:
    matches = SkillIndex().extended(skills).select(query, policy)
    # A score of nothing is one that whoever names a minimum may want, and what tags alone select has no other.
    return matches if all_scores or not query.strip() else [match for match in matches if match.score]


def _object(match: Match) -> dict[str, Any]:
    skill = match.skill
    return {
        "name": printable(skill.name),
        "key": printable(skill.key),
        "id": printable(skill.id) if skill.id else None,
        **match_object(match),
        "path": shown_place(skill),
        "uri": skill.uri,
        "description": skill.description,
    }
