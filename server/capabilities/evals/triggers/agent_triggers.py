"""`triggers` with an agent: prepare the test, run it, and print the results."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.capabilities.evals.agents.agent import EXECUTOR
from server.capabilities.evals.agents.cli_agent import CliAgent, check_no_twin, find_agent
from server.capabilities.evals.agents.metered import AgentCosts, bounds_of, named_price, price_of_named_model
from server.capabilities.evals.report.ci import gates_pass, trigger_gates
from server.capabilities.evals.report.workspace import read_workspace
from server.capabilities.evals.report.writing import (
    gate_objects,
    live_report,
    next_step,
    print_gates,
    write_ci_files,
    write_report,
)
from server.capabilities.evals.tested_skills import read_copy
from server.capabilities.evals.triggers import QuerySets
from server.capabilities.evals.triggers.forecast import forecast_of_test
from server.capabilities.evals.triggers.trigger_runs import RunLimitsOfTest
from server.capabilities.evals.triggers.trigger_test import (
    TestPlan,
    TestPrices,
    TriggerTest,
    apply_description,
    last_results,
    opened_queries,
    planned_costs,
    test_folder,
)
from server.capabilities.evals.workspace import EvalError
from server.capabilities.runs.offered import open_configured
from server.capabilities.runs.settings import RunSettings
from server.cli.console import EXIT_BOUND, EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places
from server.transport.signals import until_signalled
from skills_core.diagnostics import counted, one_line, printable
from skills_core.disk.writing import exclusive
from skills_core.errors import SkillsError
from skills_core.evals.agents.kind import AgentRights, Via
from skills_core.evals.triggers.adoption import missing_object
from skills_core.evals.triggers.parts import SEALED_EACH, MissingQueries, missing_queries, split_queries
from skills_core.evals.triggers.queries import chosen_queries, queries_in
from skills_core.evals.triggers.results import Rate, loaded_by_kind
from skills_core.runs.models import CLIENT, check_model, parse_model

if TYPE_CHECKING:
    from server.capabilities.evals.agents.agent import Agent
    from server.capabilities.evals.tested_skills import SkillCopy
    from server.capabilities.evals.triggers import TriggerFlags
    from server.config.settings.model import Settings


_WORDS = {True: "pass", False: "FAIL", None: "none"}
_QUERY = 90

_USAGE = "name --agent to ask an agent, --no-model to rank the queries, or --write-queries to draft some"


def result_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for the results of a test."""
    for result in found["results"]:
        low, high = result["interval"]
        should = "should trigger" if result["should_trigger"] else "should not"
        yield (
            f"{_WORDS[result['pass']]}  {result['triggers']}/{result['runs']} [{low:.2f}, {high:.2f}]  {should:14}  "
            f"{one_line(result['query'])[:_QUERY]}{_faults(result)}"
        )
    whose = ", with the old description" if len(found["rounds"]) > 1 else ""
    yield _summary(f"{found['skill_name']}{whose}", found["summary"])
    for reason in found["summary"]["reasons"]:
        yield f"  {reason['runs']} x {one_line(str(reason['reason']))[:300]}"
    for each in found["rounds"]:
        train, validation = each["train"], each["validation"]
        yield (
            f"round {each['number']}: training {train['passed']} of {train['total']}, validation "
            f"{validation['passed']} of {validation['total']}: {one_line(each['description'])}"
        )
    yield from _decision(found)
    yield _spent_line(found["costs"])


def _faults(result: Mapping[str, Any]) -> str:
    said = [counted(result["errors"], "error")] * bool(result["errors"])
    said += [f"{result['denied']} denied"] * bool(result["denied"])
    if result["runs_needed"]:
        said.append(f"{counted(result['runs_needed'], 'run')} would tell")
    return f"  ({', '.join(said)})" if said else ""


def _summary(name: str, summary: Mapping[str, Any]) -> str:
    low, high = summary["interval"]
    recall, wrong = (Rate(each["count"], each["total"]) for each in (summary["recall"], summary["false_positive_rate"]))
    line = (
        f"{name}: {summary['passed']} of {summary['total']} queries pass (95 % [{low:.2f}, {high:.2f}]); "
        f"{'; '.join(loaded_by_kind(recall, wrong))}"
    )
    return f"{line}; no verdict: {summary['reason']}" if summary["reason"] else line


