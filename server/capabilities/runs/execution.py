"""Run skills and workflows for a command, and show and cancel recorded runs.

The functions at the end name what other capabilities add: further kinds of jobs, and what follows a run.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from server.capabilities.runs.additions import additional_jobs, lines_of_change, open_service
from server.capabilities.runs.offered import command_unavailable_reason
from server.capabilities.runs.run_reading import read_run, read_runs
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.telemetry import traced
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.terminal import attach_terminal
from server.config.bootstrap import open_with_settings, settings_of
from server.config.machine import Machine, current_places
from server.transport.signals import until_signalled
from skills_core.installation import extra_advice
from skills_core.runs.durable.recorded_run import RunNotDoneError, RunState, is_nested
from skills_core.runs.journal import to_json
from skills_core.runs.models import has_extra
from skills_core.runs.workflow.model import WorkflowOutcome

if TYPE_CHECKING:
    from server.capabilities.runs.service import RunService
    from server.capabilities.runs.skill_runner import RunParticipants
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonObject
    from skills_core.live.library import Library
    from skills_core.runs.durable.engine import Engine
    from skills_core.runs.outcome import RunOutcome


_Outcome = TypeVar("_Outcome", "RunOutcome", WorkflowOutcome)
Improvements: TypeAlias = "Sequence[Mapping[str, Any]]"


@dataclass(frozen=True, slots=True)
class RunCommandContext:
    """The library, settings and run service of a command."""

    library: Library
    settings: Settings
    service: RunService


def open_for_runs(directories: Sequence[Path] | None, **flags: object) -> RunCommandContext:
    """Open the run service for the skills of `directories`; exit with a message if no model can be used."""
    library, settings = open_with_settings(directories, **flags)
    if reason := command_unavailable_reason(settings.section(RunSettings)):
        fail(reason, EXIT_USAGE)
    # The import fails without the extra `run`.
    return RunCommandContext(library, settings, open_service(library, settings))


def execute(
    context: RunCommandContext,
    name: str,
    run_id: str | None,
    work: Callable[[RunParticipants], Awaitable[_Outcome]],
    *,
    command: str,
) -> tuple[_Outcome, Improvements]:
    """Call `work` while runs are recorded, with the user at the terminal as participant.

    Return its outcome, and the changes of skills that were made or proposed after it.

    Questions to the user name the skill or workflow `name`, the trace names the `command`. Of the interrupted runs,
    only the one with this run ID is continued. A run that a signal interrupts can be continued later.
    """
    from server.capabilities.runs.factory import recording
    from server.capabilities.runs.skill_runner import RunParticipants

    async def recorded(participants: RunParticipants) -> tuple[_Outcome, Improvements]:
        only = [] if run_id is None else [run_id]
        jobs = additional_jobs(context.library, context.settings, context.service)
        async with recording(context.service, context.library, context.settings, only, more_jobs=jobs):
            outcome = await work(participants)
            return outcome, await context.service.improvements(_runs_of(outcome))

    reason = f"command: {command}"
    with traced(os.environ), attach_terminal(name) as (user, report):
        return until_signalled(lambda: recorded(RunParticipants(user, report, reason=reason)), context.service.close)


def _runs_of(outcome: RunOutcome | WorkflowOutcome) -> list[str]:
    """Return the IDs of the runs of skills, those of a workflow's steps included."""
    steps = outcome.steps if isinstance(outcome, WorkflowOutcome) else ()
    return [outcome.run_id, *(step.outcome.run_id for step in steps if step.outcome is not None)]


def print_improvements(improvements: Improvements) -> None:
    """Print on stderr what was changed or proposed in skills after a run, with the diffs."""
    for change in improvements:
        for line in lines_of_change(change):
            print_notice(line)


