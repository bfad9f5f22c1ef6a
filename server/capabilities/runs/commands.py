"""The commands `run`, `runs` and `workflow`: run skills and workflows, and look at recorded runs."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import (
    AsJson,
    Directories,
    FollowSymlinks,
    ImproveCost,
    Improved,
    ImproveRequests,
    ImproveSeconds,
    McpServers,
    Model,
    Param,
    Reviewed,
    RunId,
    RunTool,
    SkillName,
    SkillTool,
    Strict,
    TrustWorkspace,
    Workspace,
    parse_name_values,
)
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.help_pages import CommandLine
from skills_core.errors import UnknownSkillError

if TYPE_CHECKING:
    from server.capabilities.runs.skill_runner import RunParticipants
    from skills_core.runs.workflow.model import WorkflowOutcome

runs = CommandLine(help="List, show, cancel and resume runs.", no_args_is_help=True)


def run(  # noqa: PLR0913 - one parameter for each flag
    name: SkillName,
    message: Annotated[str | None, typer.Argument(help="What the skill should do, in your own words.")] = None,
    directories: Directories = None,
    *,
    param: Param = None,
    model: Model = None,
    run_tools: RunTool = None,
    workspace: Workspace = None,
    mcp_servers: McpServers = None,
    skill_tools: SkillTool = None,
    improve: Improved = None,
    improve_review: Reviewed = False,
    improve_max_cost: ImproveCost = None,
    improve_max_requests: ImproveRequests = None,
    improve_max_seconds: ImproveSeconds = None,
    run_id: RunId = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Run a skill with a model, and print the output.

    The exit code is 1 if the skill does not exist, the run fails, or its score is below the skill's minimum.
    """
    from server.capabilities.runs.execution import execute, open_for_runs, print_outcome

    context = open_for_runs(
        directories,
        model=model,
        run_tools=run_tools,
        workspace=workspace,
        mcp_servers=mcp_servers,
        skill_tools=skill_tools,
        improve=improve,
        improve_review=improve_review,
        improve_max_cost=improve_max_cost,
        improve_max_requests=improve_max_requests,
        improve_max_seconds=improve_max_seconds,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    )
    try:
        skill = context.library.catalog.skill(name)
    except UnknownSkillError as error:
        fail(f"{error}{_folder_hint(message, directories)}", EXIT_NO)
    from skills_core.runs.executor import RunRequest

    work = partial(context.service.run_skill, RunRequest(skill, parse_name_values(param), message), run_id=run_id)
    print_outcome(execute(context, skill.key, run_id, work, command="run"), as_json=as_json)


@runs.command("list")
def list_runs(*, as_json: AsJson = False) -> None:
    """List runs, latest first."""
    from server.capabilities.runs.execution import read_summaries
    from server.config.machine import state_home

    summaries = read_summaries()
    if as_json:
        print_json({"runs": summaries})
        return
    if not summaries:
        print_notice(f"no run that can be read is recorded in {state_home()}; `skillserve run NAME` runs a skill")
    for each in summaries:
        name = each["skill"] or (each["workflow"] and f"workflow {each['workflow']}")
        columns = (each["run_id"], each["started"], each["status"], name, each["problem"])
        print_text("  ".join(str(value or "-") for value in columns))


@runs.command("show")
def show_run(run_id: Annotated[str, typer.Argument(metavar="ID", help="The ID of the run, from `runs list`.")]) -> None:
    """Print the trace of a run as JSON.

    The trace has all model and tool calls, decisions and scores, and the result.
    """
    from server.capabilities.runs.execution import read_trace
    from skills_core.runs.trace import UnknownTraceError, UnreadableTraceError

    try:
        print_json(read_trace(run_id))
    except UnreadableTraceError as error:
        fail(str(error), EXIT_NO)
    except UnknownTraceError as error:
        fail(f"{error} `skillserve runs list` shows all runs.", EXIT_NO)


