"""Plan an eval without changing anything: the skill, its cases and baseline, what is left to do, and what it costs."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server import __version__
from server.capabilities.evals.agents.cli_agent import check_no_twin
from server.capabilities.evals.iterations.grading import uncompared
from server.capabilities.evals.iterations.runner import usable_cases, work_of
from server.capabilities.evals.tested_skills import find_baseline, load_version
from server.capabilities.evals.workspace import EvalError, IterationFolder, iterations_of, new_iteration
from server.capabilities.runs.settings import RunSettings
from skills_core.diagnostics import counted
from skills_core.disk.files import read_bounded
from skills_core.disk.folders import EVALS, is_ignored
from skills_core.evals.grading.cases import EVALS_FILE, read_eval_cases
from skills_core.evals.grading.judging import assertions_for_judge
from skills_core.evals.grading.results import Arm, EvalStatus, RunKey

if TYPE_CHECKING:
    from server.capabilities.evals.agents.cli_agent import CliAgent
    from server.capabilities.evals.agents.isolation import AgentIsolation
    from server.capabilities.evals.iterations.agent_choice import Judge
    from server.capabilities.evals.iterations.runner import Work
    from server.capabilities.evals.tested_skills import SkillVersion
    from server.config.settings.model import Settings
    from skills_core.evals.grading.cases import EvalCase
    from skills_core.evals.grading.results import EvalOutcome, EvalRun
    from skills_core.format.yaml12 import JsonObject
    from skills_core.runs.models import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an eval is expected to take; None is unknown. `basis` is the number of earlier runs it rests on.

    `checks` are the assertions whose commands are run.
    """

    runs: int
    checks: int
    judge_requests: int
    compare_requests: int
    tokens: int | None
    cost_usd: float | None
    seconds: float | None
    basis: int

    def to_json(self) -> JsonObject:
        """Return the fields of the plan."""
        return {
            "judge_requests": self.judge_requests,
            "compare_requests": self.compare_requests,
            "expected_tokens": self.tokens,
            "expected_cost_usd": self.cost_usd,
            "expected_seconds": self.seconds,
            "based_on_runs": self.basis,
        }

    def line(self) -> str:
        """Return the estimate for people."""
        requests = [f"{counted(self.judge_requests, 'request')} to the judge"] if self.judge_requests else []
        requests += [f"{self.compare_requests} to compare outputs"] if self.compare_requests else []
        parts = [counted(self.runs, "run") if self.runs else "no run: the outputs that exist are used", *requests]
        if self.runs and self.tokens is not None:
            money = "" if self.cost_usd is None else f" (${self.cost_usd:.2f})"
            earlier = counted(self.basis, "earlier run")
            parts.append(f"about {counted(self.tokens, 'token')}{money}, as in {earlier}, without the judge's")
        elif self.runs:
            parts.append("tokens and money unknown: no earlier run here has recorded them")
        if self.checks:
            parts.append(f"{self.checks} assertions run commands of evals.json on this machine")
        return ", ".join(parts)


def _sum(pending: Sequence[RunKey], known: Mapping[Arm, Sequence[float | None]]) -> float | None:
    """Return the expected sum over runs by the means of their arms; None if an arm is unknown."""
    total = 0.0
    for key in pending:
        values = [value for value in known.get(key.arm, ()) if value is not None]
        if not values:
            return None
        total += statistics.fmean(values)
    return total if pending else None


SNAPSHOTS: Final = "snapshots"
"""The folder of a workspace with the version of the skill that each iteration began with."""


class EvalMode(StrEnum):
    """How much of an eval is done."""

    WHOLE = "whole"
    """Agents run, and their outputs are graded."""
    RUN_ONLY = "run"
    """Agents run, and their outputs are kept without a grading."""
    GRADE_ONLY = "grade"
    """The outputs that the latest iteration has are graded, and no agent runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What the user asked for; without an agent, our own executor performs. `judge` is who would grade.

    `evals` is the file of the cases, by default that of the skill. `price` is that of the agent's tokens if the user
    names one.
    """

    skill: Path
    evals: Path | None = None
    workspace: Path | None = None
    runs: int = 1
    baseline: str | None = None
    agent: CliAgent | None = None
    jobs: int = 4
    seconds: float = 900.0
    new: bool = False
    compare: bool = False
    mode: EvalMode = EvalMode.WHOLE
    judge: Judge | None = None
    price: Price | None = None

    @property
    def grades(self) -> bool:
        """Whether outputs are graded."""
        return self.mode is not EvalMode.RUN_ONLY


