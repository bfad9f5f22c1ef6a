"""Run skills and workflows, recorded step by step, so that interrupted runs can be continued.

Runs that use the connected client's model are not recorded: they cannot continue after the client has disconnected.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from secrets import token_hex
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from server.capabilities.runs.after_run import FollowUps
from server.capabilities.runs.recorded_runs import (
    companions_to_json,
    conflict_details,
    pinned_skill,
    recorded_outcome,
    recorded_selection,
    unfinished_outcome,
    unfinished_workflow_outcome,
    with_recorded_rights,
    withheld_tools,
)
from server.capabilities.runs.skill_runner import AttachedRuns, SkillRunner
from server.capability import FinishedRun
from skills_core.errors import SkillsError, UnknownSkillError
from skills_core.interaction import discard_progress
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.heartbeat import ignore_interrupted
from skills_core.runs.durable.recorded_run import (
    NESTED_SEPARATOR,
    RunConflictError,
    RunNotDoneError,
    RunWithoutRecordError,
    StoreUnreachableError,
    is_nested,
)
from skills_core.runs.executor import RunRequest
from skills_core.runs.journal import MemoryJournal, from_json, to_json
from skills_core.runs.outcome import RunOutcome, RunStatus
from skills_core.runs.run_skills import SkillSelection, select_skills
from skills_core.runs.trace import now, trace_id
from skills_core.runs.workflow.model import StepKind, WorkflowOutcome
from skills_core.runs.workflow.plan import plan_from_json, plan_to_json
from skills_core.runs.workflow.run import run_workflow

if TYPE_CHECKING:
    from server.capabilities.runs.skill_runner import RunnerConfig, RunParticipants, RunSession
    from server.capability import AfterRun, Improvements
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.guard.tool import Secrets
    from skills_core.runs.durable.engine import Engine
    from skills_core.runs.durable.heartbeat import InterruptedRun
    from skills_core.runs.durable.recorded_run import WorkerConfig
    from skills_core.runs.durable.store import Store
    from skills_core.runs.durable.worker import Job
    from skills_core.runs.journal import Journal
    from skills_core.runs.trace import TraceStore
    from skills_core.runs.workflow.model import StepRecord
    from skills_core.runs.workflow.plan import Plan
    from skills_core.skills.skill import Skill

    _Step = Callable[[str, str, Mapping[str, str], str | None], Awaitable[RunOutcome]]


KINDS = ("skill", "workflow")
"""The kinds of recorded runs."""

RETENTION = timedelta(days=30)
"""How long the record of a finished run is kept."""

CANCEL_SECONDS = 5.0
"""Time limit for recording the cancellation of a run when its last waiting caller leaves."""

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class InvalidRunIdError(SkillsError):
    """The given run ID has a wrong form."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"The run ID {run_id[:100]!r} is invalid: use 1 to 64 letters, digits, - and _, beginning with a letter or "
            "digit."
        )


def new_run_id() -> str:
    """Return a unique run ID: 32 hexadecimal digits, usable as an OpenTelemetry trace ID."""
    return token_hex(16)


