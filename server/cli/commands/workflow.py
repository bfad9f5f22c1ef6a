"""The commands `workflow …`: a group of its own."""

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
    values_of,
)
from server.cli.console import NO, WRONG_USE, fail, print_json, print_text

if TYPE_CHECKING:
    from server.run.skill_runner import RunParticipants
    from skills_core.run.workflow.outcome import WorkflowOutcome

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Workflows: skills performed one after another.",
)


@app.callback()
def workflow() -> None:
    """Keep the commands a group, however many there are."""


@app.command()
def validate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE... [DIR...]", help="Workflows, and folders of skills; by default the usual ones."),
    ],
    *,
    as_json: AsJson = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Check workflows, with the skills, steps and inputs that they name."""
    from server.config.bootstrap import open_quietly
    from server.run.workflow_files import check_file, workflow_lines, workflows_object

    folders = [path for path in paths if os.path.isdir(path)]  # noqa: PTH112 - of some paths, `Path` raises
    files = [path for path in paths if path not in folders]
    if not files:
        fail("there is no workflow among the paths, only folders; name at least one file", WRONG_USE)
    catalog = open_quietly(
        folders,
        strict=strict,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    ).catalog
    results = [check_file(path, catalog) for path in files]
    if as_json:
        print_json(workflows_object(results))
    else:
        for line in workflow_lines(results):
            print_text(line)
    if not any(result.found for result in results):
        raise typer.Exit(WRONG_USE)
    if not all(result.valid for result in results):
        raise typer.Exit(NO)


@app.command()
def run(  # noqa: PLR0913 - one parameter for each flag
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The workflow.")],
    directories: Directories = None,
    *,
    given: Annotated[
        list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="An input's value; may be repeated.")
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
    """Run a workflow, and print what its last skill came to. The exit code is 1 where it did not complete."""
    inputs = values_of(given, "--input")
    from server.cli.commands.run_execution import open_for_runs, performed, show_outcome
    from server.run.workflow_files import read_file
    from skills_core.run.workflow.plan import prepare

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
    plan = prepare(read_file(file), file.stem, opened.library.catalog, inputs)

    async def work(participants: RunParticipants) -> WorkflowOutcome:
        return await opened.service.perform_workflow(plan, participants, run_id)

    show_outcome(performed(opened, plan.workflow.name, run_id, work), as_json=as_json)
