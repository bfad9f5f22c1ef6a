"""The command `schedule`: run skills at set times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from server.cli.commands.options import (
    AsJson,
    Directories,
    FollowSymlinks,
    McpServers,
    Model,
    RunTool,
    SkillTool,
    TrustWorkspace,
    Workspace,
)
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.help_pages import CommandLine

if TYPE_CHECKING:
    from server.capabilities.schedules.store import ScheduleStore
    from skills_core.runs.tools import WorkspaceTool

_NO_SCHEDULE = "there is no schedule in {}; `skillserve schedule add` makes one"

schedule = CommandLine(help="Run skills at set times.", no_args_is_help=True)


Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The schedule's name, or the part before its last hyphen if that is unique."),
]


At = Annotated[str | None, typer.Option(metavar="WHEN", help="Run once, at +5m, 18:00 or an ISO 8601 time.")]
Span = Annotated[str | None, typer.Option(metavar="SPAN", help="Run after each span, as in 4s, 10m or 2h.")]
Expression = Annotated[str | None, typer.Option(metavar="EXPR", help="Run by a cron expression of 5 or 6 fields.")]
Zone = Annotated[str | None, typer.Option(metavar="ZONE", help="The time zone.", show_default="that of this machine")]
Missed = Annotated[
    Literal["skip", "once", "all"],
    typer.Option(help="What to do about firings that were missed while no process kept time."),
]
Overlap = Annotated[
    Literal["skip", "queue"], typer.Option(help="What to do about a firing while the run before it lasts.")
]


@schedule.command()
def add(  # noqa: PLR0913 - one parameter for each flag
    short: Annotated[
        str, typer.Argument(metavar="SHORT", help="A short name for a new schedule, or the name of an existing one.")
    ],
    directories: Directories = None,
    *,
    at: At = None,
    every: Span = None,
    cron: Expression = None,
    tz: Zone = None,
    task: Annotated[str | None, typer.Option(metavar="TEXT", help="What to do, in your own words.")] = None,
    output: Annotated[str | None, typer.Option(metavar="TEXT", help="What the result should look like.")] = None,
    skill: Annotated[str | None, typer.Option(metavar="NAME", help="The skill to perform the task with.")] = None,
    missed: Missed = "once",
    overlap: Overlap = "skip",
    model: Model = None,
    run_tools: RunTool = None,
    workspace: Workspace = None,
    mcp_servers: McpServers = None,
    skill_tools: SkillTool = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Make a schedule, or give an existing one another time.

    The tools that are allowed here are the most that its runs may use. For an existing schedule, only the time is
    taken. A server with schedules, or `skillserve schedule daemon`, keeps the time.
    """
    _require_extra()
    from server.capabilities.schedules.actions import AddOptions, add_schedule
    from skills_core.schedules.when import MissedPolicy, OverlapPolicy

    flags = _flags(model, run_tools, workspace, mcp_servers, skill_tools)
    flags |= {"follow_symlinks": follow_symlinks, "trust_workspace": trust_workspace}
    policies = MissedPolicy(missed), OverlapPolicy(overlap)
    options = AddOptions(short, at, every, cron, tz, task, output, skill, model, *policies, directories, flags)
    text, found = add_schedule(options)
    _print(found, text, as_json=as_json)


def _flags(
    model: str | None,
    run_tools: list[WorkspaceTool] | None,
    workspace: str | None,
    mcp_servers: str | None,
    skill_tools: list[str] | None,
) -> dict[str, Any]:
    """Return the options of commands that are settings of runs."""
    return {
        "model": model,
        "run_tools": run_tools,
        "workspace": workspace,
        "mcp_servers": mcp_servers,
        "skill_tools": skill_tools,
    }


