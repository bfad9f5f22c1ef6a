"""Performs runs and workflows, recorded step by step, so that what is interrupted is completed.

A run of the connected client's own model is not recorded: whoever continued it would have to ask a client that is gone.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING

import anyio

from server.config.settings import ConfigurationError
from server.run.attached import AttachedRuns
from server.run.skill_runner import SkillPerformance
from server.run.unfinished import conflict_details, failed, not_done, workflow_not_done
from server.run.workflow_traces import WorkflowTrace
from skills_core.errors import SkillsError, UnknownSkillError
from skills_core.run.durable.engine import open_engine
from skills_core.run.durable.errors import RunConflictError, RunNotDoneError
from skills_core.run.durable.takeover import ignored
from skills_core.run.durable.worker_config import INSIDE, is_inner
from skills_core.run.executor import RunRequest
from skills_core.run.json_codec import from_json, to_json
from skills_core.run.models import ModelUnavailableError
from skills_core.run.outcome import RunOutcome, RunProblem
from skills_core.run.ports import MemoryJournal, unheard
from skills_core.run.workflow.outcome import WorkflowOutcome
from skills_core.run.workflow.plan import plan_from_json, plan_to_json
from skills_core.run.workflow.run import run_workflow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping

    from server.run.attached import RunSession
    from server.run.skill_runner import RunnerConfig, RunParticipants
    from skills_core.catalog import Catalog
    from skills_core.run.durable.engine import Engine
    from skills_core.run.durable.store import Store
    from skills_core.run.durable.takeover import Interrupted
    from skills_core.run.durable.worker_config import Terms
    from skills_core.run.ports import Journal, JsonObject
    from skills_core.run.secrets import Secrets
    from skills_core.run.workflow.plan import Plan
    from skills_core.skill import Skill

    _Step = Callable[[str, str, Mapping[str, str], str | None], Awaitable[RunOutcome]]

__all__ = ["KINDS", "RunNameError", "RunService", "new_run_id"]

KINDS = ("skill", "workflow")
"""What is recorded: a skill that is performed, and several in a workflow."""

KEPT = timedelta(days=30)
"""How long the record of a finished run is kept."""

LAST_WORDS = 5.0
"""Seconds in which a run that nobody waits for any more is cancelled in the record."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class RunNameError(SkillsError):
    """A run cannot be called so."""

    def __init__(self, name: str) -> None:
        super().__init__(f"A run is named by up to 64 letters, digits, - and _, not {name[:100]!r}.")


def new_run_id() -> str:
    """Return a name that no other run has: 32 hexadecimal digits, as the number of a trace."""
    return token_hex(16)