class RunService:
    """Runs skills and workflows with one set of settings; `catalog` returns the current catalog."""

    def __init__(
        self,
        config: RunnerConfig,
        catalog: Callable[[], Catalog],
        after_run: AfterRun | None = None,
        improvements: Improvements | None = None,
    ) -> None:
        """Open nothing yet; `after_run` is awaited after each run of a skill, steps of workflows included.

        `improvements` returns what it changed in skills after given runs.
        """
        self._after_run = after_run
        self._improvements = improvements
        self._follow_ups = FollowUps(after_run)
        self._runner = SkillRunner(config)
        self._traces = config.store
        self._attached = AttachedRuns(catalog)
        self._engine: Engine | None = None
        self._closing = False

    def close(self) -> None:
        """Announce the end of the process: runs cancelled from now on stay recorded as interrupted, to be continued."""
        self._closing = True

    @asynccontextmanager
    async def recording(
        self,
        store: Store,
        terms: WorkerConfig,
        on_interrupted: Callable[[InterruptedRun], None] = ignore_interrupted,
        more_jobs: Mapping[str, Job] = MappingProxyType({}),
    ) -> AsyncGenerator[Engine]:
        """Record runs in `store` until the block ends, and complete the interrupted runs that `terms` select.

        `on_interrupted` is called with each interrupted run that is continued, or skipped for its age. `more_jobs` are
        those of further kinds of runs, which have no client.

        Raises:
            StoreError: the store cannot be used.
        """
        jobs = dict(zip(KINDS, (self._skill_job, self._workflow_job), strict=True)) | dict(more_jobs)
        async with open_engine(store, jobs, terms, on_interrupted) as engine:
            await engine.delete_finished(RETENTION)
            # The closed engine stays set: it refuses new runs, which would otherwise run unrecorded.
            self._engine = engine
            async with self._follow_ups.open(engine, lambda: self._closing):
                yield engine

    def follow_up(self, run: FinishedRun) -> None:
        """Await `after_run` for a recorded run of another kind, once its outcome is recorded."""

        async def runs() -> list[FinishedRun]:
            return [run]

        self._follow_ups.add(run.outcome.run_id, runs)

    async def improvements(self, run_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return the changes of skills that were made or proposed after runs of skills, once they are complete."""
        if self._improvements is None:
            return ()
        for run_id in run_ids:
            await self._follow_ups.wait(run_id)
        return await anyio.to_thread.run_sync(self._improvements, run_ids)

    async def run_skill(
        self, request: RunRequest, participants: RunParticipants, run_id: str | None = None
    ) -> RunOutcome:
        """Run a skill to its end, or join the run with this ID. Known secrets in the request are redacted.

        What is to be done after a run is done before its outcome is returned.

        Raises:
            InvalidRunIdError: the run ID has a wrong form.
            RunConflictError: the ID belongs to another run.
            RunWithoutRecordError: the database of runs cannot be reached.
            ModelUnavailableError: the configured model cannot be used.
            ConfigurationError: the configured tools cannot be used.
        """
        catalog = self._attached.new_session(participants).catalog
        selection = select_skills(request.skill, catalog)
        run_id, secrets = _checked_run_id(run_id), await self._runner.prepare([request.skill, *selection.skills])
        message = None if request.message is None else secrets.redact(request.message)
        request = replace(request, parameters=_redacted(request.parameters, secrets), message=message)
        if not self._records(participants):
            outcome = await self._runner.run(request, selection, MemoryJournal(run_id), participants)
            if self._after_run is not None:
                await self._after_run(FinishedRun(outcome, request, catalog))
            return outcome
        key, digest = request.skill.key, request.skill.digest
        try:
            company = _company(request.skill, selection, participants)
            inputs = _skill_inputs(request.skill.settings_key, digest, request.parameters, request.message, company)
            return from_json(RunOutcome, await self._run_recorded("skill", run_id, inputs, participants))
        except RunNotDoneError as error:
            return unfinished_outcome(run_id, key, digest, error)

    async def run_workflow(
        self, plan: Plan, participants: RunParticipants, run_id: str | None = None
    ) -> WorkflowOutcome:
        """Run a workflow to its end, or join the run with this ID. Known secrets in its inputs are redacted.

        Errors are those of `run_skill`.
        """
        session = self._attached.new_session(participants)
        skills = _existing_skills(session.catalog, plan.targets)
        run_id, secrets = _checked_run_id(run_id), await self._runner.prepare(skills)
        plan = replace(plan, inputs=_redacted(plan.inputs, secrets))
        if not self._records(participants):
            finished: list[FinishedRun] = []
            step = self._unrecorded_step(run_id, session, finished)
            outcome = await self._execute_workflow(plan, MemoryJournal(run_id), session, step)
            if self._after_run is not None:
                for run in finished:
                    await self._after_run(run)
            return outcome
        try:
            inputs: JsonObject = {"plan": plan_to_json(plan)}
            return from_json(WorkflowOutcome, await self._run_recorded("workflow", run_id, inputs, participants))
        except RunNotDoneError as error:
            return unfinished_workflow_outcome(run_id, plan, error)

    def _records(self, participants: RunParticipants) -> bool:
        return self._engine is not None and participants.model is None

    async def _run_recorded(
        self, kind: str, run_id: str, inputs: JsonObject, participants: RunParticipants
    ) -> JsonObject:
        engine = self._engine
        assert engine is not None  # noqa: S101 - `_records` has checked it
        with self._attached.attach(run_id, participants):
            begun = False
            try:
                await engine.start(kind, run_id, inputs, here=True)
                begun = True
                outcome = await engine.wait(run_id)
            except StoreUnreachableError as error:
                raise RunWithoutRecordError(run_id, error, begun=begun) from None
            except RunConflictError as error:
                raise conflict_details(error, kind, inputs) from None
            except anyio.get_cancelled_exc_class():
                if self._attached.is_last_waiter(run_id) and not self._closing:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_SECONDS):
                        await engine.abandon(run_id)
                raise
        await self._follow_ups.wait(run_id)
        return outcome

    async def _skill_job(self, journal: Journal, inputs: JsonObject) -> JsonObject:
        work = partial(self._perform_recorded, journal, inputs)
        return to_json(await recorded_outcome(journal.run_id, str(inputs["skill"]), work))

    async def _perform_recorded(self, journal: Journal, inputs: JsonObject) -> RunOutcome:
        session, is_step = self._attached.session(journal.run_id), is_nested(journal.run_id)
        skill = pinned_skill(session.catalog, str(inputs["skill"]), inputs["digest"])
        request = _recorded_request(skill, inputs)
        participants = _step_participants(session.participants, journal.run_id) if is_step else session.participants
        selection = recorded_selection(skill, session.catalog, inputs["companions"])
        if inputs["restricted"] and participants.catalog is None:
            # The client that saw only a part of the catalog is gone: offer no more than was recorded for it.
            selection = replace(selection, offered=())
        participants = with_recorded_rights(participants, inputs)
        outcome = await self._runner.run(request, selection, journal, participants)
        if not is_step:
            self.follow_up(FinishedRun(outcome, request, session.catalog))
        return outcome

    async def _workflow_job(self, journal: Journal, inputs: JsonObject) -> JsonObject:
        session, plan = self._attached.session(journal.run_id), plan_from_json(inputs["plan"])
        step = self._recorded_step(journal.run_id, session, await _pinned_company(journal, plan, session))
        outcome = await self._execute_workflow(plan, journal, session, step)

        async def runs() -> list[FinishedRun]:
            return await self._finished_steps(outcome, session.catalog)

        self._follow_ups.add(journal.run_id, runs)
        return to_json(outcome)

    async def _finished_steps(self, outcome: WorkflowOutcome, catalog: Catalog) -> list[FinishedRun]:
        """Return the runs of a recorded workflow's steps, also of those that ended before an interruption."""
        assert self._engine is not None  # noqa: S101 - the engine ran the workflow
        finished = []
        for ended in (step.outcome for step in outcome.steps if step.outcome is not None):
            skill = catalog.get(ended.skill)
            if skill is not None and ended.tool_calls:
                recorded = await self._engine.get(ended.run_id)
                finished.append(FinishedRun(ended, _recorded_request(skill, recorded.given), catalog))
        return finished

    async def _execute_workflow(
        self, plan: Plan, journal: Journal, session: RunSession, run_step: _Step
    ) -> WorkflowOutcome:
        names = [each.name for each in plan.workflow.skill_steps]
        reason = await session.participants.recorded_reason(journal)
        trace = WorkflowTrace(self._traces, journal, plan, reason)

        async def run_target(target: str, parameters: Mapping[str, str], message: str | None, step: str) -> RunOutcome:
            return await run_step(str(names.index(step) + 1), target, parameters, message)

        def digest_of(target: str) -> str | None:
            try:
                return session.catalog.skill(target).digest
            except UnknownSkillError:
                return None

        async with trace.recording() as record:
            report = session.participants.report
            outcome = await run_workflow(plan, run_target, journal, digest_of=digest_of, report=report)
            outcome = replace(outcome, trigger_reason=reason)
            record(outcome)
        return outcome

    def _recorded_step(self, run_id: str, session: RunSession, company: Mapping[str, JsonValue]) -> _Step:
        async def step(number: str, target: str, parameters: Mapping[str, str], message: str | None) -> RunOutcome:
            assert self._engine is not None  # noqa: S101 - the engine ran the workflow
            digest = session.catalog.skill(target).digest
            inputs = _skill_inputs(target, digest, parameters, message, company[target])
            try:
                return from_json(RunOutcome, await self._engine.run_nested(run_id, number, "skill", inputs))
            except RunNotDoneError as error:
                return unfinished_outcome(f"{run_id}{NESTED_SEPARATOR}{number}", target, digest, error)

        return step

    def _unrecorded_step(self, run_id: str, session: RunSession, finished: list[FinishedRun]) -> _Step:
        async def step(number: str, target: str, parameters: Mapping[str, str], message: str | None) -> RunOutcome:
            request = RunRequest(session.catalog.skill(target), parameters, message)
            journal = MemoryJournal(f"{run_id}{NESTED_SEPARATOR}{number}")
            selection = select_skills(request.skill, session.catalog)
            participants = _step_participants(session.participants, journal.run_id)
            outcome = await self._runner.run(request, selection, journal, participants)
            finished.append(FinishedRun(outcome, request, session.catalog))
            return outcome

        return step


def _checked_run_id(run_id: str | None) -> str:
    if run_id is not None and not _RUN_ID.fullmatch(run_id):
        raise InvalidRunIdError(run_id)
    return run_id or new_run_id()


def _skill_inputs(
    skill: str, digest: str | None, parameters: Mapping[str, str], message: str | None, company: JsonValue
) -> JsonObject:
    """Return the inputs of a skill's run as they are recorded; `company` is made by `_company`."""
    assert isinstance(company, dict)  # noqa: S101 - as it was made
    return {"skill": skill, "digest": digest, "parameters": dict(parameters), "message": message, **company}


def _recorded_request(skill: Skill, inputs: Mapping[str, JsonValue]) -> RunRequest:
    """Return the request of a run of `skill` with these recorded inputs."""
    parameters, message = inputs["parameters"], inputs["message"]
    assert isinstance(parameters, dict)  # noqa: S101 - as `_skill_inputs` made it
    values = {name: str(value) for name, value in parameters.items()}
    return RunRequest(skill, values, None if message is None else str(message))


def _company(skill: Skill, selection: SkillSelection, participants: RunParticipants) -> JsonObject:
    """Return what is recorded of the other skills of a run, and what its client may not see and use."""
    return {
        "companions": companions_to_json(selection.companions),
        "restricted": participants.catalog is not None,
        **withheld_tools(skill, participants),
    }


async def _pinned_company(journal: Journal, plan: Plan, session: RunSession) -> Mapping[str, JsonValue]:
    """Return what the runs of a workflow's steps record of other skills, as it was when the workflow began."""

    async def work() -> JsonValue:
        skills = {target: session.catalog.get(target) for target in plan.targets}
        return {
            target: _company(skill, select_skills(skill, session.catalog), session.participants)
            for target, skill in skills.items()
            if skill is not None
        }

    recorded = await journal.step("skills", work)
    assert isinstance(recorded, dict)  # noqa: S101 - as work makes it
    return recorded


def _existing_skills(catalog: Catalog, targets: Iterable[str]) -> Iterator[Skill]:
    """Yield the target skills that still exist; the step of a missing one reports it later."""
    for target in targets:
        with suppress(UnknownSkillError):
            yield catalog.skill(target)


def _redacted(values: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    return {name: secrets.redact(value) for name, value in values.items()}


def _step_participants(participants: RunParticipants, run_id: str) -> RunParticipants:
    """Return the participants for a step of a workflow, without a progress report: the workflow reports its steps."""
    outer, _, number = run_id.rpartition(NESTED_SEPARATOR)
    return replace(participants, report=discard_progress, reason=f"workflow_step: {number} of {outer}")


class WorkflowTrace:
    """The trace of one workflow run, written at its start and end; its steps have traces of their own."""

    def __init__(self, store: TraceStore, journal: Journal, plan: Plan, trigger_reason: str) -> None:
        """Prepare the trace of the journal's run; nothing is written yet."""
        self._store = store
        self._journal = journal
        self._run_id = run_id = journal.run_id
        self._numbers = {step.name: number for number, step in enumerate(plan.workflow.skill_steps, 1)}
        self._trace: JsonObject = {
            "run_id": run_id,
            "trace_id": trace_id(run_id),
            "workflow": plan.workflow.name,
            "digest": plan.workflow.digest,
            "trigger_reason": trigger_reason,
            "inputs": dict(plan.inputs),
            "skills": dict(plan.targets),
            "started": now(),
            "ended": None,
            "status": "running",
        }

    @asynccontextmanager
    async def recording(self) -> AsyncGenerator[Callable[[WorkflowOutcome], None]]:
        """Write the trace when the block starts and when it ends; yield the function that records the outcome.

        Without an outcome, the trace says that the run was interrupted or cancelled.
        """
        # A continued run keeps its first start time.
        self._trace["started"] = await self._journal.step("started", _now)
        if self._journal.epoch is None:
            self._trace["process"] = await anyio.to_thread.run_sync(self._store.presence)
        await anyio.to_thread.run_sync(partial(self._write, first=True))
        try:
            yield self._record
        finally:
            if self._trace["ended"] is None:
                status = RunStatus.INTERRUPTED if self._journal.interrupted else RunStatus.CANCELLED
                self._trace |= {"ended": now(), "status": status.value}
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._write)

    def _record(self, outcome: WorkflowOutcome) -> None:
        fields = {key: value for key, value in to_json(outcome).items() if key not in {"run_id", "workflow", "digest"}}
        self._trace |= {**fields, "ended": now(), "steps": [self._step(step) for step in outcome.steps]}

    def _step(self, step: StepRecord) -> JsonObject:
        fields = {key: value for key, value in to_json(step).items() if key != "outcome"}
        has_run = step.kind is StepKind.SKILL and step.outcome is not None
        return {**fields, "run": f"{self._run_id}{NESTED_SEPARATOR}{self._numbers[step.name]}" if has_run else None}

    def _write(self, *, first: bool = False) -> None:
        if not self._journal.fenced:
            self._store.try_write(self._run_id, self._trace, self._journal.epoch, first=first)


async def _now() -> JsonValue:
    return now()
