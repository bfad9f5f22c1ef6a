"""The commands `workflow validate` and `workflow run`."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import (
    AsJson,
    Directories,
    FollowSymlinks,
    McpServers,
    Model,
    RunId,
    RunTool,
    SkillTool,
    Strict,
    TrustWorkspace,
    Workspace,
    parse_name_values,
)
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_text

if TYPE_CHECKING:
    from server.run.skill_runner import RunParticipants
    from skills_core.run.workflow.model import WorkflowOutcome

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Check and run workflows, which combine skills into steps.",
)


@app.callback()
def workflow() -> None:
    """Make typer treat the commands as a group."""


@app.command()
def validate(
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
    from server.config.bootstrap import open_quietly
    from server.run.workflow_files import validate_file, workflow_lines, workflows_object

    folders = [path for path in paths if os.path.isdir(path)]  # noqa: PTH112 - of some paths, `Path` raises
    files = [path for path in paths if path not in folders]
    if not files:
        fail("expected at least one workflow file; all paths are folders", EXIT_USAGE)
    catalog = open_quietly(
        folders,
        strict=strict,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    ).catalog
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


@app.command()
def run(  # noqa: PLR0913 - one parameter for each flag
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
    from server.cli.commands.run_execution import execute, open_for_runs, print_outcome
    from server.run.workflow_files import read_workflow_file
    from skills_core.run.workflow.plan import prepare

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