@dataclass(frozen=True, slots=True)
class ReadCases:
    """The cases of a file that can be run; `notes` say what is left out or not read.

    Input files are relative to `inputs`: the skill's folder, or for a file elsewhere that which holds it or its folder
    `evals`. `seen` has by case a digest of what its agents see: the prompt, and the input files with their names.
    Assertions and expected outputs are not in it, because no agent sees them.
    """

    file: Path
    inputs: Path
    cases: tuple[EvalCase, ...]
    seen: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    """An eval that is about to run. `resumed` tells that the iteration exists; `cost` is for what is left of it.

    `source` is the skill's folder, and `version` the skill that the outputs are of. `runs` is the
    number of runs of each case in each arm. `left_out` says what of the evals file or the iteration is not graded, and
    `label` names the agent of an iteration that is graded alone.
    """

    options: EvalOptions
    source: Path
    version: SkillVersion
    read: ReadCases
    cases: tuple[EvalCase, ...]
    baseline: Arm
    old_version: SkillVersion | None
    workspace: Path
    iteration: IterationFolder
    resumed: bool
    identity: JsonObject
    work: tuple[Work, ...]
    cost: Estimate
    label: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """How many runs each case has in each arm."""
        return self.iteration.runs

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Both arms."""
        return (Arm.WITH_SKILL, self.baseline)

    @property
    def keys(self) -> tuple[tuple[RunKey, EvalCase], ...]:
        """All runs; the arms take turns, so that a slow hour of a provider hits both."""
        return tuple(_keys(self.cases, self.arms, self.runs))

    @property
    def needs_judge(self) -> bool:
        """Whether a judge has to grade or compare."""
        return self.options.compare or (self.options.grades and any(map(assertions_for_judge, self.cases)))

    @property
    def performs(self) -> bool:
        """Whether the agent has to run."""
        return any(each.performs for each in self.work)

    @property
    def isolation(self) -> AgentIsolation | None:
        """What the agent that has to run can reach; None if none has, or it is our own executor."""
        return self.options.agent.isolation if self.options.agent is not None and self.performs else None

    def to_json(self) -> JsonObject:
        """Return the field `plan` of what the command prints."""
        return {
            "cases": len(self.cases),
            "arms": [arm.value for arm in self.arms],
            "runs_per_configuration": self.runs,
            "runs": len(self.work),
            "runs_done": sum(not each.performs for each in self.work),
            "runs_to_do": self.cost.runs,
            "checks": [
                {"eval": case.folder, "text": each.text, "check": each.check}
                for case in self.cases
                for each in case.assertions
                if each.check is not None
            ],
            "judge": self.options.judge.label if self.options.judge and self.needs_judge else None,
            "isolation": None if self.isolation is None else self.isolation.kind.value,
            "left_out": list(self.left_out),
            "notes": list(self.read.notes),
            **self.cost.to_json(),
        }


def workspace_of(skill: Path) -> Path:
    """Return the default workspace of the skill in a folder."""
    return skill.parent / f"{skill.name}-workspace"


def plan_eval(options: EvalOptions, settings: Settings, temporary: Path) -> EvalPlan:
    """Return the plan; a git revision is extracted below `temporary`, and nothing else is written.

    Raises:
        EvalError: the skill, an input file or the baseline cannot be used.
        InvalidEvalSetError: the evals file has faults.
    """
    folder = options.skill.resolve()
    version = load_version(folder)
    read = _read_cases(folder, options.evals)
    workspace = (options.workspace or workspace_of(folder)).resolve()
    if workspace == folder or folder in workspace.parents:
        raise EvalError(f"{workspace}: the workspace lies in the skill; name a folder outside with --workspace")
    if options.mode is EvalMode.GRADE_ONLY:
        return _plan_grading(options, version, read, workspace)
    old = None
    if options.baseline is not None:
        old = find_baseline(options.baseline, folder, workspace / SNAPSHOTS, temporary)
    baseline = Arm.WITHOUT_SKILL if old is None else Arm.OLD_SKILL
    if options.agent is not None and options.agent.tells_loads:
        for each in filter(None, (version, old)):
            check_no_twin(options.agent, each.name)
    identity = _identity(options, settings, (version, old), read.seen)
    keys = list(_keys(read.cases, (Arm.WITH_SKILL, baseline), options.runs))
    iteration, work, resumed = _choose(workspace, options, identity, keys)
    return EvalPlan(
        options=options,
        source=folder,
        version=version,
        read=read,
        cases=read.cases,
        baseline=baseline,
        old_version=old,
        workspace=workspace,
        iteration=iteration,
        resumed=resumed,
        identity=identity,
        work=tuple(work),
        cost=_cost(options, workspace, work, read.cases, options.runs),
    )


def _plan_grading(options: EvalOptions, current: SkillVersion, read: ReadCases, workspace: Path) -> EvalPlan:
    """Return the plan to grade what the latest iteration has; the skill may have changed since.

    Raises:
        EvalError: there is no iteration of evals, or none of its outputs can be graded by the evals file.
    """
    latest = next(iter(iterations_of(workspace, 1)), None)
    identity = latest.config.get("identity") if latest is not None else None
    if latest is None or not isinstance(identity, dict):
        where = workspace if latest is None else latest.path
        raise EvalError(f"{where}: there are no outputs of `skillserve eval` to grade; run it first, without --grade")
    runs = identity.get("runs")
    iteration = IterationFolder(workspace, latest.number, runs if isinstance(runs, int) and runs > 0 else 1)
    usable, left_out = _comparable_cases(identity, read.cases, read.seen)
    if not usable:
        raise EvalError(f"{iteration.path}: nothing can be graded: {'; '.join(left_out)}")
    baseline = Arm.WITHOUT_SKILL if identity.get("baseline") is None else Arm.OLD_SKILL
    keys = _keys(usable, (Arm.WITH_SKILL, baseline), iteration.runs)
    work = [each for each in work_of(iteration, keys, _label(options)) if not each.performs]
    return EvalPlan(
        options=options,
        source=current.folder,
        version=_kept(workspace, f"iteration-{iteration.number}") or current,
        read=read,
        cases=usable,
        baseline=baseline,
        old_version=_kept(workspace, f"baseline-{iteration.number}"),
        workspace=workspace,
        iteration=iteration,
        resumed=True,
        identity=identity,
        work=tuple(work),
        cost=_cost(options, workspace, work, usable, iteration.runs),
        label=str(iteration.config.get("agent") or ""),
        left_out=left_out,
    )


def _comparable_cases(
    identity: Mapping[str, Any], cases: Sequence[EvalCase], seen: Mapping[str, str]
) -> tuple[tuple[EvalCase, ...], tuple[str, ...]]:
    """Return the cases whose prompt and files are those of the iteration, and why others are not graded."""
    known = identity.get("cases")
    then = known if isinstance(known, dict) else {}
    usable: list[EvalCase] = []
    left_out: list[str] = []
    for case in cases:
        if case.folder not in then:
            left_out.append(f"{case.folder} has no outputs in this iteration; run the eval with --new")
        elif then[case.folder] != seen[case.folder]:
            left_out.append(f"{case.folder} has another prompt or other files than its outputs; run the eval again")
        else:
            usable.append(case)
    gone = sorted(set(then) - {case.folder for case in cases})
    left_out += [f"{folder} is not among the cases any more" for folder in gone]
    return tuple(usable), tuple(left_out)


def _kept(workspace: Path, name: str) -> SkillVersion | None:
    """Return a version that an iteration has kept; None if there is none that can be loaded."""
    parent = workspace / SNAPSHOTS / name
    if not parent.is_dir() or parent.is_symlink():
        return None
    for folder in sorted(each for each in parent.iterdir() if each.is_dir() and not is_ignored(each.name)):
        with suppress(EvalError):
            return load_version(folder)
    return None


def _label(options: EvalOptions) -> str:
    return "" if options.judge is None else options.judge.label


def _read_cases(folder: Path, named: Path | None) -> ReadCases:
    """Return the cases of the skill in `folder`, or those in a file that the user named."""
    where = folder / EVALS_FILE if named is None else named.resolve()
    raw = read_bounded(where)
    if raw is None:
        example = '{"skill_name": "…", "evals": [{"id": 1, "prompt": "…", "assertions": ["…"]}]}'
        hint = f"write one such as {example}, or name another with --evals" if named is None else "correct the path"
        raise EvalError(f"{where}: there is no such file; {hint}")
    found = read_eval_cases(raw, str(where))
    inputs = folder
    if folder not in where.parents:
        inputs = where.parent.parent if where.parent.name == EVALS else where.parent
    usable = usable_cases(inputs, found.cases, folder.name)
    seen = {
        case.folder: _digest([case.prompt, [[path, usable.digests[path]] for path in case.files]])
        for case in usable.cases
    }
    return ReadCases(where, inputs, usable.cases, seen, (*found.notes, *usable.notes))


def _digest(value: object) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _identity(
    options: EvalOptions,
    settings: Settings,
    versions: tuple[SkillVersion, SkillVersion | None],
    seen: Mapping[str, str],
) -> JsonObject:
    """Return what two calls must share for the second to continue the first: all that an agent's work depends on.

    How outputs are graded does not matter here, so outputs that exist can be graded by other assertions and judges.
    """
    version, old = versions
    own = options.agent is None
    runs = settings.section(RunSettings)
    return {
        "skill": version.digest,
        "cases": {**seen},
        "baseline": None if old is None else old.digest,
        "agent": None if options.agent is None else dict(options.agent.identity),
        "model": runs.model if own else None,
        "run_tools": [str(tool) for tool in runs.tools] if own else [],
        "runs": options.runs,
        "seconds": options.seconds,
        "version": __version__,
    }


def _keys(cases: Sequence[EvalCase], arms: Sequence[Arm], runs: int) -> list[tuple[RunKey, EvalCase]]:
    numbers = range(1, runs + 1)
    return [(RunKey(case.folder, arm, number), case) for number in numbers for case in cases for arm in arms]


def _choose(
    workspace: Path, options: EvalOptions, identity: JsonObject, keys: Sequence[tuple[RunKey, EvalCase]]
) -> tuple[IterationFolder, list[Work], bool]:
    """Return the iteration to continue, or a new one, with what is left to do in it."""
    earlier = iterations_of(workspace, options.runs)
    if earlier and not options.new and earlier[0].is_of(identity):
        latest = earlier[0]
        work = work_of(latest, keys, _label(options), grades=options.grades)
        compared = not uncompared(latest, [each.done for each in work if each.done is not None])
        unfinished = latest.read("benchmark.json") is None or not all(each.is_complete for each in work)
        if unfinished or (options.compare and not compared):
            return latest, work, True
    iteration = new_iteration(workspace, options.runs)
    return iteration, work_of(iteration, keys, _label(options), grades=options.grades), False


def _cost(
    options: EvalOptions, workspace: Path, work: Sequence[Work], cases: Sequence[EvalCase], runs: int
) -> Estimate:
    pending = [each.key for each in work if each.performs]
    judged = sum(each.grades and not each.is_complete and bool(assertions_for_judge(each.case)) for each in work)
    compared = 2 * len(cases) * runs if options.compare else 0
    checks = sum(each.check is not None for case in cases for each in case.assertions) if options.grades else 0
    by_arm = finished_by_arm(workspace, work)
    tokens = _sum(pending, {arm: [each.total_tokens for each in found] for arm, found in by_arm.items()})
    cost = _sum(pending, {arm: [each.cost_usd for each in found] for arm, found in by_arm.items()})
    millis = _sum(pending, {arm: [each.duration_ms for each in found] for arm, found in by_arm.items()})
    return Estimate(
        runs=len(pending),
        checks=checks,
        judge_requests=judged,
        compare_requests=compared,
        tokens=None if tokens is None else round(tokens),
        cost_usd=None if cost is None else round(cost, 4),
        seconds=None if millis is None else round(millis / 1000 / options.jobs, 1),
        basis=sum(map(len, by_arm.values())),
    )


def finished_by_arm(workspace: Path, work: Sequence[Work]) -> dict[Arm, list[EvalOutcome]]:
    """Return what runs of the same cases in all iterations have taken, those that ended without an error."""
    by_arm: dict[Arm, list[EvalOutcome]] = {}
    for run in _earlier_runs(workspace, work):
        if run.outcome.status is EvalStatus.DONE:
            by_arm.setdefault(run.key.arm, []).append(run.outcome)
    return by_arm


def _earlier_runs(workspace: Path, work: Sequence[Work]) -> list[EvalRun]:
    """Return the runs of the same cases in all iterations, whatever their number of runs was."""
    found: list[EvalRun] = []
    for iteration in iterations_of(workspace, 1):
        identity = iteration.config.get("identity")
        runs = identity.get("runs") if isinstance(identity, dict) else None
        known = IterationFolder(workspace, iteration.number, runs if isinstance(runs, int) else 1)
        keys = {each.key: each.case for each in work if each.key.number <= known.runs}
        found += [run for key, case in keys.items() if (run := known.run(key, case)) is not None]
    return found
