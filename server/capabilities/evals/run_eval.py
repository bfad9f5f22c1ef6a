"""Do what `eval` asks for: plan, tell the cost, run, and print the results or a proposal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.evals.agents.agent import EXECUTOR
from server.capabilities.evals.agents.isolation import NOT_ISOLATED, find_isolation, hidden_places
from server.capabilities.evals.agents.metered import named_price
from server.capabilities.evals.iterations.agent_choice import choose_judge, eval_agent, judge_agent
from server.capabilities.evals.iterations.forecast import forecast_of
from server.capabilities.evals.iterations.plan import EvalMode, EvalOptions, plan_eval, workspace_of
from server.capabilities.evals.iterations.session import EvalSession, check_models, report_of
from server.capabilities.evals.proposals import (
    print_proposal,
)
from server.capabilities.evals.report.ci import ci_gates, gates_pass
from server.capabilities.evals.report.model import WITH_SKILL
from server.capabilities.evals.report.workspace import read_workspace
from server.capabilities.evals.report.writing import (
    gate_objects,
    live_report,
    next_step,
    print_gates,
    write_ci_files,
    write_report,
)
from server.capabilities.evals.workspace import EvalError, locked
from server.capabilities.runs.settings import RunSettings
from server.cli.console import EXIT_BOUND, EXIT_NO, fail, print_json, print_notice, print_text
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places
from server.config.values import home_path
from server.html.words import dollars
from server.transport.signals import until_signalled
from skills_core.diagnostics import agreeing, counted, one_line, shortened
from skills_core.errors import SkillsError
from skills_core.evals.grading.judging import TIE
from skills_core.runs.spending import BoundReachedError

if TYPE_CHECKING:
    from server.capabilities.evals.agents.cli_agent import CliAgent
    from server.capabilities.evals.agents.isolation import HiddenPlaces
    from server.capabilities.evals.iterations.plan import EvalPlan
    from server.config.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalFlags:
    """The flags of `eval`."""

    skill_dir: Path
    evals: Path | None
    runs: int
    workspace: Path | None
    baseline: str | None
    agent: str | None
    agent_command: str | None
    via: str
    agent_model: str | None
    agent_home: Path | None
    readable: list[Path] | None
    no_isolation: bool
    model: str | None
    judge_model: str | None
    judge_agent: str | None
    judge_command: str | None
    run_tools: list[str] | None
    skill_tools: list[str] | None
    jobs: int
    timeout: float | None
    compare: bool
    grade: bool
    no_grade: bool
    new: bool
    propose: bool
    dry_run: bool
    max_cost: float | None
    max_requests: int | None
    max_seconds: int | None
    price_in: float | None
    price_out: float | None
    min_pass_rate: float | None
    max_regression: float | None
    junit: Path | None
    markdown: Path | None
    ci: bool
    as_json: bool


_MAX_CHANGES = 10

_METRICS = {"pass_rate": "pass rate", "time_seconds": "seconds", "tokens": "tokens"}


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary of both arms, the verdict and the notes, and what changed."""
    summary = report["run_summary"]
    arms = [name for name in summary if name != "delta"]
    yield one_line(f"{report['skill']['name']}, iteration {report['iteration']}: {report['path']}")
    yield "  ".join([f"{'':<10}", *(f"{name:>22}" for name in arms), f"{'delta':>10}"])
    for metric, title in _METRICS.items():
        cells = [f"{_spread(summary[name][metric]):>22}" for name in arms]
        yield "  ".join([f"{title:<10}", *cells, f"{_signed(summary['delta'][metric]):>10}"])
    for name, found in report["effect"]["arms"].items():
        yield f"{name}: {'; '.join(_arm_facts(found))}"
    yield from map(one_line, report["notes"])
    yield from _changes(report["patterns"].get("changed", ()), arms)
    for case in (report.get("comparison") or {}).get("cases", ()):
        winner = "a tie" if case["winner"] == TIE else f"{case['winner']} is better"
        ratio = case["length_ratio"]
        length = "" if ratio is None else f"; the result of {WITH_SKILL} is {ratio:.2f} times as long"
        yield one_line(f"{case['case']}: blind comparison: {winner}{length}")