def _print(found: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_text(text)


@schedule.command("list")
def list_schedules(*, as_json: AsJson = False) -> None:
    """List the schedules with their next firings."""
    _require_extra()
    from server.capabilities.schedules.actions import listed
    from server.capabilities.schedules.store import utc_now

    store = _store()
    found = listed(store, utc_now())
    if as_json:
        print_json({"schedules": found})
        return
    if not found:
        print_notice(_NO_SCHEDULE.format(store.root))
    for each in found:
        coming = each["next"][0] if each["next"] else "-"
        print_text(f"{each['name']}  {each['state']}  next {coming}  {len(each['runs'])} runs")
        for trouble in (each.get("problem"), *each.get("warnings", ())):
            if trouble:
                print_notice(f"{each['name']}: {trouble}")


@schedule.command("overview")
def show_overview(*, as_json: AsJson = False) -> None:
    """Show what runs without you.

    For each schedule: its next firings, its rights, its model and what it has used today; then the limits, the changes
    that improvement made after runs, and warnings.
    """
    _require_extra()
    from server.capabilities.schedules.actions import schedule_overview

    store = _store()
    found, text = schedule_overview(store)
    if not (found["schedules"] or as_json):
        print_notice(_NO_SCHEDULE.format(store.root))
    _print(found, text, as_json=as_json)


@schedule.command()
def show(name: Name, *, as_json: AsJson = False) -> None:
    """Show a schedule, its runs, and the latest result.

    A schedule that is done is found in the trash. `skillserve runs show ID` shows the trace of a run.
    """
    _require_extra()
    from server.capabilities.schedules.actions import show_schedule

    found, text = show_schedule(_store(), name)
    _print(found, text, as_json=as_json)


@schedule.command("next")
def next_firings(
    name: Name,
    *,
    count: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Show the next N firings.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show the next firings of a schedule."""
    _require_extra()
    from server.capabilities.schedules.actions import next_times
    from server.capabilities.schedules.store import utc_now

    store = _store()
    times = next_times(store.read(store.find(name)), utc_now(), count)
    _print({"next": times}, "\n".join(times) or "it has no further firing", as_json=as_json)


@schedule.command()
def pause(name: Name) -> None:
    """Let a schedule fire only by hand, until it is resumed."""
    _require_extra()
    from server.capabilities.schedules.actions import pause_schedule

    changed = pause_schedule(name)
    print_text(f"{changed['name']}  {changed['state']}")


@schedule.command()
def resume(name: Name) -> None:
    """Let a paused schedule fire again."""
    _require_extra()
    from server.capabilities.schedules.actions import resume_schedule

    changed = resume_schedule(name)
    print_text(f"{changed['name']}  {changed['state']}")


@schedule.command()
def remove(name: Name) -> None:
    """Remove a schedule; its folder is moved to the trash."""
    _require_extra()
    store = _store()
    found = store.find(name)
    print_text(f"{found}  removed, its folder is {store.remove(found)}")


@schedule.command("run")
def run_now(
    name: Name,
    directories: Directories = None,
    *,
    model: Model = None,
    run_tools: RunTool = None,
    workspace: Workspace = None,
    mcp_servers: McpServers = None,
    skill_tools: SkillTool = None,
    as_json: AsJson = False,
) -> None:
    """Perform a schedule now, and print the result.

    Its runs have the rights that were chosen for it, as far as the options allow them here. The exit code is 1 if the
    run fails.
    """
    _require_extra()
    from server.capabilities.runs.execution import print_improvements
    from server.capabilities.schedules.actions import run_by_hand

    flags = _flags(model, run_tools, workspace, mcp_servers, skill_tools)
    outcome, improvements = run_by_hand(_store(), name, directories, flags)
    print_improvements(improvements)
    if as_json:
        print_json({**outcome, "improvements": [*improvements]})
    elif outcome["output"]:
        print_text(str(outcome["output"]))
    if outcome["problem"] is not None:
        print_notice(f"{outcome['message']} (run {outcome['run_id']})")
        raise SystemExit(EXIT_NO)


@schedule.command()
def daemon(
    directories: Directories = None,
    *,
    model: Model = None,
    run_tools: RunTool = None,
    workspace: Workspace = None,
    mcp_servers: McpServers = None,
    skill_tools: SkillTool = None,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Keep time in the foreground until SIGTERM or SIGINT.

    The options are the most that runs may use; each schedule has rights of its own within them.
    """
    _require_extra()
    from server.capabilities.schedules.actions import keep_time

    flags = _flags(model, run_tools, workspace, mcp_servers, skill_tools)
    keep_time(directories, {**flags, "follow_symlinks": follow_symlinks, "trust_workspace": trust_workspace})


def _require_extra() -> None:
    from skills_core.installation import extra_advice
    from skills_core.runs.models import has_extra

    if not has_extra():
        fail(f"schedules require the extra `run`; {extra_advice('run')}", EXIT_USAGE)


def _store() -> ScheduleStore:
    from server.capabilities.schedules.store import ScheduleStore

    return ScheduleStore()