@runs.command("cancel")
def cancel(
    run_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The IDs of the runs, from `runs list`.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Cancel runs that are waiting, running or interrupted.

    Cancelling a workflow's run cancels its steps too. The exit code is 1 if a run has already ended or is not
    recorded.
    """
    from server.capabilities.runs.execution import cancel_runs

    results = cancel_runs(run_ids)
    if as_json:
        print_json({"runs": results})
    for each in [] if as_json else results:
        print_text(f"{each['run_id']}  {each['status'] or '-'}  {each['message']}")
    if not all(each["cancelled"] for each in results):
        raise SystemExit(EXIT_NO)


@runs.command("resume")
def resume(  # noqa: PLR0913 - one parameter for each flag
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
    """Continue interrupted runs.

    Only runs that were started with the same folders, model and tools are continued. The exit code is 1 if one of them
    does not complete.
    """
    from server.capabilities.runs.execution import open_for_runs, resume_interrupted

    context = open_for_runs(
        directories,
        model=model,
        run_tools=run_tools,
        workspace=workspace,
        mcp_servers=mcp_servers,
        skill_tools=skill_tools,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    )
    results = resume_interrupted(context)
    if as_json:
        print_json({"runs": results})
    for each in [] if as_json else results:
        print_text(f"{each['run_id']}  {each['kind']}  {each['status']}")
    if any(each["status"] != "completed" for each in results):
        raise SystemExit(EXIT_NO)


def _folder_hint(message: str | None, directories: list[Path] | None) -> str:
    """Return a hint if the user probably gave a folder in the place of the message, else an empty string."""
    # `Path` raises for some texts that are not paths.
    if directories or not message or not os.path.isdir(message):  # noqa: PTH112
        return ""
    return f' {message!r} was taken as the message; give a message (or "") before folders.'


workflow = CommandLine(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Check and run workflows, which combine skills into steps.",
)


@workflow.command("validate")
def validate_workflow(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE... [DIR...]",
            help="Workflow files, and folders of skills to use instead of the configured and standard folders.",
        ),
    ],
    *,
    as_json: AsJson = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Check workflow files for errors.

    Checks their syntax, and the skills, steps and inputs that they refer to.
    """
    from server.capabilities.runs.workflows import validate_file, workflow_lines, workflows_object
    from server.config.bootstrap import open_with_settings

    folders = [path for path in paths if os.path.isdir(path)]  # noqa: PTH112 - of some paths, `Path` raises
    files = [path for path in paths if path not in folders]
    if not files:
        fail("expected at least one workflow file; all paths are folders", EXIT_USAGE)
    catalog = open_with_settings(
        folders,
        strict=strict,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    )[0].catalog
    results = [validate_file(path, catalog) for path in files]
    if as_json:
        print_json(workflows_object(results))
    else:
        for line in workflow_lines(results):
            print_text(line)
    if not any(result.found for result in results):
        raise typer.Exit(EXIT_USAGE)
    if not all(result.valid for result in results):
        raise typer.Exit(EXIT_NO)


@workflow.command("run")
def run_workflow(  # noqa: PLR0913 - one parameter for each flag
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The workflow file.")],
    directories: Directories = None,
    *,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="Set an input of the workflow; repeatable."),
    ] = None,
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
    """Run a workflow, and print the output of its last skill.

    The exit code is 1 if the workflow does not complete.
    """
    inputs = parse_name_values(pairs, "--input")
    from server.capabilities.runs.execution import execute, open_for_runs, print_outcome
    from server.capabilities.runs.workflows import read_workflow_file
    from skills_core.runs.workflow.plan import prepare

    context = open_for_runs(
        directories,
        model=model,
        run_tools=run_tools,
        workspace=workspace,
        mcp_servers=mcp_servers,
        skill_tools=skill_tools,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    )
    plan = prepare(read_workflow_file(file), file.stem, context.library.catalog, inputs)

    async def work(participants: RunParticipants) -> WorkflowOutcome:
        return await context.service.run_workflow(plan, participants, run_id)

    print_outcome(execute(context, plan.workflow.name, run_id, work, command="workflow run"), as_json=as_json)
