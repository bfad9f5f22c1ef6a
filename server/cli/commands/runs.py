"""The commands that perform skills with a model: `run`, and `runs` for what came of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import (
    AsJson,
    Directories,
    FollowSymlinks,
    McpServers,
    Model,
    Param,
    RunId,
    RunTool,
    SkillTool,
    TrustWorkspace,
    Workspace,
    values_of,
)
from server.cli.console import NO, fail, print_json, print_text
from skills_core.errors import UnknownSkillError

if TYPE_CHECKING:
    from pathlib import Path

    from server.run.skill_runner import RunParticipants
    from skills_core.run.outcome import RunOutcome

__all__ = ["run", "runs"]

runs = typer.Typer(help="What was performed, and what was interrupted.", no_args_is_help=True)


def run(  # noqa: PLR0913 - one parameter for each flag
    name: Annotated[str, typer.Argument(help="The skill's name.")],
    message: Annotated[str | None, typer.Argument(help="What you want of it, in your own words.")] = None,
    directories: Directories = None,
    *,
    param: Param = None,
    model: Model = None,
    run_tools: RunTool = None,
    workspace: Workspace = None,
    mcp_servers: McpServers = None,
    skill_tools: SkillTool = None,
    run_id: RunId = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Perform a skill with a model. The exit code is 1 where it did not complete, or something is missing."""
    values = values_of(param)
    from server.cli.commands.run_execution import open_for_runs, performed, show_outcome

    opened = open_for_runs(
        directories,
        model=model,
        run_tools=run_tools,
        workspace=workspace,
        mcp_servers=mcp_servers,
        skill_tools=skill_tools,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    )
    try:
        skill = opened.library.catalog.skill(name)
    except UnknownSkillError as error:
        fail(f"{error}{_misplaced(message, directories)}", NO)
    from skills_core.run.executor import RunRequest

    request = RunRequest(skill, values, message)

    async def work(participants: RunParticipants) -> RunOutcome:
        return await opened.service.perform(request, participants, run_id)

    show_outcome(performed(opened, skill.key, run_id, work), as_json=as_json)


@runs.command("list")
def list_runs(*, as_json: AsJson = False) -> None:
    """List the runs that are recorded or that there are traces of, the latest first."""
    from server.cli.commands.recorded_runs import listed_runs

    found = listed_runs()
    if as_json:
        print_json({"runs": found})
        return
    for each in found:
        name = each["skill"] or (each["workflow"] and f"workflow {each['workflow']}")
        shown = (each["run_id"], each["started"], each["status"], name, each["problem"])
        print_text("  ".join(str(value or "-") for value in shown))


@runs.command("show")
def show_run(run_id: Annotated[str, typer.Argument(metavar="ID", help="The run, as `runs list` shows it.")]) -> None:
    """Print the trace of a run: each call of the model and of tools, decisions, scores, and how it ended."""
    from server.cli.commands.recorded_runs import shown_run
    from skills_core.run.trace.store import UnknownTraceError, UnreadableTraceError

    try:
        print_json(shown_run(run_id))
    except UnreadableTraceError as error:
        fail(str(error), NO)
    except UnknownTraceError as error:
        fail(f"{error} `skillserve runs list` shows those that there are.", NO)


@runs.command("cancel")
def cancel_runs(
    run_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The runs, as `runs list` shows them.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Cancel runs that wait, are performed by any process, or were interrupted; the steps of a workflow end with it.

    The exit code is 1 where one of them has ended already or is not recorded.
    """
    from server.cli.commands.recorded_runs import cancelled_runs

    found = cancelled_runs(run_ids)
    if as_json:
        print_json({"runs": found})
    for each in [] if as_json else found:
        print_text(f"{each['run_id']}  {each['status'] or '-'}  {each['message']}")
    if not all(each["cancelled"] for each in found):
        raise SystemExit(NO)


@runs.command("resume")
def resume_runs(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    model: Model = None,
    run_tools: RunTool = None,
    workspace: Workspace = None,
    mcp_servers: McpServers = None,
    skill_tools: SkillTool = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Complete what was interrupted, of runs with the same folders, model and tools as are given here."""
    from server.cli.commands.run_execution import open_for_runs, resumed

    opened = open_for_runs(
        directories,
        model=model,
        run_tools=run_tools,
        workspace=workspace,
        mcp_servers=mcp_servers,
        skill_tools=skill_tools,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    )
    found = resumed(opened)
    if as_json:
        print_json({"runs": found})
    for each in [] if as_json else found:
        print_text(f"{each['run_id']}  {each['kind']}  {each['status']}")
    if any(each["status"] != "completed" for each in found):
        raise SystemExit(NO)


def _misplaced(message: str | None, directories: list[Path] | None) -> str:
    """Return what to do where no skill was found as a folder stands in the place of the message, else nothing."""
    # Of a text that can be no path, `Path` raises.
    if directories or not message or not os.path.isdir(message):  # noqa: PTH112
        return ""
    return f' {message!r} was taken as the message; write a message (or "") before folders.'