class RunService:
    """Performs runs by one set of settings; `catalog` gives the skills of the moment."""

    def __init__(self, surroundings: RunnerConfig, catalog: Callable[[], Catalog]) -> None:
        """Nothing is opened yet."""
        self._perform = SkillPerformance(surroundings)
        self._store = surroundings.store
        self._waiters = AttachedRuns(catalog)
        self._engine: Engine | None = None
        self._closing = False

    def close(self) -> None:
        """Take note that the process is about to end: runs that are cancelled from now on are to be continued."""
        self._closing = True

    @asynccontextmanager
    async def recording(
        self, store: Store, terms: Terms, tell: Callable[[Interrupted], None] = ignored
    ) -> AsyncGenerator[Engine]:
        """Record runs in `store` as long as the block lasts, and complete those that `terms` say of the interrupted.

        `tell` is called with each interrupted run that is continued or left alone for its age.

        Raises:
            StoreError: the store cannot be used.
        """
        jobs = dict(zip(KINDS, (self._skill_job, self._workflow_job), strict=True))
        async with open_engine(store, jobs, terms, tell) as engine:
            await engine.forget(KEPT)
            # It stays when it is closed: what is begun then is refused, and not performed without a record.
            self._engine = engine
            yield engine

    async def perform(
        self, request: RunRequest, participants: RunParticipants, run_id: str | None = None
    ) -> RunOutcome:
        """Perform a skill to its end, or join the run of this name. What is asked is recorded without known secrets.

        Raises:
            RunNameError: a run cannot be named so.
            RunConflictError: the name is that of another run.
            ModelUnavailableError: the model that settings name cannot be used.
            ConfigurationError: the tools that settings name cannot be used.
        """
        run_id, secrets = await self._begun(run_id, [request.skill])
        message = None if request.message is None else secrets.hidden(request.message)
        request = replace(request, parameters=_hidden(request.parameters, secrets), message=message)
        if not self._records(participants):
            return await self._perform(request, MemoryJournal(run_id), participants)
        key, digest = request.skill.key, request.skill.digest
        try:
            given = _given(key, digest, request.parameters, request.message)
            return from_json(RunOutcome, await self._recorded("skill", run_id, given, participants))
        except RunNotDoneError as error:
            return not_done(run_id, key, digest, error)

    async def perform_workflow(
        self, plan: Plan, participants: RunParticipants, run_id: str | None = None
    ) -> WorkflowOutcome:
        """Run a workflow to its end, or join the run of this name. Its inputs are recorded without known secrets.

        Raises:
            RunNameError: a run cannot be named so.
            RunConflictError: the name is that of another run.
            ModelUnavailableError: the model that settings name cannot be used.
            ConfigurationError: the tools that settings name cannot be used.
        """
        live = self._waiters.live(participants)
        run_id, secrets = await self._begun(run_id, _found(live.catalog, plan.targets))
        plan = replace(plan, inputs=_hidden(plan.inputs, secrets))
        if not self._records(participants):
            return await self._run_workflow(plan, MemoryJournal(run_id), live, self._unrecorded_step(run_id, live))
        try:
            given: JsonObject = {"plan": plan_to_json(plan)}
            return from_json(WorkflowOutcome, await self._recorded("workflow", run_id, given, participants))
        except RunNotDoneError as error:
            return workflow_not_done(run_id, plan, error)

    async def _begun(self, run_id: str | None, skills: Iterable[Skill]) -> tuple[str, Secrets]:
        """Return the name of a run that can be performed as far as settings go, and what it may not tell."""
        named = _named(run_id)
        return named, await self._perform.prepare(skills)

    def _records(self, participants: RunParticipants) -> bool:
        return self._engine is not None and participants.model is None

    async def _recorded(self, kind: str, run_id: str, given: JsonObject, participants: RunParticipants) -> JsonObject:
        engine = self._engine
        assert engine is not None  # noqa: S101 - asked before
        with self._waiters.waiting(run_id, participants):
            try:
                return await engine.run(kind, run_id, given, here=True)
            except RunConflictError as error:
                raise conflict_details(error, kind, given) from None
            except anyio.get_cancelled_exc_class():
                if self._waiters.is_last(run_id) and not self._closing:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(LAST_WORDS):
                        await engine.leave(run_id)
                raise

    async def _skill_job(self, journal: Journal, given: JsonObject) -> JsonObject:
        live, key, digest = self._waiters.of(journal.run_id), str(given["skill"]), given["digest"]
        try:
            skill = live.catalog.skill(key)
        except UnknownSkillError as error:
            return to_json(failed(journal.run_id, key, RunProblem.SKILL_CHANGED, str(error)))
        if skill.digest != digest:
            changed = f"The skill has changed since the run began, from {digest} to {skill.digest}; begin a new run."
            return to_json(failed(journal.run_id, key, RunProblem.SKILL_CHANGED, changed))
        parameters, message = given["parameters"], given["message"]
        assert isinstance(parameters, dict)  # noqa: S101 - as it was recorded
        values = {name: str(value) for name, value in parameters.items()}
        request = RunRequest(skill, values, None if message is None else str(message))
        participants = _inside(live.participants) if is_inner(journal.run_id) else live.participants
        try:
            return to_json(await self._perform(request, journal, participants))
        except (ModelUnavailableError, ConfigurationError) as error:
            return to_json(failed(journal.run_id, key, RunProblem.CONFIGURATION, str(error)))

    async def _workflow_job(self, journal: Journal, given: JsonObject) -> JsonObject:
        live, plan = self._waiters.of(journal.run_id), plan_from_json(given["plan"])
        return to_json(await self._run_workflow(plan, journal, live, self._recorded_step(journal.run_id, live)))

    async def _run_workflow(
        self, plan: Plan, journal: Journal, live: RunSession, perform_step: _Step
    ) -> WorkflowOutcome:
        names = [each.name for each in plan.workflow.skill_steps]
        trace = WorkflowTrace(self._store, journal, plan)

        async def perform(target: str, parameters: Mapping[str, str], message: str | None, step: str) -> RunOutcome:
            return await perform_step(str(names.index(step) + 1), target, parameters, message)

        def digest_of(target: str) -> str | None:
            try:
                return live.catalog.skill(target).digest
            except UnknownSkillError:
                return None

        async with trace.written() as written:
            outcome = await run_workflow(plan, perform, journal, digest_of=digest_of, report=live.participants.report)
            written(outcome)
        return outcome

    def _recorded_step(self, run_id: str, live: RunSession) -> _Step:
        async def step(number: str, target: str, parameters: Mapping[str, str], message: str | None) -> RunOutcome:
            assert self._engine is not None  # noqa: S101 - a job is performed by it
            digest = live.catalog.skill(target).digest
            given = _given(target, digest, parameters, message)
            try:
                return from_json(RunOutcome, await self._engine.run_inside(run_id, number, "skill", given))
            except RunNotDoneError as error:
                return not_done(f"{run_id}{INSIDE}{number}", target, digest, error)

        return step

    def _unrecorded_step(self, run_id: str, live: RunSession) -> _Step:
        async def step(number: str, target: str, parameters: Mapping[str, str], message: str | None) -> RunOutcome:
            request = RunRequest(live.catalog.skill(target), parameters, message)
            return await self._perform(request, MemoryJournal(f"{run_id}{INSIDE}{number}"), _inside(live.participants))

        return step


def _named(run_id: str | None) -> str:
    if run_id is not None and not _NAME.fullmatch(run_id):
        raise RunNameError(run_id)
    return run_id or new_run_id()


def _given(skill: str, digest: str | None, parameters: Mapping[str, str], message: str | None) -> JsonObject:
    """Return what is recorded of a skill that is to be performed."""
    return {"skill": skill, "digest": digest, "parameters": dict(parameters), "message": message}


def _found(catalog: Catalog, targets: Iterable[str]) -> Iterator[Skill]:
    """Yield the skills that targets name and that are still there; a step of one that is not will tell."""
    for target in targets:
        with suppress(UnknownSkillError):
            yield catalog.skill(target)


def _hidden(values: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    return {name: secrets.hidden(value) for name, value in values.items()}


def _inside(participants: RunParticipants) -> RunParticipants:
    """Return who is there for a run inside of a workflow, whose steps count the progress already."""
    return replace(participants, report=unheard)
