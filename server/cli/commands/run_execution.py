"""What the commands that perform share: a service for folders and settings, and the person at the terminal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from server.cli.console import NO, WRONG_USE, fail, print_json, print_text, tell
from server.cli.terminal import at_terminal
from server.config.bootstrap import open_with_settings
from server.listing.runs import why_no_runs
from server.run.telemetry import traced
from server.transport.signals import until_signalled
from skills_core.run.durable.errors import RunNotDoneError
from skills_core.run.durable.recorded_run import RunState
from skills_core.run.durable.worker_config import is_inner
from skills_core.run.json_codec import to_json
from skills_core.run.models import CLIENT
from skills_core.run.workflow.outcome import WorkflowOutcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from server.config.settings import Settings
    from server.run.service import RunService
    from server.run.skill_runner import RunParticipants
    from skills_core.library import Library
    from skills_core.run.durable.engine import Engine
    from skills_core.run.outcome import RunOutcome

__all__ = ["Opened", "open_for_runs", "performed", "resumed", "show_outcome"]

_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True, slots=True)
class Opened:
    """What a command performs with."""

    library: Library
    settings: Settings
    service: RunService


def open_for_runs(directories: Sequence[Path] | None, **flags: object) -> Opened:
    """Return what performs the skills of `directories`; without a model the command ends."""
    library, settings = open_with_settings(directories, **flags)
    if (reason := why_no_runs(settings)) or settings.model == CLIENT:
        fail(reason or "there is no client here whose model could be used; name another with --model", WRONG_USE)
    # What performs cannot be imported without the extra.
    from server.run.factory import service_of

    return Opened(library, settings, service_of(library, settings))


def performed(
    opened: Opened, name: str, run_id: str | None, work: Callable[[RunParticipants], Awaitable[_Outcome]]
) -> _Outcome:
    """Do the work while its runs are recorded, with whoever is at the terminal; return what it came to.

    Of what others left behind, the run of this name is continued, and no other: a command is there for a moment.
    They are asked on behalf of the skill or workflow `name`. Where a signal ends the process, what is recorded stays
    to be continued.
    """
    from server.run.factory import recording
    from server.run.skill_runner import RunParticipants

    async def recorded(participants: RunParticipants) -> _Outcome:
        only = [] if run_id is None else [run_id]
        async with recording(opened.service, opened.library, opened.settings, only):
            return await work(participants)

    with traced(os.environ), at_terminal(name) as (user, report):
        return until_signalled(lambda: recorded(RunParticipants(user, report)), opened.service.close)


def show_outcome(outcome: RunOutcome | WorkflowOutcome, *, as_json: bool) -> None:
    """Print what was performed, and on stderr what is wrong with a step; what is wrong with all of it ends all."""
    if as_json:
        print_json(to_json(outcome))
    elif outcome.output:
        print_text(outcome.output)
    for step in outcome.steps if isinstance(outcome, WorkflowOutcome) else ():
        if step.outcome is not None and step.outcome.problem is not None:
            tell(f"{step.name}: {step.outcome.message} (run {step.outcome.run_id})")
    if outcome.problem is not None:
        tell(f"{outcome.message} (run {outcome.run_id})")
        raise SystemExit(NO)


def resumed(opened: Opened) -> list[dict[str, Any]]:
    """Complete the runs that were interrupted, and return what each came to; those that are left are told of."""
    from server.run.factory import recording
    from server.run.service import KINDS

    async def work() -> list[dict[str, Any]]:
        async with recording(opened.service, opened.library, opened.settings) as engine:
            await engine.recover()
            found = await engine.runs([RunState.WAITING, RunState.RUNNING], limit=10_000)
            unfinished = [run for run in found if not is_inner(run.run_id)]
            # What somebody wrote into the record that nobody here performs would be waited for without end.
            ours = [run for run in unfinished if run.kind in KINDS]
            await _tell_of_others(engine, [run.run_id for run in unfinished if run.kind not in KINDS])
            return [await _come_to(engine, run.run_id, run.kind) for run in ours]

    with traced(os.environ):
        return until_signalled(work, opened.service.close)


async def _tell_of_others(engine: Engine, unknown: Iterable[str]) -> None:
    """Name the interrupted runs that are not completed here; `unknown` are those of unknown kinds."""
    for run_id in unknown:
        tell(f"{run_id} is left alone: it is of a kind that is not known here")
    for run_id in await engine.left_alone():
        tell(
            f"{run_id} is left alone: it was begun with other folders, another model, other tools or settings, or by "
            f"another version; `skillserve runs show {run_id}` tells of it"
        )


async def _come_to(engine: Engine, run_id: str, kind: str) -> dict[str, Any]:
    try:
        outcome = await engine.wait(run_id)
    except RunNotDoneError as error:
        return {"run_id": run_id, "kind": kind, "status": error.run.state.value, "message": str(error)}
    return {"run_id": run_id, "kind": kind, "status": outcome["status"], "message": outcome["message"]}
