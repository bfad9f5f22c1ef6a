"""Carry out a planned eval, show its progress on stderr, and return the object that the command prints."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.capabilities.evals.agents.agent import RunFolders
from server.capabilities.evals.agents.isolation import AgentIsolationKind
from server.capabilities.evals.agents.metered import JUDGE, AgentCosts, MeteredAgent, bounds_of, price_of_named_model
from server.capabilities.evals.iterations.agent_choice import check_named
from server.capabilities.evals.iterations.grading import (
    BlindComparisons,
    Grader,
    check_commands,
    comparisons_of,
    instruction_lines,
)
from server.capabilities.evals.iterations.plan import SNAPSHOTS, EvalMode
from server.capabilities.evals.iterations.runner import EvalRunner, grade_runs, showing_progress
from server.capabilities.evals.tested_skills import keep, texts_of
from server.capabilities.evals.workspace import CONFIG, EvalError, open_workspace
from server.capabilities.runs.metering import open_meter
from server.capabilities.runs.settings import RunSettings
from skills_core.diagnostics import counted
from skills_core.disk.files import read_bounded
from skills_core.disk.folders import EVALS
from skills_core.evals.agents import ANY_AGENT
from skills_core.evals.feedback import FEEDBACK_FILE, digest_of_case, with_outputs
from skills_core.evals.grading.benchmark import BenchmarkMetadata, benchmark_of
from skills_core.evals.grading.judging import comparison_line, summarize_comparisons
from skills_core.evals.grading.leaks import AnswerKey, new_canary
from skills_core.evals.grading.results import Arm, EvalOutcome, EvalRun, EvalStatus, metadata_of
from skills_core.runs.spending import BoundReachedError
from skills_core.runs.tools import WorkspaceTool

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.capabilities.evals.agents.agent import Agent
    from server.capabilities.evals.iterations.agent_choice import Judge
    from server.capabilities.evals.iterations.plan import EvalOptions, EvalPlan
    from server.capabilities.evals.tested_skills import SkillVersion
    from server.capabilities.runs.metering import Meter
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonObject
    from skills_core.runs.spending import Bounds


_NEVER = EvalOutcome(status=EvalStatus.ERROR, error="it was not run")


def check_models(plan: EvalPlan, settings: Settings, bounds: Bounds | None = None) -> None:
    """Check that the agent and the judge that a plan needs are configured, as far as this is known without a request.

    `bounds` are those of the costs, by default those of evals.

    Raises:
        EvalError: one is missing, or the cost has a bound and that of a run or of the judge would stay unknown.
        ModelUnavailableError: a model cannot be used.
    """
    if plan.performs and plan.options.agent is None:
        model = settings.section(RunSettings).model
        if model is None:
            raise EvalError(
                "no agent: name one with --agent, its command with --agent-command, or a model for our own with --model"
            )
        check_named(model)
    is_bounded = (bounds or bounds_of(settings)).cost is not None
    costs = AgentCosts.of(settings, plan.options.agent, plan.options.price)
    if plan.performs and is_bounded and not costs.is_known:
        raise EvalError(
            "--max-cost needs to know what a run costs: this agent does not report it, and the price of its tokens is "
            "unknown; give it with --price-in and --price-out, or by the model's name in runs.prices"
        )
    if not plan.needs_judge:
        return
    if plan.options.judge is None:
        raise EvalError(
            "no judge: some assertions have no check, or --compare is given; name a model with --judge-model or an "
            'agent with --judge-agent, or give each assertion a command: {"text": "…", "check": "…"}; --no-grade runs '
            "the agents alone"
        )
    plan.options.judge.check()
    if is_bounded and not judge_costs(plan.options.judge, settings).is_known:
        raise EvalError(
            f"--max-cost needs to know what the judge costs, and the price of {plan.options.judge.label} is unknown; "
            "give it in runs.prices, or name another judge"
        )


def judge_costs(judge: Judge, settings: Settings) -> AgentCosts:
    """Return how the cost of a request to the judge is known."""
    if judge.agent is not None:
        return AgentCosts.of(settings, judge.agent, None)
    return AgentCosts(settings, price_of_named_model(settings, judge.model))


@dataclass(frozen=True, slots=True)
class EvalSession:
    """Carries out one plan; `show` prints a line of progress, and `changed` is called when results have changed.

    With `plain`, there is no progress bar. What is used counts on `meter`, by default one of the workspace with the
    bounds of the settings.
    """

    plan: EvalPlan
    settings: Settings
    show: Callable[[str], None]
    changed: Callable[[], None] = lambda: None
    plain: bool = False
    meter: Meter | None = None

    async def run(self) -> JsonObject:
        """Perform what is left, grade and aggregate it; return the content of `benchmark.json`.

        Raises:
            SkillsError: a file cannot be written, or the agent cannot be used.
            BoundReachedError: a bound let no run begin, and there is none from before.
        """
        if self.plan.options.grades:
            await check_commands(self.plan.cases, self.plan.read.file)
        if self.meter is not None:
            return await self._run(self.meter)
        await anyio.to_thread.run_sync(open_workspace, self.plan.workspace)
        async with open_meter(self.plan.workspace, bounds_of(self.settings)) as meter:
            return await self._run(meter)

    async def _run(self, meter: Meter) -> JsonObject:
        plan, iteration = self.plan, self.plan.iteration
        judge = await anyio.to_thread.run_sync(self._open_judge, meter)
        label, problems = plan.label, list[str]()
        with suppress(BoundReachedError):  # the meter keeps the reason
            if plan.options.mode is EvalMode.GRADE_ONLY:
                await self._grade(judge)
            else:
                label = await self._perform(judge, meter)
            if plan.options.compare and judge is not None:
                comparisons = BlindComparisons(iteration, judge, plan.baseline, plan.options.jobs)
                problems = await comparisons.run(await anyio.to_thread.run_sync(self._read_runs))
        runs = await anyio.to_thread.run_sync(self._read_runs)
        stopped = ""
        if meter.stopped:
            total, runs = len(runs), list(filter(self._is_done, runs))
            stopped = f"Stopped at the bound: {len(runs)} of {counted(total, 'run')}: {meter.stopped}."
            if not runs:
                raise BoundReachedError(stopped)
        benchmark = await anyio.to_thread.run_sync(self._benchmark, runs, label, [*filter(None, [stopped]), *problems])
        benchmark["stopped"] = stopped or None
        await anyio.to_thread.run_sync(iteration.write, "benchmark.json", benchmark)
        return benchmark

    def _is_done(self, run: EvalRun) -> bool:
        """Tell whether a run has ended, and was graded if it could be; what a bound has prevented is no error."""
        ungraded = run.results is None and not run.outcome.grading_error
        return run.outcome is not _NEVER and not (
            run.outcome.status is EvalStatus.DONE and self.plan.options.grades and ungraded
        )

    def _open_judge(self, meter: Meter) -> Model | None:
        options = self.plan.options
        if options.judge is None or not self.plan.needs_judge:
            return None
        from server.capabilities.runs.metered_model import MeteredModel

        model, costs = options.judge.open(options.seconds), judge_costs(options.judge, self.settings)
        return MeteredModel(model, meter, f"{JUDGE}: {options.judge.label}", costs.price)

    async def _perform(self, judge: Model | None, meter: Meter) -> str:
        """Perform what is left and grade it; return the name of the agent."""
        plan = self.plan
        versions = await anyio.to_thread.run_sync(self._keep_versions)
        agent = self._metered(versions, meter)
        folders = await anyio.to_thread.run_sync(self._begin, agent.label)
        self.changed()
        left = [each for each in plan.work if not each.is_complete]
        with showing_progress(len(left), self.show, self.changed, plain=self.plain) as progress:
            runner = EvalRunner(
                iteration=plan.iteration,
                agent=agent,
                grader=self._grader(judge) if plan.options.grades else None,
                folders=folders,
                versions=versions,
                source=plan.source,
                inputs=plan.read.inputs,
                key=await anyio.to_thread.run_sync(self._answer_key),
                seconds=plan.options.seconds,
                jobs=plan.options.jobs,
                progress=progress,
            )
            # What a bound has stopped leaves no run half done.
            with suppress(BoundReachedError):
                await runner.run(plan.work)
        await anyio.to_thread.run_sync(folders.remove)
        return agent.label

    def _metered(self, versions: Mapping[Arm, SkillVersion | None], meter: Meter) -> Agent:
        options = self.plan.options
        costs = AgentCosts.of(self.settings, options.agent, options.price)
        return MeteredAgent(options.agent or self._own_agent(versions), meter, costs, "eval")

    async def _grade(self, judge: Model | None) -> None:
        """Grade the outputs that exist."""
        plan = self.plan
        plan.iteration.canary = str(plan.iteration.config.get("canary") or "")
        await anyio.to_thread.run_sync(self._describe_cases)
        self.changed()
        left = [each for each in plan.work if not each.is_complete]
        with showing_progress(len(left), self.show, self.changed, plain=self.plain) as progress:
            await grade_runs(plan.iteration, self._grader(judge), left, plan.options.jobs, progress)

    def _grader(self, judge: Model | None) -> Grader:
        named = self.plan.options.judge
        return Grader(judge, self.plan.read.file.parent, self._instructions(), named.label if named else "")

    def _own_agent(self, versions: Mapping[Arm, SkillVersion | None]) -> Agent:
        from server.capabilities.evals.agents.executor import OwnAgent

        by_digest = {version.digest: version for version in versions.values() if version is not None}
        return OwnAgent(self.settings, by_digest, self.plan.options.jobs)

    def _keep_versions(self) -> Mapping[Arm, SkillVersion | None]:
        """Take the snapshots of both versions, so that edits during the eval change nothing."""
        plan, snapshots = self.plan, self.plan.workspace / SNAPSHOTS
        number = plan.iteration.number
        old = None
        if plan.old_version is not None:
            old = keep(plan.old_version, snapshots / f"baseline-{number}")
        return {Arm.WITH_SKILL: keep(plan.version, snapshots / f"iteration-{number}"), plan.baseline: old}

    def _answer_key(self) -> AnswerKey:
        """Return what no run can know: the answers that the skill does not give, and where evals and results lie."""
        plan = self.plan
        folders = {plan.source, plan.options.skill.absolute()}
        places = [f"{each / EVALS}{os.sep}" for each in folders]
        places += [str(plan.read.file), f"{plan.workspace}{os.sep}"]
        versions = filter(None, (plan.version, plan.old_version))
        raw = (read_bounded(plan.read.file) or b"").decode("utf-8", "replace")
        return AnswerKey.of(plan.cases, raw, places).without(text for each in versions for text in texts_of(each))

    def _instructions(self) -> tuple[str, ...]:
        versions = filter(None, (self.plan.version, self.plan.old_version))
        return tuple(line for version in versions for line in instruction_lines(version.skill))

    def _begin(self, label: str) -> RunFolders:
        """Write the files that an iteration begins with; those of an interrupted one stay."""
        plan, iteration = self.plan, self.plan.iteration
        config = iteration.config if plan.resumed else {}
        folders = RunFolders.open(config.get("scratch"))
        document = {
            "identity": plan.identity,
            "skill_path": str(plan.source),
            "baseline": plan.options.baseline,
            "agent": label,
            "evals_run": [case.id for case in plan.cases],
            "started": config.get("started") or _now(),
            "scratch": str(folders.root),
            "canary": config.get("canary") or new_canary(),
        }
        iteration.canary = str(document["canary"])
        iteration.write(CONFIG, document)
        self._describe_cases()
        self._keep_feedback()
        return folders

    def _describe_cases(self) -> None:
        for case in self.plan.cases:
            self.plan.iteration.write(f"{case.folder}/eval_metadata.json", metadata_of(case))

    def _keep_feedback(self) -> None:
        """Begin the file of feedback; note in an existing one which outputs its words are about.

        Runs that are repeated replace their outputs, and the words on the old ones must not become words on the new.
        """
        iteration = self.plan.iteration
        raw = iteration.read_bytes(FEEDBACK_FILE)
        value = {} if raw is None else iteration.read(FEEDBACK_FILE)
        if not isinstance(value, dict):
            return  # A person wrote it, so it is not replaced; the report says that it cannot be read.
        runs: dict[str, list[EvalRun | None]] = {case.folder: [] for case in self.plan.cases}
        for key, case in self.plan.keys:
            if key.arm is Arm.WITH_SKILL:
                runs[key.folder].append(iteration.run(key, case))
        outputs = {
            case: digest_of_case(run.outcome.outputs_digest if run else None for run in found)
            for case, found in runs.items()
        }
        marked = with_outputs(value, outputs)
        if raw is None or marked != value:
            iteration.write(FEEDBACK_FILE, marked)

    def _read_runs(self) -> list[EvalRun]:
        found = [(key, case, self.plan.iteration.run(key, case)) for key, case in self.plan.keys]
        return [run or EvalRun(key, case, _NEVER) for key, case, run in found]

    def _benchmark(self, runs: list[EvalRun], label: str, problems: list[str]) -> JsonObject:
        plan = self.plan
        metadata = BenchmarkMetadata(
            skill_name=plan.version.skill.name,
            skill_path=str(plan.source),
            iteration=plan.iteration.number,
            timestamp=_now(),
            runs_per_configuration=plan.runs,
            model=label,
            judge=plan.options.judge.label if plan.options.judge and plan.needs_judge else None,
            baseline=plan.iteration.config.get("baseline"),
        )
        compared = comparisons_of(plan.iteration, runs)
        arms = (Arm.WITH_SKILL.value, plan.baseline.value)
        comparison = summarize_comparisons(compared, arms) if compared else None
        said = [] if comparison is None else [comparison_line(comparison)]
        counted_runs = runs if plan.options.grades else list(map(_without_grading, runs))
        notes = [*said, *problems, *self._remarks()]
        benchmark = benchmark_of(counted_runs, plan.baseline, metadata, notes)
        return {**benchmark, "comparison": comparison}

    def _remarks(self) -> list[str]:
        options, found = self.plan.options, [f"Not graded: {each}." for each in self.plan.left_out]
        found += [f"{self.plan.read.file.name}: {each}" for each in self.plan.read.notes]
        if not options.grades:
            found.append(
                "The outputs are not graded. Look at them, write assertions, and grade them with "
                f"`skillserve eval {self.plan.source} --grade`."
            )
        if options.agent is not None and not options.agent.gets_skill and options.mode is not EvalMode.GRADE_ONLY:
            found.append("The agent's command has no {skill}, so both arms are the same: this measures the noise.")
        if options.agent is None and self.plan.performs and (fault := self._command_fault()):
            found.append(
                "The model could run commands that read this whole disk, also the evals and other results: there is no "
                f"sandbox for them ({fault}). What it wrote was searched for them."
            )
        agent = self.plan.identity.get("agent")
        if isinstance(agent, dict) and agent.get("isolation") != AgentIsolationKind.BUBBLEWRAP:
            why = f" ({options.agent.isolation.why})" if options.agent is not None else ""
            # Versions that began an iteration without a canary have searched nothing.
            searched = "was" if self.plan.iteration.config.get("canary") else "was not"
            found.append(
                f"The agent was not isolated{why}: it could read this whole disk, also the evals and other results. "
                f"What it wrote {searched} searched for them."
            )
        if self.plan.needs_judge and judges_itself(options, self.settings):
            found.append(
                "The model under test judges itself; name one of another family with --judge-model or --judge-agent."
            )
        return found

    def _command_fault(self) -> str:
        """Return why commands of our own executor have no sandbox, empty if they have one or there are none."""
        if WorkspaceTool.RUN_COMMAND not in self.settings.section(RunSettings).tools:
            return ""
        from server.capabilities.scripts.factory import described_setup

        isolation = described_setup(self.settings).isolation
        return "" if isolation.sandbox is not None else isolation.fault


def judges_itself(options: EvalOptions, settings: Settings) -> bool:
    """Tell whether the model under test is the judge."""
    if options.judge is None or options.mode is EvalMode.GRADE_ONLY:
        return False
    if options.agent is None:
        return options.judge.agent is None and options.judge.model == settings.section(RunSettings).model
    judge = options.judge.agent
    if judge is None or judge.kind is not options.agent.kind:
        return False
    if judge.kind is ANY_AGENT:
        return judge.template == options.agent.template
    return judge.model == options.agent.model


def _without_grading(run: EvalRun) -> EvalRun:
    """Return a run that is done and not graded as one of a case without assertions: its time and tokens count."""
    if run.outcome.status is not EvalStatus.DONE or run.results is not None:
        return run
    outcome = replace(run.outcome, grading_error="")
    return replace(run, case=replace(run.case, assertions=()), outcome=outcome, results=())


def report_of(plan: EvalPlan, benchmark: JsonObject | None) -> JsonObject:
    """Return the object that `eval --json` prints; a dry run has no benchmark."""
    iteration = plan.iteration
    report: JsonObject = {
        "skill": {
            "name": plan.version.skill.name,
            "path": str(plan.source),
            "digest": plan.version.digest,
        },
        "workspace": str(plan.workspace),
        "iteration": iteration.number,
        "path": str(iteration.path),
        "resumed": plan.resumed,
        "dry_run": benchmark is None,
        "plan": plan.to_json(),
    }
    if benchmark is None:
        return report
    runs: Any = benchmark["runs"]
    names = ("run_summary", "effect", "patterns", "comparison", "notes", "stopped", "runs")
    return {
        **report,
        "errors": sum(run["result"]["errors"] for run in runs),
        **{name: benchmark[name] for name in names},
        "benchmark": str(iteration.path / "benchmark.json"),
        "feedback": str(iteration.path / "feedback.json"),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
