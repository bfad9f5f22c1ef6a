"""Plan an eval without changing anything: the skill, its cases and baseline, and what is left to do of an iteration."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from server import __version__
from server.evals.agents.find_agent import check_no_twin
from server.evals.errors import EvalError
from server.evals.iterations.comparisons import COMPARISON
from server.evals.iterations.costs import estimate
from server.evals.iterations.files import Iteration, iterations_of, new_iteration
from server.evals.iterations.input_files import check_input_files
from server.evals.iterations.runner import work_of
from server.evals.skills.skill_versions import find_baseline, load_version
from skills_core.disk.bounded import read_bounded
from skills_core.evals.grading.cases import EVALS_FILE, read_eval_set
from skills_core.evals.grading.judging import assertions_for_judge
from skills_core.evals.grading.results import Arm, RunKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.config.settings import Settings
    from server.evals.agents.cli_agent import CliAgent
    from server.evals.iterations.costs import Estimate
    from server.evals.iterations.runner import Work
    from server.evals.skills.skill_versions import SkillVersion
    from skills_core.evals.grading.cases import EvalCase
    from skills_core.evals.grading.results import EvalRun
    from skills_core.run.ports import JsonObject

__all__ = ["SNAPSHOTS", "EvalOptions", "EvalPlan", "plan_eval", "workspace_of"]

SNAPSHOTS: Final = "snapshots"
"""The folder of a workspace with the version of the skill that each iteration began with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What the user asked for; without an agent, our own executor performs."""

    skill: Path
    workspace: Path | None = None
    runs: int = 1
    baseline: str | None = None
    agent: CliAgent | None = None
    jobs: int = 4
    seconds: float = 900.0
    new: bool = False
    compare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    """An eval that is about to run. `resumed` tells that the iteration exists; `cost` is for what is left of it."""

    options: EvalOptions
    version: SkillVersion
    cases: tuple[EvalCase, ...]
    baseline: Arm
    old_version: SkillVersion | None
    workspace: Path
    iteration: Iteration
    resumed: bool
    identity: JsonObject
    work: tuple[Work, ...]
    cost: Estimate

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Both arms."""
        return (Arm.WITH_SKILL, self.baseline)

    @property
    def keys(self) -> tuple[tuple[RunKey, EvalCase], ...]:
        """All runs; the arms take turns, so that a slow hour of a provider hits both."""
        return tuple(_keys(self.cases, self.arms, self.options.runs))

    @property
    def needs_judge(self) -> bool:
        """Whether a model has to grade or compare."""
        return self.options.compare or any(map(assertions_for_judge, self.cases))

    @property
    def performs(self) -> bool:
        """Whether the agent has to run."""
        return any(each.performs for each in self.work)

    def to_json(self) -> JsonObject:
        """Return the field `plan` of what the command prints."""
        return {
            "cases": len(self.cases),
            "arms": [arm.value for arm in self.arms],
            "runs_per_configuration": self.options.runs,
            "runs": len(self.work),
            "runs_done": sum(not each.performs for each in self.work),
            "runs_to_do": self.cost.runs,
            "checks": [
                {"eval": case.folder, "text": each.text, "check": each.check}
                for case in self.cases
                for each in case.assertions
                if each.check is not None
            ],
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
    cases, evals_digest = _read_cases(folder)
    workspace = (options.workspace or workspace_of(folder)).resolve()
    if workspace == folder or folder in workspace.parents:
        raise EvalError(f"{workspace}: the workspace lies in the skill; name a folder outside with --workspace")
    old = None
    if options.baseline is not None:
        old = find_baseline(options.baseline, folder, workspace / SNAPSHOTS, temporary)
    baseline = Arm.WITHOUT_SKILL if old is None else Arm.OLD_SKILL
    if options.agent is not None and options.agent.tells_loads:
        for each in filter(None, (version, old)):
            check_no_twin(options.agent, each.name)
    identity = _identity(options, settings, (version, old), evals_digest)
    keys = list(_keys(cases, (Arm.WITH_SKILL, baseline), options.runs))
    iteration, work, resumed = _choose(workspace, options, identity, keys)
    return EvalPlan(
        options=options,
        version=version,
        cases=cases,
        baseline=baseline,
        old_version=old,
        workspace=workspace,
        iteration=iteration,
        resumed=resumed,
        identity=identity,
        work=tuple(work),
        cost=_cost(options, workspace, work, cases),
    )


def _read_cases(folder: Path) -> tuple[tuple[EvalCase, ...], str]:
    """Return the cases, and a digest of them and their input files."""
    where = folder / EVALS_FILE
    raw = read_bounded(where)
    if raw is None:
        example = '{"skill_name": "…", "evals": [{"id": 1, "prompt": "…", "assertions": ["…"]}]}'
        raise EvalError(f"{where}: there is no such file; write one such as {example}")
    cases = read_eval_set(raw, str(where)).cases
    files = sorted(check_input_files(folder, cases).items())
    return cases, "sha256:" + hashlib.sha256(raw + json.dumps(files).encode()).hexdigest()


def _identity(
    options: EvalOptions, settings: Settings, versions: tuple[SkillVersion, SkillVersion | None], evals: str
) -> JsonObject:
    """Return what two calls must share for the second to continue the first: all that a result depends on."""
    version, old = versions
    own = options.agent is None
    return {
        "skill": version.digest,
        "evals": evals,
        "baseline": None if old is None else old.digest,
        "agent": None if options.agent is None else dict(options.agent.identity),
        "model": settings.runs.model if own else None,
        "run_tools": [str(tool) for tool in settings.runs.tools] if own else [],
        "judge_model": settings.evals.judge_model or settings.runs.model,
        "runs": options.runs,
        "seconds": options.seconds,
        "version": __version__,
    }


def _keys(cases: Sequence[EvalCase], arms: Sequence[Arm], runs: int) -> list[tuple[RunKey, EvalCase]]:
    numbers = range(1, runs + 1)
    return [(RunKey(case.folder, arm, number), case) for number in numbers for case in cases for arm in arms]


def _choose(
    workspace: Path, options: EvalOptions, identity: JsonObject, keys: Sequence[tuple[RunKey, EvalCase]]
) -> tuple[Iteration, list[Work], bool]:
    """Return the iteration to continue, or a new one, with what is left to do in it."""
    earlier = iterations_of(workspace, options.runs)
    if earlier and not options.new and earlier[0].is_of(identity):
        latest = earlier[0]
        work = work_of(latest, keys)
        compared = all(latest.read(f"{key.folder}/{COMPARISON}") is not None for key, _ in keys)
        unfinished = latest.read("benchmark.json") is None or not all(each.is_complete for each in work)
        if unfinished or (options.compare and not compared):
            return latest, work, True
    iteration = new_iteration(workspace, options.runs)
    return iteration, work_of(iteration, keys), False


def _cost(options: EvalOptions, workspace: Path, work: Sequence[Work], cases: Sequence[EvalCase]) -> Estimate:
    pending = [each.key for each in work if each.performs]
    judged = sum(not each.is_complete and bool(assertions_for_judge(each.case)) for each in work)
    compared = 2 * len(cases) * options.runs if options.compare else 0
    checks = sum(each.check is not None for case in cases for each in case.assertions)
    return estimate(pending, _earlier_runs(workspace, work), judged, compared, checks, options.jobs)


def _earlier_runs(workspace: Path, work: Sequence[Work]) -> list[EvalRun]:
    """Return the runs of the same cases in all iterations, whatever their number of runs was."""
    found: list[EvalRun] = []
    for iteration in iterations_of(workspace, 1):
        config = iteration.read("config.json")
        runs = config.get("identity", {}).get("runs") if isinstance(config, dict) else None
        known = Iteration(workspace, iteration.number, runs if isinstance(runs, int) else 1)
        keys = {each.key: each.case for each in work if each.key.number <= known.runs}
        found += [run for key, case in keys.items() if (run := known.run(key, case)) is not None]
    return found