def print_outcome(
    result: tuple[RunOutcome, Improvements] | tuple[WorkflowOutcome, Improvements], *, as_json: bool
) -> None:
    """Print the outcome, and on stderr problems of steps and changes of skills; exit with 1 if there is a problem."""
    outcome, improvements = result
    print_improvements(improvements)
    if as_json:
        print_json({**to_json(outcome), "improvements": [*improvements]})
    elif outcome.output:
        print_text(outcome.output)
    for step in outcome.steps if isinstance(outcome, WorkflowOutcome) else ():
        if step.outcome is not None and step.outcome.problem is not None:
            print_notice(f"{step.name}: {step.outcome.message} (run {step.outcome.run_id})")
    if outcome.problem is not None:
        print_notice(f"{outcome.message} (run {outcome.run_id})")
        raise SystemExit(EXIT_NO)


def resume_interrupted(context: RunCommandContext) -> list[dict[str, Any]]:
    """Continue the interrupted runs and return their outcomes; report skipped runs on stderr."""
    from server.capabilities.runs.factory import recording
    from server.capabilities.runs.service import KINDS

    async def work() -> list[dict[str, Any]]:
        jobs = additional_jobs(context.library, context.settings, context.service)
        async with recording(context.service, context.library, context.settings, more_jobs=jobs) as engine:
            await engine.recover()
            recorded_runs = await engine.runs([RunState.WAITING, RunState.RUNNING], limit=10_000)
            unfinished = [run for run in recorded_runs if not is_nested(run.run_id)]
            # Waiting for a run of an unknown kind would never end: no worker here runs it.
            known = [run for run in unfinished if run.kind in {*KINDS, *jobs}]
            await _report_skipped(engine, [run.run_id for run in unfinished if run not in known])
            return [await _final_status(context, engine, run.run_id, run.kind) for run in known]

    with traced(os.environ):
        return until_signalled(work, context.service.close)


async def _report_skipped(engine: Engine, unknown: Iterable[str]) -> None:
    """Report the interrupted runs that are not continued here; `unknown` are those of unknown kinds."""
    for run_id in unknown:
        print_notice(f"{run_id} is not continued: this version does not know its kind")
    for run_id in await engine.foreign_runs():
        print_notice(
            f"{run_id} is not continued: it was started with other folders, another model, other tools or settings, or "
            f"by another version; `skillserve runs show {run_id}` shows its trace"
        )


async def _final_status(context: RunCommandContext, engine: Engine, run_id: str, kind: str) -> dict[str, Any]:
    try:
        outcome = await engine.wait(run_id)
    except RunNotDoneError as error:
        return {"run_id": run_id, "kind": kind, "status": error.run.state.value, "message": str(error)}
    steps = outcome.get("steps")
    ended = [step["outcome"] for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    ids = [run_id, *(str(each["run_id"]) for each in ended if isinstance(each, dict))]
    improvements = await context.service.improvements(ids)
    print_improvements(improvements)
    said = {"status": outcome["status"], "message": outcome["message"], "improvements": [*improvements]}
    return {"run_id": run_id, "kind": kind, **said}


_SUMMARY = (
    "run_id",
    "skill",
    "workflow",
    "digest",
    "model",
    "started",
    "ended",
    "status",
    "problem",
    "message",
    "trigger_reason",
)


def _summaries(traces: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the summary fields of each trace."""
    return [{key: trace.get(key) for key in _SUMMARY} for trace in traces]


def read_summaries() -> list[JsonObject]:
    """Return the summaries of all runs, latest first; report unreadable traces on stderr."""
    return _summaries(read_runs(settings_of(Machine(current_places()), {}), print_notice))


def read_trace(run_id: str) -> JsonObject:
    """Return the trace of a run, with the status from the record.

    Raises:
        UnknownTraceError: the run has neither a trace nor a record.
    """
    return read_run(settings_of(Machine(current_places()), {}), run_id, print_notice)


def cancel_runs(run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Cancel runs; return for each run whether it is cancelled, its status and a message.

    Raises:
        StoreError: the record cannot be used.
    """
    if not has_extra():
        fail(f"cancelling runs requires the extra `run`; {extra_advice('run')}", EXIT_USAGE)
    from server.capabilities.runs.run_list import open_run_list

    with open_run_list(settings_of(Machine(current_places()), {})) as run_list:
        return [asdict(run_list.cancel(run_id)) for run_id in dict.fromkeys(run_ids)]
