"""Carry out a planned eval, and return the object that the command prints."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio.to_thread

from server.evals.agents.run_folder import RunFolders
from server.evals.errors import EvalError
from server.evals.iterations.baseline_check import instruction_lines
from server.evals.iterations.checks import check_commands
from server.evals.iterations.comparisons import BlindComparisons
from server.evals.iterations.files import CONFIG, iterations_of
from server.evals.iterations.grading import Grader
from server.evals.iterations.plan import SNAPSHOTS
from server.evals.iterations.progress import showing_progress
from server.evals.iterations.runner import EvalRunner
from server.evals.skills.skill_versions import keep
from skills_core.evals.grading.benchmark import BenchmarkMetadata, benchmark_of
from skills_core.evals.grading.cases import EVALS_FILE
from skills_core.evals.grading.results import Arm, EvalOutcome, EvalRun, EvalStatus, metadata_of
from skills_core.evals.proposals.signals import feedback_on, read_feedback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic_ai.models import Model

    from server.config.settings import Settings
    from server.evals.agents.agent import Agent
    from server.evals.iterations.plan import EvalPlan
    from server.evals.skills.skill_versions import SkillVersion
    from skills_core.run.ports import JsonObject

__all__ = ["EvalSession", "check_models", "report_of"]

_NEVER = EvalOutcome(status=EvalStatus.ERROR, error="it was not run")


def check_models(plan: EvalPlan, settings: Settings) -> None:
    """Check that the agent and the judge that a plan needs are configured, as far as this is known without a request.

    Raises:
        EvalError: one is missing.
        ModelUnavailableError: a model cannot be used.
    """
    from skills_core.run.models import CLIENT, check_model, parse_model

    own = plan.performs and plan.options.agent is None
    if own and settings.runs.model is None:
        raise EvalError(
            "no agent: name one with --agent, its command with --agent-command, or a model for our own with --model"
        )
    judge = _judge_name(settings) if plan.needs_judge else None
    if plan.needs_judge and judge is None:
        raise EvalError(
            "no judge: some assertions have no check, or --compare is given; name a model with --judge-model, or give "
            'each assertion a command: {"text": "…", "check": "…"}'
        )
    for name in filter(None, dict.fromkeys((settings.runs.model if own else None, judge))):
        if name == CLIENT:
            raise EvalError("the model `client` needs a connected client; name another model")
        check_model(parse_model(name), os.environ)


def _judge_name(settings: Settings) -> str | None:
    return settings.evals.judge_model or settings.runs.model


def _open_judge(settings: Settings) -> Model:
    from skills_core.run.models import open_model, parse_model

    own = settings.evals.judge_model is not None
    key = settings.evals.judge_key if own else settings.runs.model_key
    return open_model(parse_model(_judge_name(settings) or ""), key.get_secret_value() if key else None)


@dataclass(frozen=True, slots=True)
class EvalSession:
    """Carries out one plan; `show` prints a line of progress, and `changed` is called when results have changed.

    With `plain`, there is no progress bar.
    """

    plan: EvalPlan
    settings: Settings
    show: Callable[[str], None]
    changed: Callable[[], None] = lambda: None
    plain: bool = False

    async def run(self) -> JsonObject:
        """Perform what is left, grade and aggregate it; return the content of `benchmark.json`.

        Raises:
            SkillsError: a file cannot be written, or the agent cannot be used.
        """
        plan, iteration = self.plan, self.plan.iteration
        await check_commands(plan.cases, plan.version.folder / EVALS_FILE)
        judge = await anyio.to_thread.run_sync(_open_judge, self.settings) if plan.needs_judge else None
        versions = await anyio.to_thread.run_sync(self._keep_versions)
        folders = await anyio.to_thread.run_sync(self._begin)
        self.changed()
        agent = plan.options.agent or self._own_agent(versions)
        left = [each for each in plan.work if not each.is_complete]
        with showing_progress(len(left), self.show, self.changed, plain=self.plain) as listener:
            runner = EvalRunner(
                iteration,
                agent,
                Grader(judge, plan.version.folder / "evals", self._instructions()),
                folders,
                versions,
                plan.version.folder,
                seconds=plan.options.seconds,
                jobs=plan.options.jobs,
                listener=listener,
            )
            await runner.run(plan.work)
        runs = await anyio.to_thread.run_sync(self._read_runs)
        problems = []
        if plan.options.compare and judge is not None:
            comparisons = BlindComparisons(iteration, judge, plan.baseline, plan.options.jobs)
            problems = await comparisons.run(runs)
        benchmark = self._benchmark(runs, agent.label, problems)
        await anyio.to_thread.run_sync(iteration.write, "benchmark.json", benchmark)
        await anyio.to_thread.run_sync(folders.remove)
        return benchmark

    def _own_agent(self, versions: Mapping[Arm, SkillVersion | None]) -> Agent:
        from server.evals.agents.own_agent import OwnAgent

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

    def _instructions(self) -> tuple[str, ...]:
        versions = filter(None, (self.plan.version, self.plan.old_version))
        return tuple(line for version in versions for line in instruction_lines(version.skill))

    def _begin(self) -> RunFolders:
        """Write the files that an iteration begins with; those of an interrupted one stay."""
        plan, iteration = self.plan, self.plan.iteration
        config = iteration.read(CONFIG) if plan.resumed else None
        folders = RunFolders.open(config.get("scratch") if isinstance(config, dict) else None)
        started = config.get("started") if isinstance(config, dict) else None
        document = {
            "identity": plan.identity,
            "skill_path": str(plan.version.folder),
            "baseline": plan.options.baseline,
            "evals_run": [case.id for case in plan.cases],
            "started": started or _now(),
            "scratch": str(folders.root),
        }
        iteration.write(CONFIG, document)
        for case in plan.cases:
            iteration.write(f"{case.folder}/eval_metadata.json", metadata_of(case))
        if iteration.read("feedback.json") is None:
            iteration.write("feedback.json", self._open_complaints())
        return folders

    def _open_complaints(self) -> dict[str, str]:
        """Return the feedback that an iteration begins with: complaints of the last one, until someone empties them.

        Empty entries are left out, because they would call outputs fine that no one has seen.
        """
        plan = self.plan
        earlier = (
            each for each in iterations_of(plan.workspace, plan.options.runs) if each.number < plan.iteration.number
        )
        given = next((found for each in earlier if (found := each.read_bytes("feedback.json")) is not None), None)
        feedback = read_feedback(given)
        texts = {case.folder: feedback_on(case.folder, feedback) for case in plan.cases}
        return {folder: text for folder, text in texts.items() if text}

    def _read_runs(self) -> list[EvalRun]:
        found = [(key, case, self.plan.iteration.run(key, case)) for key, case in self.plan.keys]
        return [run or EvalRun(key, case, _NEVER) for key, case, run in found]

    def _benchmark(self, runs: list[EvalRun], label: str, problems: list[str]) -> JsonObject:
        plan = self.plan
        transcripts = {
            (run.key.folder, run.key.arm, run.key.number): f"{run.key.path(plan.options.runs)}/transcript.jsonl"
            for run in runs
        }
        metadata = BenchmarkMetadata(
            skill_name=plan.version.skill.name,
            skill_path=str(plan.version.folder),
            iteration=plan.iteration.number,
            timestamp=_now(),
            runs_per_configuration=plan.options.runs,
            model=label,
            judge=_judge_name(self.settings) if plan.needs_judge else None,
            baseline=plan.options.baseline,
        )
        return benchmark_of(runs, plan.baseline, metadata, transcripts, [*problems, *self._remarks()])

    def _remarks(self) -> list[str]:
        """Return remarks on how the eval was set up."""
        options, found = self.plan.options, list[str]()
        if options.agent is not None and not options.agent.gets_skill:
            found.append("The agent's command has no {skill}, so both arms are the same: this measures the noise.")
        if self.plan.needs_judge and options.agent is None and self.settings.evals.judge_model is None:
            found.append("The model under test judges itself; name one of another family with --judge-model.")
        return found


def report_of(plan: EvalPlan, benchmark: JsonObject | None) -> JsonObject:
    """Return the object that `eval --json` prints; a dry run has no benchmark."""
    iteration = plan.iteration
    report: JsonObject = {
        "skill": {
            "name": plan.version.skill.name,
            "path": str(plan.version.folder),
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
    runs = benchmark["runs"]
    assert isinstance(runs, list)  # noqa: S101 - as it was made
    failed = sum(isinstance(run, dict) and bool(_errors_of(run)) for run in runs)
    names = ("run_summary", "intervals", "patterns", "notes", "runs")
    return {
        **report,
        "errors": failed,
        **{name: benchmark[name] for name in names},
        "benchmark": str(iteration.path / "benchmark.json"),
        "feedback": str(iteration.path / "feedback.json"),
    }


def _errors_of(run: JsonObject) -> object:
    result = run["result"]
    return result["errors"] if isinstance(result, dict) else 0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
