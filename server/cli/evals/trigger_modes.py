"""Choose what `triggers` does: draft queries, rank the skill for them, or ask an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["run_triggers"]


def run_triggers(given: Mapping[str, Any]) -> None:
    """Do what the parameters of the command say."""
    folder, as_json = given["skill_dir"], given["as_json"]
    flags = {name: given[name] for name in ("follow_symlinks", "trust_workspace")}
    if given["write_queries"]:
        from server.cli.evals.ranked_triggers import draft_into

        draft_into(folder, given["catalog"], as_json=as_json, model=given["model"], **flags)
    elif given["no_model"]:
        from server.cli.evals.ranked_triggers import RankingOptions, triggers_without_model
        from server.cli.evals.report_files import ReportFiles

        names = ("queries", "catalog", "client", "min_recall", "max_false")
        queries, catalog, clients, min_recall, max_false = (given[name] for name in names)
        options = RankingOptions(queries, catalog, tuple(clients or ()), min_recall, max_false)
        files = ReportFiles(given["junit"], given["markdown"])
        triggers_without_model(folder, options, files, plain=given["ci"], as_json=as_json, **flags)
    else:
        from server.cli.evals.agent_triggers import triggers_with_agent

        triggers_with_agent(folder, given, as_json=as_json)
