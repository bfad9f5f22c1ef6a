"""The command `triggers`: test whether a skill is chosen for what users say."""

from __future__ import annotations

from server.cli.commands import trigger_agent_options as agents
from server.cli.commands.agent_options import Agent, AgentHome, AgentModel, ViaChoice, Way
from server.cli.commands.options import AsJson, FollowSymlinks, Model, TrustWorkspace
from server.cli.commands.report_options import Ci, Junit, Markdown
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
    agent: Agent = None,
    agent_command: agents.AgentCommandTemplate = None,
    via: ViaChoice = Way.FOLDER,
    agent_model: AgentModel = None,
    agent_home: AgentHome = None,
    runs: agents.Runs = 3,
    threshold: agents.Threshold = 0.5,
    jobs: agents.Jobs = 4,
    timeout: agents.RunSeconds = 180.0,
    max_calls: agents.MaxCalls = 20,
    optimize: agents.Optimize = False,
    rounds: agents.Rounds = 5,
    seed: agents.Seed = 0,
    holdout: agents.Holdout = None,
    apply: agents.Apply = False,
    workspace: agents.TriggerWorkspace = None,
    dry_run: agents.DryRun = False,
    junit: Junit = None,
    markdown: Markdown = None,
    ci: Ci = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Test for which queries a skill is found or loaded.

    The exit code is 1 if a limit is exceeded, or if the numbers carry no verdict.
    """
    flags = locals()

    from server.cli.evals.options import TriggerFlags

    options = TriggerFlags(**flags)
    if options.write_queries:
        from server.cli.evals.ranked_triggers import draft_into as run
    elif options.no_model:
        from server.cli.evals.ranked_triggers import triggers_without_model as run
    else:
        from server.cli.evals.agent_triggers import triggers_with_agent as run
    run(options)
