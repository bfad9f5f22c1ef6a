"""Do what `eval` asks for: plan, tell the cost, run, and print the results."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from server.cli.console import EXIT_NO, print_json, print_notice, print_text
from server.cli.evals.eval_files import write_files
from server.cli.evals.eval_report import report_lines
from server.cli.evals.report_files import ReportFiles, gates_pass, next_step, print_gates
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places
from server.evals.errors import EvalError
from server.evals.iterations.agent_choice import EXECUTOR, choose_judge, eval_agent, judge_agent
from server.evals.iterations.files import locked
from server.evals.iterations.plan import EvalMode, EvalOptions, plan_eval, workspace_of
from server.evals.iterations.session import EvalSession, check_models, report_of
from server.evals.report.writing import live_report
from server.transport.signals import until_signalled
from skills_core.diagnostics import agreeing, counted, one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.config.settings import Settings
    from server.evals.agents.cli_agent import CliAgent
    from server.evals.iterations.plan import EvalPlan

__all__ = ["run_eval"]


def run_eval(given: Mapping[str, Any]) -> None:
    """Do what the parameters of the command say; exit with 1 if runs have no grading, or a gate does not pass."""
    if given["propose"]:
        _propose(given)
        return
    flags = {name: given[name] for name in ("model", "judge_model", "run_tools", "skill_tools")}
    settings = settings_of(Machine(current_places()), flags)
    options = _options(given, settings)
    with TemporaryDirectory(prefix="skillserve-baseline-") if options.baseline else nullcontext("") as temporary:
        if given["dry_run"]:
            _print_plan(plan_eval(options, settings, Path(temporary)), settings, as_json=given["as_json"])
            return
        report = _report(options, settings, Path(temporary), plain=given["ci"])
    _finish(report, given)


def _propose(given: Mapping[str, Any]) -> None:
    from server.cli.evals.proposal import print_proposal

    skill, model = given["skill_dir"], given["model"]
    place = given["workspace"] or workspace_of(skill.resolve())
    print_proposal(skill, place, model=model, dry_run=given["dry_run"], as_json=given["as_json"])


def _options(given: Mapping[str, Any], settings: Settings) -> EvalOptions:
    mode, judge = _mode(given), _judge_agent(given)
    names = given["agent"], given["agent_command"]
    agent = None
    if mode is not EvalMode.GRADE_ONLY:
        # The home is that of the judge alone if our own executor performs.
        home = given["agent_home"] if any(names) or judge is None else None
        agent = eval_agent(*names, via=given["via"], model=given["agent_model"], home=home)
    same = {name: given[name] for name in ("workspace", "runs", "baseline", "jobs", "new", "compare")}
    return EvalOptions(
        skill=given["skill_dir"],
        agent=agent,
        seconds=given["timeout"] or settings.runs.seconds,
        mode=mode,
        judge=choose_judge(settings, judge, agent),
        **same,
    )


def _mode(given: Mapping[str, Any]) -> EvalMode:
    """Return what is asked for.

    Raises:
        EvalError: flags do not go together.
    """
    if not given["grade"]:
        return EvalMode.RUN_ONLY if given["no_grade"] else EvalMode.WHOLE
    flags = {"--no-grade": given["no_grade"], "--new": given["new"], "--baseline": given["baseline"]}
    if wrong := next((flag for flag, value in flags.items() if value), None):
        raise EvalError(
            f"--grade grades the outputs that the latest iteration has and runs no agent; leave out {wrong}"
        )
    return EvalMode.GRADE_ONLY


def _judge_agent(given: Mapping[str, Any]) -> CliAgent | None:
    """Return the agent that the user names as the judge.

    Raises:
        EvalError: there is more than one judge, or the agent cannot be one.
    """
    own = given["judge_agent"], given["judge_command"]
    if any(own) and given["judge_model"] is not None:
        raise EvalError("there is one judge: name a model with --judge-model, or an agent with --judge-agent, not both")
    if any(own) or not given["grade"]:
        return judge_agent(*own, model=None, home=given["agent_home"])
    if given["judge_model"] is not None:
        return None
    # Nothing is run, so an agent can only be the judge; our own executor judges with its model.
    name = None if given["agent"] == EXECUTOR else given["agent"]
    return judge_agent(name, given["agent_command"], model=given["agent_model"], home=given["agent_home"])


def _print_plan(plan: EvalPlan, settings: Settings, *, as_json: bool) -> None:
    """Print the cost, each command of the evals file that would run on this machine, and what is missing."""
    if as_json:
        print_json(report_of(plan, None))
    else:
        print_text(_cost_line(plan))
        for case in plan.cases if plan.options.grades else ():
            for check in filter(None, (each.check for each in case.assertions)):
                first, *rest = check.strip().splitlines() or [""]
                more = f" … ({counted(len(rest), 'more line')}; --json has all)" if rest else ""
                print_text(one_line(f"check of {case.folder}: {first}{more}"))
    try:
        check_models(plan, settings)
    except SkillsError as error:
        print_notice(f"without --dry-run, this would not begin: {error}")


def _report(options: EvalOptions, settings: Settings, temporary: Path, *, plain: bool) -> dict[str, Any]:
    plan = plan_eval(options, settings, temporary / "first")
    check_models(plan, settings)
    with locked(plan.workspace):
        # Another process may have continued the iteration before this one had the lock.
        plan = plan_eval(options, settings, temporary / "second")
        print_notice(_cost_line(plan))
        return report_of(plan, _run(plan, settings, plain=plain))


def _cost_line(plan: EvalPlan) -> str:
    begun = "continues" if plan.resumed else "begins"
    return f"{plan.version.skill.name}: {begun} {plan.iteration.path}: {plan.cost.line()}"


def _run(plan: EvalPlan, settings: Settings, *, plain: bool) -> dict[str, Any]:
    """Run the plan until it ends or a signal comes; what is done stays."""

    async def work() -> dict[str, Any]:
        async with live_report(plan.workspace, print_notice) as changed:
            return await EvalSession(plan, settings, print_notice, changed, plain).run()

    try:
        return until_signalled(work)
    except (KeyboardInterrupt, SystemExit):
        print_notice("interrupted; the same command continues the iteration")
        raise


def _finish(report: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Write the files for CI, and print the report."""
    limits = {name: given[name] for name in ("min_pass_rate", "max_regression")}
    gates = write_files(report, ReportFiles(given["junit"], given["markdown"]), **limits)
    if given["as_json"]:
        print_json(report)
    else:
        for line in report_lines(report):
            print_text(line)
        print_text(next_step(Path(report["workspace"])))
        print_gates(gates)
    if errors := report.get("errors"):
        lacking = f"{errors} of {counted(len(report['runs']), 'run')} {agreeing(errors, 'has', 'have')} no grading"
        print_notice(f"{lacking}; the same command runs them again")
    if errors or not gates_pass(gates):
        raise SystemExit(EXIT_NO)
