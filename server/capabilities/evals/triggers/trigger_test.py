"""A trigger test with an agent: its folder, its results on disk, and the optimization of a description.

A test that was killed continues. An optimization measures, lets a model revise, chooses by validation, and decides by
the sealed test if there is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.evals.agents.agent import RunFolders
from server.capabilities.evals.agents.metered import REVISION, MeteredAgent
from server.capabilities.evals.tested_skills import digest_of
from server.capabilities.evals.triggers.trigger_runs import RunLimitsOfTest, TriggerJournal, TriggerRunner
from server.capabilities.evals.workspace import EvalError, open_workspace
from server.capabilities.history.histories import recorded_change
from server.capabilities.runs.metering import open_meter
from skills_core.authoring.fixes import with_description
from skills_core.diagnostics import counted, printable
from skills_core.disk.files import MAX_FILE_SIZE, Location, read_file
from skills_core.disk.folders import MAIN_FILE
from skills_core.disk.writing import InvalidJsonError, JsonFile, write_file
from skills_core.evals.triggers.adoption import (
    Adoption,
    adoption_object,
    compare,
    comparison_object,
    decide,
    missing_object,
    propose,
)
from skills_core.evals.triggers.drafting import (
    INSTRUCTIONS,
    DescriptionAttempt,
    RevisionRequest,
    check_length,
    cut_description,
    plain_description,
    read_description,
    render_revision,
)
from skills_core.evals.triggers.parts import MissingQueries, Part
from skills_core.evals.triggers.results import (
    Round,
    SetResult,
    best_round,
    query_object,
    round_object,
    set_object,
    summary_object,
)
from skills_core.history.versions import Cause
from skills_core.loading.loader import MAX_MAIN_SIZE
from skills_core.loading.single_skill import read_skill
from skills_core.runs.spending import BoundReachedError, Bounds
from skills_core.runs.structured_answers import MAX_REQUESTS, NoAnswerError, UnusableAnswersError, ask_until_usable

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.capabilities.evals.agents.agent import Agent
    from server.capabilities.evals.agents.metered import AgentCosts
    from server.capabilities.evals.tested_skills import SkillCopy
    from server.capabilities.runs.metering import Meter
    from skills_core.evals.triggers.queries import Query
    from skills_core.format.yaml12 import JsonValue
    from skills_core.runs.models import Price


_SECONDS: Final = 900.0
# For all requests for one description.


@dataclass(slots=True)
class OptimizationState:
    """What is known so far: the rounds, and at the end the results of the sealed test and the decision.

    `complete` tells that errors have left no gap: the same command continues an incomplete optimization.
    """

    rounds: list[Round] = field(default_factory=list)
    tests: dict[str, SetResult] = field(default_factory=dict)
    decision: Adoption | None = None
    note: str = ""
    complete: bool = False


@dataclass(slots=True)
class Optimization:
    """The optimization of one skill; `save` is called after each step."""

    skill: SkillCopy
    parts: Mapping[Part, Sequence[Query]]
    runner: TriggerRunner
    model: Model
    model_name: str
    journal: TriggerJournal
    max_rounds: int
    missing: MissingQueries
    save: Callable[[OptimizationState], Awaitable[None]]

    async def run(self) -> OptimizationState:
        """Run all rounds and the test.

        Raises:
            EvalError: the model gives no description, or the agent cannot be started.
        """
        state = OptimizationState()
        description = self.skill.description
        for number in range(self.max_rounds + 1):
            current = await self._round(number, description)
            state.rounds.append(current)
            await self.save(state)
            state.note = self._end(state.rounds)
            if state.note:
                break
            if number < self.max_rounds:
                description = await self._revise(render_revision(self._request(state.rounds)))
        await self._decide(state)
        await self.save(state)
        return state

    async def _round(self, number: int, description: str) -> Round:
        skill = self.skill.described(description)
        queries = (*self.parts[Part.TRAIN], *self.parts[Part.VALIDATION])
        results = await self.runner.measure(skill, queries, f"round {number}")
        train = {query.id for query in self.parts[Part.TRAIN]}
        split = [
            SetResult(tuple(each for each in results.results if (each.query.id in train) is wanted))
            for wanted in (True, False)
        ]
        return Round(number, description, *split)

    async def _revise(self, message: str) -> str:
        """Return another description, at most as long as the format allows."""
        key = f"revision-{digest_of(self.model_name, INSTRUCTIONS, message)[:32]}"
        record = self.journal.find(key)
        if record is not None:
            return str(record["description"])
        description = cut_description(await self._description(message))
        self.journal.add(key, {"description": description})
        return description

    async def _description(self, message: str) -> str:
        """Return the description in the first usable answer; the last one that is too long if no other is."""
        found = ""

        def read(answer: str) -> str:
            nonlocal found
            found = read_description(answer)
            check_length(found)
            return found

        try:
            return (await ask_until_usable(self.model, INSTRUCTIONS, message, read, seconds=_SECONDS))[0]
        except UnusableAnswersError as error:
            if found:
                return found
            raise EvalError(
                f"none of {error.usage.requests} answers of the model had a description between <description> and "
                "</description>; run the command again, or name another model with --model"
            ) from None
        except NoAnswerError as error:
            raise EvalError(str(error)) from error

    def _end(self, rounds: Sequence[Round]) -> str:
        """Return why no further round is needed, or possible; empty if one is."""
        last = rounds[-1]
        if why := _no_verdict(last):
            return f"round {last.number} has no verdict: {why}"
        passed = last.train.passed
        return "all queries of training pass" if passed.count == passed.total else ""

    def _request(self, rounds: Sequence[Round]) -> RevisionRequest:
        """Return what the model receives: the results of training, and none of validation and test."""
        attempts = tuple(
            DescriptionAttempt(each.description, each.train.passed.count, each.train.passed.total) for each in rounds
        )
        failures = tuple(each for each in rounds[-1].train.results if each.passed is False)
        return RevisionRequest(self.skill.name, self.skill.body, attempts, failures)

    async def _decide(self, state: OptimizationState) -> None:
        """Open the sealed test, once and only if there is something to decide."""
        first, best = state.rounds[0], best_round(state.rounds)
        # After an outage the sealed test stays sealed, until the rounds are complete.
        if _no_verdict(state.rounds[-1]):
            state.decision = Adoption(adopted=False, reason=f"the old description stays: {state.note}")
            return
        state.complete = True
        if best.description == first.description:
            reason = "the old description stays: no other one passes more queries of validation"
            state.decision = Adoption(adopted=False, reason=reason)
            return
        if not self.parts[Part.TEST]:
            state.decision = propose(self.missing)
            return
        for name, each in (("old", first), ("new", best)):
            skill = self.skill.described(each.description)
            label = f"sealed test, {name}"
            state.tests[name] = await self.runner.measure(skill, self.parts[Part.TEST], label, all_runs=True)
        state.complete = not any(each.no_verdict for each in state.tests.values())
        state.decision = decide(state.tests["new"], state.tests["old"])


def _no_verdict(measured: Round) -> str:
    """Return why a round carries no verdict; empty if it does."""
    return SetResult((*measured.train.results, *measured.validation.results)).no_verdict


def apply_description(folder: Path, found: Mapping[str, Any], *, force: bool = False) -> str:
    """Write the description that the results `found` adopted, by `force` also one that is only proposed; return it.

    Raises:
        EvalError: there is none, or the skill has another description than the one that was tested.
        InvalidSkillError: the skill cannot be read.
        DescriptionError: the description cannot be replaced.
        FileRefusedError: the file cannot be read or written.
        HistoryError: the source has a history, and the change cannot be recorded.
    """
    decision = found.get("decision")
    if not isinstance(decision, dict):
        raise EvalError("there is no finished optimization to apply; run `skillserve triggers … --optimize`")
    forced = force and decision.get("proposed") is True
    if decision.get("adopted") is not True and not forced:
        how = "; --apply --force writes it all the same" if decision.get("proposed") is True else ""
        raise EvalError(f"nothing is applied: {decision.get('reason')}{how}")
    description = str(decision.get("best_description" if forced else "description") or "")
    if description != plain_description(description):
        raise EvalError("nothing is applied: the description has markup, line breaks or hidden characters")
    current = read_skill(folder).description
    if current == description:
        return description
    if current != found.get("description"):
        raise EvalError("the description of the skill is not the one that was tested any more; run --optimize again")
    main = Location(folder.resolve(), MAIN_FILE)
    raw, _ = read_file(main, MAX_MAIN_SIZE)
    chose = "only propose" if forced else "chose"
    with recorded_change([folder], Cause.DESCRIPTION, f"Apply the description that trigger tests {chose}"):
        write_file(main, with_description(raw, description))
    return description


_NUMBERED: Final = re.compile(r"triggers-([1-9]\d{0,5})")
RESULTS: Final = "results.json"


@dataclass(frozen=True, slots=True)
class TestPrices:
    """How the cost of a run of the agent is known, and the price of the model that revises; None is unknown."""

    agent: AgentCosts | None = None
    model: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPlan:
    """What a test does. With `parts` it optimizes the description, otherwise it measures `queries`.

    `missing` are the further queries that it would take to decide between descriptions.
    `home` is the folder that each run has a copy of, and `bounds` are those of the costs.
    """

    skill: SkillCopy
    queries: tuple[Query, ...]
    agent: Agent
    rivals: tuple[SkillCopy, ...] = ()
    holdout: tuple[Query, ...] = ()
    limits: RunLimitsOfTest = field(default_factory=RunLimitsOfTest)
    parts: Mapping[Part, tuple[Query, ...]] | None = None
    missing: MissingQueries = field(default_factory=lambda: MissingQueries(0, 0))
    rounds: int = 0
    seed: int = 0
    model_name: str = ""
    home: Path | None = None
    bounds: Bounds = field(default_factory=Bounds)
    prices: TestPrices = field(default_factory=TestPrices)

    @property
    def identity(self) -> dict[str, JsonValue]:
        """What a test must have in common with an unfinished one to continue it."""
        texts = [(query.id, query.text, query.should_trigger, query.split) for query in (*self.queries, *self.holdout)]
        return {
            "skill": self.skill.digest,
            "rivals": [rival.digest for rival in self.rivals],
            "queries": digest_of(json.dumps(texts), len(self.holdout)),
            "agent": dict(self.agent.identity),
            "runs_per_query": self.limits.runs,
            "threshold": self.limits.threshold,
            "max_calls": self.limits.max_calls,
            "optimize": self.parts is not None,
            "rounds": self.rounds,
            "seed": self.seed,
            "model": self.model_name,
            "home": "" if self.home is None else _stamp(self.home),
        }

    @property
    def costs(self) -> dict[str, int]:
        """How many runs of the agent and requests to the model there are at most."""
        return planned_costs(self.queries, self.holdout, self.parts, self.limits.runs, self.rounds)


def planned_costs(
    queries: Sequence[Query],
    holdout: Sequence[Query],
    parts: Mapping[Part, Sequence[Query]] | None,
    runs: int,
    rounds: int,
) -> dict[str, int]:
    """Return how many runs of the agent and requests to the model there are at most, and what for."""
    held = len(holdout) * runs
    if parts is None:
        measured = len(queries) * runs
        total = 1 + measured + held
        return {"canary": 1, "queries": measured, "holdout": held, "model_requests": 0, "runs": total}
    measured = (len(parts[Part.TRAIN]) + len(parts[Part.VALIDATION])) * runs * (rounds + 1)
    sealed = len(parts[Part.TEST]) * runs * 2
    total = 1 + measured + sealed + held * 2
    costs = {"canary": 1, "rounds": measured, "sealed_test": sealed, "holdout": held * 2}
    return {**costs, "model_requests": rounds * MAX_REQUESTS, "runs": total}


def test_folder(workspace: Path, plan: TestPlan) -> Path:
    """Return the folder of the test: that of the last one if it is the same and unfinished, otherwise a new one.

    A folder with links, which a test never makes, is not continued: what is written there would land elsewhere.

    Raises:
        OSError: the workspace cannot be written.
        FileRefusedError: its marker cannot be written.
    """
    open_workspace(workspace)
    number, folder = _last_number(workspace), workspace
    if number:
        folder = workspace / f"triggers-{number}"
        config = _read_json(folder / "config.json")
        unfinished = not _read_json(folder / RESULTS).get("finished")
        if config.get("identity") == plan.identity and unfinished and not _has_links(folder):
            return folder
    folder = workspace / f"triggers-{number + 1}"
    folder.mkdir(parents=True)
    started = {"identity": plan.identity, "started": _now()}
    _write_json(folder / "config.json", started)
    return folder


def _has_links(folder: Path) -> bool:
    return folder.is_symlink() or any(path.is_symlink() for path in folder.rglob("*"))


def last_results(workspace: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the results of the last test in a workspace with their file; None if there are none."""
    number = _last_number(workspace)
    path = workspace / f"triggers-{number}" / RESULTS
    found = _read_json(path) if number else {}
    return (path, found) if found else None