def _decision(found: Mapping[str, Any]) -> Iterator[str]:
    decision = found.get("decision")
    if decision is not None:
        yield decision["reason"]
        yield from _comparison("sealed test", decision["test"]["comparison"])
        if decision["gain"] is not None:
            low, high = decision["gain_interval"]
            yield (
                f"gain: {decision['gain']:+.2f} (95 % [{low:.2f}, {high:.2f}]), the measured one corrected for "
                "the chance that adopts"
            )
        if decision["proposed"]:
            yield f"the new description: {one_line(decision['best_description'])}"
            yield "--apply --force writes it into SKILL.md all the same"
    holdout = found.get("holdout") or {}
    for name in ("description", "old", "new"):
        if name in holdout:
            yield _summary(f"fresh queries, {name}", holdout[name])
    yield from _comparison("fresh queries", holdout.get("comparison"))
    if missing := MissingQueries(*found["missing_for_verdict"].values()):
        yield missing_line(missing)


def missing_line(missing: MissingQueries) -> str:
    """Return what a set lacks for a verdict on another description."""
    return (
        f"too few queries for a verdict on another description, which takes {SEALED_EACH} sealed ones of each kind: "
        f"write {missing}"
    )


def _comparison(where: str, comparison: Mapping[str, Any] | None) -> Iterator[str]:
    if comparison is None:
        return
    needed = comparison["queries_needed"]
    more = f"; about {counted(needed, 'query', 'queries')} would show such a gain" if needed else ""
    if comparison["gain"] is not None:
        low, high = comparison["interval"] or (-1.0, 1.0)
        yield (
            f"{where}: measured gain {comparison['gain']:+.2f} (95 % [{low:.2f}, {high:.2f}]), better for "
            f"{comparison['wins']}, worse for {comparison['losses']}: {comparison['verdict']}{more}"
        )
    for name, words in (("should_trigger", "should load the skill"), ("should_not_trigger", "should not")):
        kind = comparison[name]
        if kind["queries"]:
            yield (
                f"{where}: {counted(kind['queries'], 'query', 'queries')} that {words}: loaded in "
                f"{kind['new_rate']:.0%} of the runs, with the old description {kind['old_rate']:.0%}"
            )
    errors = comparison["errors"]
    if any(each["errors"] for each in errors.values()):
        new, old = (f"{errors[name]['errors']} of {errors[name]['runs']}" for name in ("new", "old"))
        yield f"{where}: runs that failed with the new description {new}, with the old one {old}"


def with_tokens(planned: Mapping[str, int], workspace: Path) -> dict[str, Any]:
    """Return planned costs with the tokens and the money that they take if runs are like those of the last test."""
    last = last_results(workspace)
    spent = last[1].get("costs") if last is not None else None
    spent = spent if isinstance(spent, dict) else {}
    made = spent.get("runs_made")

    def expected(name: str) -> float | None:
        value = spent.get(name)
        if isinstance(value, (int, float)) and isinstance(made, int) and value > 0 and made > 0:
            return value / made * planned["runs"]
        return None

    tokens, cost, seconds = expected("total_tokens"), expected("cost_usd"), expected("agent_seconds")
    return {
        **planned,
        "tokens": None if tokens is None else round(tokens),
        "cost_usd": None if cost is None else round(cost, 4),
        "seconds": None if seconds is None else round(seconds, 1),
    }


