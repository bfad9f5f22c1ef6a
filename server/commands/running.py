"""The commands that perform skills with a model, and show what came of it: `run`, `runs list`, `runs show`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.commands.opening import open_with_settings
from server.commands.options import AsJson, Directories, FollowSymlinks, Param, TrustWorkspace, values_of
from server.console import NO, WRONG_USE, fail, print_json, print_text
from server.environment import state_home
from server.rules import guard_of
from skills_core.errors import UnknownSkillError

if TYPE_CHECKING:
    from server.run.service import Run, RunService
    from skills_core.run.outcome import RunOutcome

__all__ = ["run", "runs"]

runs = typer.Typer(help="Look at what was performed.", no_args_is_help=True)

Model = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="anthropic:NAME, openai:NAME, or http(s)://HOST/v1#NAME."),
]


def run(
    name: Annotated[str, typer.Argument(help="The skill's name.")],
    message: Annotated[str | None, typer.Argument(help="What you want of it, in your own words.")] = None,
    directories: Directories = None,
    *,
    param: Param = None,
    model: Model = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Perform a skill with a model. The exit code is 1 where it did not complete, or its score is too low."""
    values = values_of(param)
    library, settings = open_with_settings(
        directories, model=model, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
    from server.listing.runs import why_no_runs

    if (reason := why_no_runs(settings)) or settings.model == "client":
        fail(reason or "there is no client here whose model could be used; name another with --model", WRONG_USE)
    try:
        skill = library.catalog.skill(name)
    except UnknownSkillError as error:
        fail(str(error), NO)
    from server.run.service import Run, RunService

    service = RunService(settings, lambda: guard_of(library.catalog.active, settings), state_home())
    outcome = _performed(service, Run(skill, values, message))
    _show(outcome, as_json=as_json)


def _performed(service: RunService, run: Run) -> RunOutcome:
    from dataclasses import replace

    import anyio

    from server.run.telemetry import traced
    from server.run.terminal import at_terminal

    with traced(os.environ), at_terminal() as (user, report):
        return anyio.run(service.perform, replace(run, user=user, report=report))


def _show(outcome: RunOutcome, *, as_json: bool) -> None:
    from skills_core.run.outcome import RunProblem, RunStatus
    from skills_core.run.records import to_json

    if as_json:
        print_json(to_json(outcome))
    elif outcome.output:
        print_text(outcome.output)
    if outcome.problem is not None:
        typer.echo(f"skillserve: {outcome.message} (run {outcome.run_id})", err=True)
    if outcome.status is not RunStatus.COMPLETED or outcome.problem is RunProblem.BELOW_MIN_SCORE:
        raise SystemExit(NO)


@runs.command("list")
def list_runs(*, as_json: AsJson = False) -> None:
    """List the runs that there are traces of, the latest first."""
    from server.run.traces import trace_store

    store = trace_store(state_home())
    found = [_summary(store.read(run_id)) for run_id in store.run_ids()]
    if as_json:
        print_json({"runs": found})
        return
    for each in found:
        print_text("  ".join(str(each[key] or "-") for key in ("run_id", "started", "status", "skill", "problem")))


@runs.command("show")
def show_run(run_id: Annotated[str, typer.Argument(metavar="ID", help="The run, as `runs list` shows it.")]) -> None:
    """Print the trace of a run: each call of the model and of tools, decisions, scores, and how it ended."""
    from server.run.traces import trace_store
    from skills_core.run.trace.store import UnknownRunError

    try:
        print_json(trace_store(state_home()).read(run_id))
    except UnknownRunError as error:
        fail(str(error), NO)


def _summary(trace: dict[str, Any]) -> dict[str, Any]:
    keys = ("run_id", "skill", "digest", "model", "started", "ended", "status", "problem", "message")
    return {key: trace.get(key) for key in keys}