def opened_queries(workspace: Path) -> frozenset[str]:
    """Return the queries that the sealed tests of finished optimizations in a workspace have opened.

    Raises:
        EvalError: results are there that cannot be read.
    """
    return frozenset(text for number in _numbers(workspace) for text in _opened(workspace / f"triggers-{number}"))


def _opened(folder: Path) -> Iterator[str]:
    path = folder / RESULTS
    found = _read_json(path)
    if not found and path.exists():
        raise EvalError(
            f"{printable(str(path))}: these results cannot be read, so that it is unknown which queries their test has "
            "opened; restore the file, or begin anew with another --workspace"
        )
    match found:
        case {"finished": True, "decision": {"test": {"old": {"results": list(results)}}}}:
            yield from (
                each["query"] for each in results if isinstance(each, dict) and isinstance(each.get("query"), str)
            )


def _last_number(workspace: Path) -> int:
    return max(_numbers(workspace), default=0)


def _numbers(workspace: Path) -> list[int]:
    names = [each.name for each in workspace.iterdir()] if workspace.is_dir() else []
    return [int(match.group(1)) for name in names if (match := _NUMBERED.fullmatch(name))]


@dataclass(slots=True)
class TriggerTest:
    """One test in its folder; `model` revises descriptions."""

    plan: TestPlan
    folder: Path
    report: Callable[[str], Awaitable[None]]
    model: Model | None = None
    _runner: TriggerRunner = field(init=False)
    _journal: TriggerJournal = field(init=False)
    _folders: RunFolders = field(init=False)
    _started: str = field(init=False, default="")
    _last: Mapping[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Open the journal."""
        plan, self._started = self.plan, _now()
        self._journal = TriggerJournal(self.folder / "runs.jsonl")
        self._folders = RunFolders.open()
        self._runner = TriggerRunner(
            plan.agent, plan.rivals, plan.limits, self._journal, self.folder, self._folders, self.report
        )

    async def run(self) -> dict[str, Any]:
        """Run the test and return its results, which are in results.json too, at each moment as far as they are known.

        Raises:
            EvalError: the agent does not load the skill when it is told to, or the model gives no description.
            EvalError: the agent cannot be started.
            SpendingError: there are bounds, and what is used cannot be counted.
        """
        self._save(self._object(SetResult(()), finished=False))
        try:
            async with open_meter(self.folder.parent, self.plan.bounds) as meter:
                found = await self._metered(meter)
        except BoundReachedError as error:
            most = counted(self.plan.costs["runs"], "run")
            stopped = f"Stopped at the bound: {self._journal.runs} of at most {most}: {error}."
            found = {**self._last, "finished": False, "stopped": stopped}
        finally:
            self._folders.remove()
        self._save(found)
        return found

    async def _metered(self, meter: Meter) -> dict[str, Any]:
        plan = self.plan
        if plan.prices.agent is not None:
            self._runner.agent = MeteredAgent(plan.agent, meter, plan.prices.agent, "triggers")
        if self.model is not None:
            from server.capabilities.runs.metered_model import MeteredModel

            self.model = MeteredModel(self.model, meter, f"{REVISION}: {plan.model_name}", plan.prices.model)
        async with plan.agent.running(()):
            await self._runner.check(plan.skill)
            return await self._optimize() if plan.parts is not None else await self._measure()

    async def _measure(self) -> dict[str, Any]:
        self._runner.show_partial = lambda results: self._save(self._object(results, finished=False))
        results = await self._runner.measure(self.plan.skill, self.plan.queries, "queries")
        self._runner.show_partial = lambda _: None
        held = await self._hold_out({"description": self.plan.skill}) if self.plan.holdout else {}
        return self._object(results, finished=not results.no_verdict, holdout=held)

    async def _optimize(self) -> dict[str, Any]:
        plan = self.plan
        assert plan.parts is not None  # noqa: S101 - the caller has looked
        assert self.model is not None  # noqa: S101 - as the command gives it

        async def save(state: OptimizationState) -> None:
            self._save(self._optimized(state, {}, finished=False))

        state = await Optimization(
            skill=plan.skill,
            parts=plan.parts,
            runner=self._runner,
            model=self.model,
            model_name=plan.model_name,
            journal=self._journal,
            max_rounds=plan.rounds,
            missing=plan.missing,
            save=save,
        ).run()
        best = best_round(state.rounds)
        skills = {"old": plan.skill, "new": plan.skill.described(best.description)}
        if skills["new"].description == plan.skill.description:
            del skills["new"]
        held = await self._hold_out(skills) if plan.holdout and state.complete else {}
        return self._optimized(state, held, finished=state.complete)

    async def _hold_out(self, skills: Mapping[str, SkillCopy]) -> dict[str, JsonValue]:
        """Measure the fresh queries, after everything has been decided."""
        results = {
            name: await self._runner.measure(skill, self.plan.holdout, f"holdout, {name}", all_runs=len(skills) > 1)
            for name, skill in skills.items()
        }
        found: dict[str, JsonValue] = {
            name: set_object(each, self.plan.limits.threshold) for name, each in results.items()
        }
        if "new" in results:
            found["comparison"] = comparison_object(compare(results["new"], results["old"]))
        return found

    def _optimized(self, state: OptimizationState, held: Mapping[str, JsonValue], *, finished: bool) -> dict[str, Any]:
        first, best = state.rounds[0], best_round(state.rounds)
        results = SetResult((*first.train.results, *first.validation.results))
        found = self._object(results, finished=finished, holdout=held)
        found["rounds"] = [round_object(each, self.plan.limits.threshold) for each in state.rounds]
        found["note"] = state.note or None
        if state.decision is not None:
            chosen = best.description if state.decision.adopted else self.plan.skill.description
            threshold = self.plan.limits.threshold
            found["decision"] = adoption_object(state.decision, chosen, state.tests, best, threshold)
            found["best_description"] = chosen
        return found

    def _object(
        self, results: SetResult, *, finished: bool, holdout: Mapping[str, JsonValue] | None = None
    ) -> dict[str, Any]:
        plan, runner = self.plan, self._runner
        part_of = {query.id: part for part, queries in (plan.parts or {}).items() for query in queries}
        reasons: Sequence[tuple[str, int]] = sorted(runner.reasons.items(), key=lambda each: -each[1])
        return {
            "skill_name": plan.skill.name,
            "description": plan.skill.description,
            "finished": finished,
            "agent": dict(plan.agent.identity),
            "threshold": plan.limits.threshold,
            "runs_per_query": plan.limits.runs,
            "seed": plan.seed,
            "results": [
                query_object(each, plan.limits.threshold, part_of.get(each.query.id)) for each in results.results
            ],
            "summary": {
                **summary_object(results),
                "reasons": [{"reason": reason, "runs": count} for reason, count in reasons[:20]],
            },
            "missing_for_verdict": missing_object(plan.missing),
            "holdout": dict(holdout or {}) or None,
            "stopped": None,
            "rounds": [],
            "costs": {
                "planned": dict(plan.costs),
                "runs_made": runner.spent,
                "total_tokens": runner.tokens or None,
                "cost_usd": round(runner.cost, 6) or None,
                "agent_seconds": round(runner.seconds, 1),
            },
            "started": self._started,
            "updated": _now(),
        }

    def _save(self, found: Mapping[str, Any]) -> None:
        self._last = found
        _write_json(self.folder / RESULTS, found)


def _stamp(folder: Path) -> str:
    """Return a digest of the names, sizes and times of the files in a folder: settings decide what an agent does."""
    found = [(str(path.relative_to(folder)), path.lstat()) for path in sorted(folder.rglob("*"))]
    return digest_of(*((name, status.st_size, status.st_mtime_ns) for name, status in found))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write_json(path: Path, value: object) -> None:
    JsonFile(path, mode=0o666).write(value)


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; empty if there is none, or something else.

    Raises:
        FileRefusedError: the file cannot be read.
    """
    try:
        value = JsonFile(path, MAX_FILE_SIZE).read()
    except InvalidJsonError:
        return {}
    return value if isinstance(value, dict) else {}