def cost_lines(costs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for what a test costs at most."""
    yield f"at most {counted(costs['runs'], 'run')} of the agent; fewer where an outcome is clear early"
    for name in ("canary", "queries", "rounds", "sealed_test", "holdout"):
        if costs.get(name):
            yield f"  {name.replace('_', ' ')}: {costs[name]}"
    if costs["model_requests"]:
        yield f"at most {counted(costs['model_requests'], 'request')} to the model that revises the description"
    tokens, cost = costs["tokens"], costs["cost_usd"]
    money = f" (${cost:,.2f})" if cost is not None else ", at a price that is not known"
    yield (
        f"about {counted(tokens, 'token')}{money}, as runs of the last test took"
        if tokens
        else "tokens and money: not known before a first test"
    )


def _spent_line(costs: Mapping[str, Any]) -> str:
    tokens = counted(costs["total_tokens"], "token") if costs["total_tokens"] else "unknown tokens"
    money = f"${costs['cost_usd']:,.4f}" if costs["cost_usd"] else "unknown price"
    return f"spent: {counted(costs['runs_made'], 'run')}, {tokens}, {money}"


def triggers_with_agent(options: TriggerFlags) -> None:
    """Test the skill with an agent as the flags say, and print the results.

    Exit with 1 without a verdict, and with 2 for wrong use.
    """
    folder = options.skill_dir
    if options.force and not options.apply:
        fail("--force belongs to --apply: it writes a description that is only proposed", EXIT_USAGE)
    if options.optimize and not options.tests_agent:
        fail("--optimize tests descriptions with an agent: name one with --agent or --agent-command", EXIT_USAGE)
    if not options.tests_agent and not options.apply:
        fail(_USAGE, EXIT_USAGE)
    try:
        skill = read_copy(folder)
        workspace = options.workspace or folder.resolve().parent / f"{skill.name}-workspace"
        if not options.tests_agent:
            _apply_last(folder, workspace, force=options.force, as_json=options.as_json)
            return
        sets = _query_sets(options, workspace)
        settings = _settings(options)
        if options.dry_run:
            _print_costs(skill, sets, options, settings, workspace)
            return
        model = _model_settings(options, settings)
        plan = _plan(skill, sets, options, settings, model)
        _check_costs(plan)
    except SkillsError as error:
        fail(str(error), EXIT_USAGE)
    try:
        found, results = _run(workspace, plan, model)
    except SkillsError as error:
        fail(str(error), EXIT_NO)
    except TimeoutError:
        fail(f"another test is running in {printable(str(workspace))}", EXIT_NO)
    except OSError as error:
        fail(f"{printable(str(workspace))}: {error.strerror or error}", EXIT_USAGE)
    _finish(found, results, options)


def _settings(options: TriggerFlags) -> Settings:
    """Return the settings with the flags.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    flags = {
        "model": options.model,
        "eval_max_cost": options.max_cost,
        "eval_max_requests": options.max_requests,
        "eval_max_seconds": options.max_seconds,
    }
    return settings_of(Machine(current_places()), flags)


def _check_costs(plan: TestPlan) -> None:
    """Check that the cost of everything will be known if it has a bound.

    Raises:
        EvalError: it would not.
    """
    prices = plan.prices
    if plan.bounds.cost is None or prices.agent is None:
        return
    if not prices.agent.is_known:
        raise EvalError(
            "--max-cost needs to know what a run costs: this agent does not report it, and the price of its tokens is "
            "unknown; give it with --price-in and --price-out, or by the model's name in runs.prices"
        )
    if plan.parts is not None and prices.model is None:
        raise EvalError(
            f"--max-cost needs to know what the model costs that revises the description, and the price of "
            f"{plan.model_name} is unknown; give it in runs.prices"
        )


def _model_settings(options: TriggerFlags, settings: Settings) -> RunSettings | None:
    """Return the settings of the configured model; None if no model is needed.

    Raises:
        ModelUnavailableError: no model is named, or it cannot be used.
    """
    if not options.optimize and options.agent != EXECUTOR:
        return None
    runs = settings.section(RunSettings)
    if runs.model is None or runs.model == CLIENT:
        raise SkillsError("this needs a model: name one with --model, such as anthropic:NAME")
    check_model(parse_model(runs.model), os.environ)
    return runs


def _query_sets(options: TriggerFlags, workspace: Path) -> QuerySets:
    _, queries = chosen_queries(options.skill_dir, options.queries, print_notice)
    holdout = queries_in(options.holdout, print_notice) if options.holdout is not None else ()
    known = {query.text for query in queries}
    if again := next((query for query in holdout if query.text in known), None):
        raise SkillsError(f"--holdout: query {again.id} is one of the others too; it needs fresh queries")
    opened = opened_queries(workspace)
    parts = split_queries(queries, options.seed, opened) if options.optimize else None
    return QuerySets(queries, holdout, parts, missing_queries(queries, opened))


def _plan(
    skill: SkillCopy, sets: QuerySets, options: TriggerFlags, settings: Settings, model: RunSettings | None
) -> TestPlan:
    agent = _agent(skill, options, model)
    known = agent if isinstance(agent, CliAgent) else None
    costs = AgentCosts.of(settings, known, named_price(options.price_in, options.price_out))
    return TestPlan(
        skill=skill,
        queries=sets.queries,
        holdout=sets.holdout,
        rivals=tuple(_rivals(skill, options.catalog or ()).values()),
        agent=agent,
        limits=RunLimitsOfTest(options.runs, options.threshold, options.jobs, options.max_calls, options.timeout),
        parts=sets.parts,
        missing=sets.missing,
        rounds=options.revisions,
        seed=options.seed,
        model_name=str(parse_model(model.model or "")) if model and options.optimize else "",
        home=options.agent_home,
        bounds=bounds_of(settings),
        prices=TestPrices(costs, price_of_named_model(settings, model.model or "") if model else None),
    )


def _rivals(skill: SkillCopy, catalog: Iterable[Path]) -> dict[str, SkillCopy]:
    """Return the other skills of the catalog, by name; of two with one name the first counts."""
    rivals: dict[str, SkillCopy] = {}
    for root in catalog:
        if not root.is_dir():
            raise SkillsError(f"{printable(str(root))}: expected a folder of skills")
        for folder in sorted(each.parent for each in root.glob("*/SKILL.md")):
            rival = read_copy(folder)
            if rival.name != skill.name:
                rivals.setdefault(rival.name, rival)
    return rivals


def _agent(skill: SkillCopy, options: TriggerFlags, model: RunSettings | None) -> Agent:
    if options.agent == EXECUTOR:
        from server.capabilities.evals.agents.executor import ExecutorAgent

        assert model is not None  # noqa: S101 - this agent needs one
        name = str(parse_model(model.model or ""))
        return ExecutorAgent(model=open_configured(model), model_name=name, max_calls=options.max_calls)
    if options.agent_command is not None and "{prompt}" not in options.agent_command:
        raise SkillsError(f"the command {options.agent_command!r} has no {{prompt}}; write it where the query goes")
    agent = find_agent(
        options.agent,
        options.agent_command,
        via=Via(options.via),
        rights=AgentRights.LOAD,
        model=options.agent_model,
        home=options.agent_home,
    )
    check_no_twin(agent, skill.name)
    return agent


def _run(workspace: Path, plan: TestPlan, model: RunSettings | None) -> tuple[dict[str, Any], Path]:
    folder = test_folder(workspace, plan)
    for line in cost_lines(with_tokens(plan.costs, workspace)):
        print_notice(line)
    if plan.parts is not None and plan.missing:
        print_notice(missing_line(plan.missing))

    async def work() -> dict[str, Any]:
        async with live_report(workspace, print_notice) as changed:

            async def report(message: str) -> None:
                print_notice(message)
                changed()

            opened = open_configured(model) if model and plan.parts is not None else None
            return await TriggerTest(plan, folder, report, opened).run()

    with exclusive(folder / "runs.jsonl", seconds=0.0):
        return until_signalled(work), folder / "results.json"


def _print_costs(skill: SkillCopy, sets: QuerySets, options: TriggerFlags, settings: Settings, workspace: Path) -> None:
    planned = planned_costs(sets.queries, sets.holdout, sets.parts, options.runs, options.revisions)
    costs = with_tokens(planned, workspace)
    forecast = forecast_of_test(skill, sets, options, settings, costs, workspace)
    if options.as_json:
        missing = missing_object(sets.missing)
        print_json({"costs": costs, "missing_for_verdict": missing, "forecast": forecast.to_json()})
        return
    print_text(one_line(f"{skill.name}: fewer runs where an outcome is clear early"))
    for line in forecast.lines():
        print_text(one_line(line))
    if sets.missing:
        print_text(textwrap.fill(missing_line(sets.missing), 80, subsequent_indent="  "))


def _finish(found: dict[str, Any], results: Path, options: TriggerFlags) -> None:
    applied, refused = None, ""
    if options.apply:
        try:
            applied = apply_description(options.skill_dir, found, force=options.force)
        except SkillsError as error:
            refused = str(error)
    workspace = results.parent.parent
    # Evals in the same workspace are not judged.
    judged = replace(read_workspace(workspace), iterations=())
    gates = trigger_gates(judged.triggers[-1], min_recall=options.min_recall, max_false=options.max_false)
    write_ci_files(options.junit, options.markdown, judged, gates)
    page = write_report(workspace, gates=gates)
    if options.as_json:
        shown = {"results_file": str(results), "report": str(page), "gates": gate_objects(gates), "applied": applied}
        print_json({**found, **shown})
    else:
        for line in result_lines(found):
            print_text(line)
        print_text(f"results: {printable(str(results))}")
        print_text(next_step(workspace))
        print_gates(gates)
        if applied is not None:
            print_text("SKILL.md has the new description.")
    if refused:
        fail(refused, EXIT_NO)
    if found["stopped"]:
        fail(f"{found['stopped']} The same command with a higher bound continues", EXIT_BOUND)
    if not found["finished"] or not gates_pass(gates):
        raise SystemExit(EXIT_NO)


def _apply_last(folder: Path, workspace: Path, *, force: bool, as_json: bool) -> None:
    last = last_results(workspace)
    try:
        applied = apply_description(folder, last[1] if last is not None else {}, force=force)
    except SkillsError as error:
        fail(str(error), EXIT_NO)
    if as_json:
        print_json({"applied": applied, "results_file": str(last[0]) if last is not None else None})
    else:
        print_text("SKILL.md has the new description.")
