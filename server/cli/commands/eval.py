"""The command `eval`: run a skill's test cases with and without it, and say what it is worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.agent_options import Agent, AgentHome, AgentModel, ViaChoice, Way
from server.cli.commands.options import AsJson, Model, RunTool, SkillTool
from server.cli.commands.report_options import Ci, Junit, Markdown, MaxRegression, MinPassRate
from server.cli.console import EXIT_NO, print_json, print_notice, print_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.config.settings import Settings
    from server.evals.iterations.plan import EvalOptions, EvalPlan

__all__ = ["evaluate"]


SkillDirectory = Annotated[
    Path, typer.Argument(metavar="SKILL_DIR", help="The folder of the skill, with its cases in evals/evals.json.")
]
Runs = Annotated[int, typer.Option(min=1, max=100, help="Runs of each case in each arm.")]
Results = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where results go.", show_default="SKILL_DIR-workspace beside the skill"),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="REV|DIR|SNAPSHOT",
        help="Compare with an earlier version of the skill: a git revision, a folder, or iteration-N, the version that "
        "this iteration began with.",
        show_default="no skill",
    ),
]
AgentCommand = Annotated[
    str | None,
    typer.Option(
        metavar="TEMPLATE",
        help="The command of the agent under test, run by sh in an empty workspace for each run. {prompt}, {skill} "
        "(the skill's folder, empty without it), {outputs} (where files go) and {files} (input files) stand for "
        "quoted values.",
        show_default="our own executor, with the model of --model",
    ),
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL", help="The model that grades assertions without a check.", show_default="that of --model"
    ),
]
Jobs = Annotated[int, typer.Option(min=1, max=64, help="Runs at the same time.")]
Timeout = Annotated[
    float | None,
    typer.Option(min=1, max=86_400, metavar="SECONDS", help="Seconds for each run.", show_default="runs.seconds, 900"),
]
Compare = Annotated[
    bool, typer.Option("--compare", help="Also let the judge compare the outputs of both arms blindly.")
]
Propose = Annotated[
    bool,
    typer.Option(
        "--propose",
        help="Run nothing; let the model of --model propose a change to the skill, as a diff, from the latest "
        "iteration.",
    ),
]
New = Annotated[bool, typer.Option("--new", help="Begin a new iteration, even if the last one can be continued.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be run and what it would cost, and run nothing.")
]


def evaluate(  # noqa: PLR0913 - one parameter for each flag
    skill_dir: SkillDirectory,
    *,
    runs: Runs = 1,
    workspace: Results = None,
    baseline: Baseline = None,
    agent: Agent = None,
    agent_command: AgentCommand = None,
    via: ViaChoice = Way.FOLDER,
    agent_model: AgentModel = None,
    agent_home: AgentHome = None,
    model: Model = None,
    judge_model: JudgeModel = None,
    run_tools: RunTool = None,
    skill_tools: SkillTool = None,
    jobs: Jobs = 4,
    timeout: Timeout = None,
    compare: Compare = False,
    new: New = False,
    propose: Propose = False,
    dry_run: DryRun = False,
    min_pass_rate: MinPassRate = None,
    max_regression: MaxRegression = None,
    junit: Junit = None,
    markdown: Markdown = None,
    ci: Ci = False,
    as_json: AsJson = False,
) -> None:
    """Run a skill's test cases with and without it, and compare.

    Checks and a judge grade the outputs. A second call with the same arguments continues an unfinished iteration. The
    exit code is 1 if a run ended with an error or could not be graded, or if a gate does not pass.
    """
    _evaluate(locals())


def _evaluate(given: Mapping[str, Any]) -> None:
    """Do what the parameters of the command say."""
    dry_run, as_json = given["dry_run"], given["as_json"]
    if given["propose"]:
        _propose(given["skill_dir"], given["workspace"], given["model"], dry_run=dry_run, as_json=as_json)
        return
    from server.config.bootstrap import settings_of
    from server.config.machine import Machine, current_places
    from server.evals.iterations.eval_agent import eval_agent
    from server.evals.iterations.plan import EvalOptions

    flags = {name: given[name] for name in ("model", "judge_model", "run_tools", "skill_tools")}
    settings = settings_of(Machine(current_places()), flags)
    agent = eval_agent(
        given["agent"],
        given["agent_command"],
        via=given["via"],
        model=given["agent_model"],
        home=given["agent_home"],
    )
    same = {name: given[name] for name in ("workspace", "runs", "baseline", "jobs", "new", "compare")}
    seconds = given["timeout"] or settings.runs.seconds
    options = EvalOptions(skill=given["skill_dir"], agent=agent, seconds=seconds, **same)
    report = _report(options, settings, dry_run=dry_run, as_json=as_json, plain=given["ci"])
    limits = {name: given[name] for name in ("min_pass_rate", "max_regression")}
    _finish(report, (given["junit"], given["markdown"]), limits, as_json=as_json)


def _propose(skill: Path, workspace: Path | None, model: str | None, *, dry_run: bool, as_json: bool) -> None:
    from server.cli.evals.proposal import print_proposal
    from server.evals.iterations.plan import workspace_of

    place = workspace or workspace_of(skill.resolve())
    print_proposal(skill, place, model=model, dry_run=dry_run, as_json=as_json)


def _finish(
    report: dict[str, Any], files: tuple[Path | None, Path | None], limits: Mapping[str, float | None], *, as_json: bool
) -> None:
    """Write files and print the report; exit with 1 if runs have no grading, or if a gate does not pass."""
    if report["dry_run"]:
        if as_json:
            print_json(report)
        return
    from server.cli.evals.eval_files import write_files
    from server.cli.evals.report_files import ReportFiles, gates_pass, next_step, print_gates

    gates = write_files(report, ReportFiles(*files), **limits)
    if as_json:
        print_json(report)
    else:
        from server.cli.evals.eval_report import report_lines

        for line in report_lines(report):
            print_text(line)
        print_text(next_step(Path(report["workspace"])))
        print_gates(gates)
    if errors := report.get("errors"):
        print_notice(f"{errors} of {len(report['runs'])} runs have no grading; the same command runs them again")
    if errors or not gates_pass(gates):
        raise SystemExit(EXIT_NO)


def _report(options: EvalOptions, settings: Settings, *, dry_run: bool, as_json: bool, plain: bool) -> dict[str, Any]:
    from contextlib import nullcontext
    from tempfile import TemporaryDirectory

    from server.evals.iterations.files import locked
    from server.evals.iterations.plan import plan_eval
    from server.evals.iterations.session import check_models, report_of

    with TemporaryDirectory(prefix="skillserve-baseline-") if options.baseline else nullcontext("") as temporary:
        plan = plan_eval(options, settings, Path(temporary, "first"))
        if dry_run:
            if not as_json:
                print_text(_cost_line(plan))
            return report_of(plan, None)
        check_models(plan, settings)
        with locked(plan.workspace):
            # Another process may have continued the iteration before this one had the lock.
            plan = plan_eval(options, settings, Path(temporary, "second"))
            print_notice(_cost_line(plan))
            return report_of(plan, _run(plan, settings, plain=plain))


def _cost_line(plan: EvalPlan) -> str:
    begun = "continues" if plan.resumed else "begins"
    return f"{plan.version.skill.name}: {begun} {plan.iteration.path}: {plan.cost.line()}"


def _run(plan: EvalPlan, settings: Settings, *, plain: bool) -> dict[str, Any]:
    """Run the plan until it ends or a signal comes; what is done stays."""
    from server.evals.iterations.session import EvalSession
    from server.evals.report.live_report import live_report
    from server.transport.signals import until_signalled

    async def work() -> dict[str, Any]:
        async with live_report(plan.workspace, print_notice) as changed:
            return await EvalSession(plan, settings, print_notice, changed, plain).run()

    try:
        return until_signalled(work)
    except (KeyboardInterrupt, SystemExit):
        print_notice("interrupted; the same command continues the iteration")
        raise