def _arm_facts(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what `run_summary` does not say of an arm."""
    if (interval := found["interval"]) is not None:
        mean = f"mean of {counted(found['cases'], 'case')} {found['mean']:.2f}"
        yield f"{mean} (95 % interval {interval['low']:.2f} to {interval['high']:.2f})"
    yield f"{found['errors']} of {counted(found['runs'], 'run')} without a grading"
    if found["cost_usd"] is not None:
        yield f"{dollars(found['cost_usd'])} a run"


def _changes(changed: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> Iterator[str]:
    """Yield the assertions that pass more or less often with the skill, those that change most first."""
    for each in changed[:_MAX_CHANGES]:
        shares = ", ".join(f"{each[arm]['passed']} of {each[arm]['runs']} {arm}" for arm in arms if arm in each)
        yield one_line(f"{each['difference']:+.2f} {each['eval']}: {each['assertion']!r} ({shares})")
    if len(changed) > _MAX_CHANGES:
        yield f"and {counted(len(changed) - _MAX_CHANGES, 'more assertion')} that changed"


def _spread(value: Mapping[str, Any]) -> str:
    if value["mean"] is None:
        return "unknown"
    return f"{value['mean']:,.2f} ± {value['stddev']:,.2f}"


def _signed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+,.2f}"


def run_eval(given: EvalFlags) -> None:
    """Do what the flags say; exit with 1 if runs have no grading, or a gate does not pass."""
    flags = {
        "model": given.model,
        "judge_model": given.judge_model,
        "run_tools": given.run_tools,
        "skill_tools": given.skill_tools,
        "eval_max_cost": given.max_cost,
        "eval_max_requests": given.max_requests,
        "eval_max_seconds": given.max_seconds,
    }
    settings = settings_of(Machine(current_places()), flags)
    if given.propose:
        place = given.workspace or workspace_of(given.skill_dir.resolve())
        print_proposal(given.skill_dir, place, settings, dry_run=given.dry_run, as_json=given.as_json)
        return
    options = _options(given, settings)
    with TemporaryDirectory(prefix="skillserve-baseline-") if options.baseline else nullcontext("") as temporary:
        if given.dry_run:
            _print_plan(plan_eval(options, settings, Path(temporary)), settings, as_json=given.as_json)
            return
        report = _report(options, settings, Path(temporary), plain=given.ci)
    _finish(report, given)


def _options(given: EvalFlags, settings: Settings) -> EvalOptions:
    mode, judge = _mode(given), _judge_agent(given)
    names = given.agent, given.agent_command
    agent = None
    if mode is not EvalMode.GRADE_ONLY:
        # The home is that of the judge alone if our own executor performs.
        home = given.agent_home if any(names) or judge is None else None
        agent = eval_agent(*names, via=given.via, model=given.agent_model, home=home)
    isolation = NOT_ISOLATED if given.no_isolation else find_isolation()
    hidden = _hidden(given)
    agent, judge = (
        None if each is None else each.isolated(isolation, hidden, given.readable or ()) for each in (agent, judge)
    )
    return EvalOptions(
        skill=given.skill_dir,
        evals=given.evals,
        agent=agent,
        seconds=given.timeout or settings.section(RunSettings).seconds,
        mode=mode,
        judge=choose_judge(settings, judge, agent),
        workspace=given.workspace,
        runs=given.runs,
        baseline=given.baseline,
        jobs=given.jobs,
        new=given.new,
        compare=given.compare,
        price=named_price(given.price_in, given.price_out),
    )


def _hidden(given: EvalFlags) -> HiddenPlaces:
    """Return what no agent may read: the skill with its evals, the results, and a baseline that is a folder."""
    skill = given.skill_dir.resolve()
    others = [] if given.evals is None else [given.evals]
    if given.baseline and home_path(given.baseline).is_dir():
        others.append(home_path(given.baseline))
    return hidden_places(skill, given.workspace or workspace_of(skill), others)


def _mode(given: EvalFlags) -> EvalMode:
    if not given.grade:
        return EvalMode.RUN_ONLY if given.no_grade else EvalMode.WHOLE
    flags = {"--no-grade": given.no_grade, "--new": given.new, "--baseline": given.baseline}
    if wrong := next((flag for flag, value in flags.items() if value), None):
        raise EvalError(
            f"--grade grades the outputs that the latest iteration has and runs no agent; leave out {wrong}"
        )
    return EvalMode.GRADE_ONLY


def _judge_agent(given: EvalFlags) -> CliAgent | None:
    """Return the agent that the user names as the judge."""
    own = given.judge_agent, given.judge_command
    if any(own) and given.judge_model is not None:
        raise EvalError("there is one judge: name a model with --judge-model, or an agent with --judge-agent, not both")
    if any(own) or not given.grade:
        return judge_agent(*own, model=None, home=given.agent_home)
    if given.judge_model is not None:
        return None
    # Nothing is run, so an agent can only be the judge; our own executor judges with its model.
    name = None if given.agent == EXECUTOR else given.agent
    return judge_agent(name, given.agent_command, model=given.agent_model, home=given.agent_home)


def _print_plan(plan: EvalPlan, settings: Settings, *, as_json: bool) -> None:
    """Print what the plan will take, what would be wasted, and what is missing."""
    forecast = forecast_of(plan, settings)
    if as_json:
        print_json({**report_of(plan, None), "forecast": forecast.to_json()})
    else:
        begun = "continues" if plan.resumed else "begins"
        print_text(one_line(f"{plan.version.skill.name}: {begun} {plan.iteration.path}"))
        for line in forecast.lines():
            print_text(one_line(line))
        if plan.isolation is not None:
            print_text(fill(plan.isolation.statement, _WIDTH))
        for line in _check_lines(plan):
            print_text(one_line(line))
    try:
        check_models(plan, settings)
    except SkillsError as error:
        print_notice(f"without --dry-run, this would not begin: {error}")


_SHOWN_CHECKS: Final = 5
_LINE: Final = 70
_WIDTH: Final = 80


def _check_lines(plan: EvalPlan) -> Iterator[str]:
    """Yield how many commands of the evals file would run on this machine, and how these begin."""
    if not plan.cost.checks:
        return
    yield f"{plan.cost.checks} assertions run commands of evals.json on this machine; --json has them whole:"
    checks = (each.check for case in plan.cases for each in case.assertions if each.check is not None)
    begun = Counter(shortened(next(iter(check.strip().splitlines()), ""), _LINE) for check in checks)
    for first, count in begun.most_common(_SHOWN_CHECKS):
        yield f"  {count} x {first}"
    if (more := len(begun) - _SHOWN_CHECKS) > 0:
        yield f"  and {counted(more, 'other')}"


def _report(options: EvalOptions, settings: Settings, temporary: Path, *, plain: bool) -> dict[str, Any]:
    plan = plan_eval(options, settings, temporary / "first")
    check_models(plan, settings)
    with locked(plan.workspace):
        # Another process may have continued the iteration before this one had the lock.
        plan = plan_eval(options, settings, temporary / "second")
        print_notice(_cost_line(plan))
        if plan.isolation is not None:
            print_notice(plan.isolation.statement)
        for note in plan.read.notes:
            print_notice(one_line(f"{plan.read.file.name}: {note}"))
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
    except BoundReachedError as error:
        fail(f"{error} The same command with a higher bound begins", EXIT_BOUND)
    except (KeyboardInterrupt, SystemExit):
        print_notice("interrupted; the same command continues the iteration")
        raise


def _finish(report: dict[str, Any], given: EvalFlags) -> None:
    workspace = Path(report["workspace"])
    # Results of trigger queries in the same workspace are not judged.
    results = replace(read_workspace(workspace), triggers=())
    gates = ci_gates(results, min_pass_rate=given.min_pass_rate, max_regression=given.max_regression)
    write_ci_files(given.junit, given.markdown, results, gates)
    report |= {"report": str(write_report(workspace, gates=gates)), "gates": gate_objects(gates)}
    if given.as_json:
        print_json(report)
    else:
        for line in report_lines(report):
            print_text(line)
        print_text(next_step(workspace))
        print_gates(gates)
    if stopped := report["stopped"]:
        print_notice(f"{stopped} The same command with a higher bound continues")
        raise SystemExit(EXIT_BOUND)
    if errors := report.get("errors"):
        lacking = f"{errors} of {counted(len(report['runs']), 'run')} {agreeing(errors, 'has', 'have')} no grading"
        print_notice(f"{lacking}; the same command runs them again")
    if errors or not gates_pass(gates):
        raise SystemExit(EXIT_NO)
