"""The command `triggers`: test whether a skill is chosen for what users say."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from server.cli.commands.options import AsJson, FollowSymlinks, TrustWorkspace
from server.cli.console import EXIT_USAGE, fail

__all__ = ["triggers"]


def triggers(  # noqa: PLR0913 - one parameter for each flag
    skill_dir: Annotated[Path, typer.Argument(metavar="SKILL_DIR", help="The folder of the skill.")],
    *,
    no_model: Annotated[
        bool, typer.Option("--no-model", help="Rank the skill by the search of the server, without a model.")
    ] = False,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file of queries.",
            show_default="evals/eval_queries.json or evals/trigger_queries.json of the skill",
        ),
    ] = None,
    catalog: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A folder of skills to rank the skill among; repeatable, highest precedence first.",
            show_default="the configured and standard folders",
        ),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY[@VERSION]",
            help="Tell whether this client shows the skill, such as claude-code; all for every known client; "
            "repeatable.",
            show_default="an unknown client",
        ),
    ] = None,
    min_recall: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Exit with code 1 if the skill is found first for a smaller share of the queries that should trigger.",
        ),
    ] = None,
    max_false: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Exit with code 1 if a larger share of the queries that should not trigger does.",
        ),
    ] = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Test for which queries a skill is found, and what rivals it has.

    The exit code is 1 if a limit is exceeded, or if there are too few queries to tell.
    """
    from server.cli.ranked_triggers import RankingOptions, triggers_without_model

    if not no_model:
        fail("name --no-model: this version ranks queries without a model", EXIT_USAGE)
    options = RankingOptions(queries, catalog, tuple(client or ()), min_recall, max_false)
    triggers_without_model(
        skill_dir, options, as_json=as_json, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
