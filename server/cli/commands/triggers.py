"""The command `triggers`: test whether a skill is chosen for what users say."""

from __future__ import annotations

from server.cli.commands.options import AsJson, FollowSymlinks, Model, TrustWorkspace
from server.cli.commands.trigger_options import (
    Catalogs,
    Clients,
    MaxFalse,
    MinRecall,
    NoModel,
    QueryFile,
    SkillDir,
    WriteQueries,
)
from server.cli.console import EXIT_USAGE, fail

__all__ = ["triggers"]


def triggers(  # noqa: PLR0913 - one parameter for each flag
    skill_dir: SkillDir,
    *,
    no_model: NoModel = False,
    queries: QueryFile = None,
    catalog: Catalogs = None,
    client: Clients = None,
    min_recall: MinRecall = None,
    max_false: MaxFalse = None,
    write_queries: WriteQueries = False,
    model: Model = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Test for which queries a skill is found, and what rivals it has.

    The exit code is 1 if a limit is exceeded, or if there are too few queries to tell.
    """
    flags = {"follow_symlinks": follow_symlinks, "trust_workspace": trust_workspace}
    if write_queries:
        from server.cli.write_queries import draft_into

        draft_into(skill_dir, catalog, as_json=as_json, model=model, **flags)
        return
    if not no_model:
        fail("name --no-model to rank the queries, or --write-queries to draft some", EXIT_USAGE)
    from server.cli.ranked_triggers import RankingOptions, triggers_without_model

    options = RankingOptions(queries, catalog, tuple(client or ()), min_recall, max_false)
    triggers_without_model(skill_dir, options, as_json=as_json, **flags)
