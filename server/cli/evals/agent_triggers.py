"""`triggers` with an agent: prepare the test, run it, and print the results."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.evals.report_files import ReportFiles, gate_objects, gates_pass, next_step, print_gates
from server.cli.evals.trigger_files import with_tokens, write_files
from server.cli.evals.trigger_results import cost_lines, result_lines
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places
from server.evals.agents.find_agent import check_no_twin, find_agent
from server.evals.report.writing import live_report
from server.evals.skills.skill_copies import read_copy
from server.evals.triggers.apply_description import apply_description
from server.evals.triggers.query_file import queries_in, queries_of_skill
from server.evals.triggers.trigger_runs import RunLimitsOfTest
from server.evals.triggers.trigger_test import (
    TestPlan,
    TriggerTest,
    last_results,
    opened_queries,
    planned_costs,
    test_folder,
)
from server.transport.signals import until_signalled
from skills_core.diagnostics import printable
from skills_core.disk.locks import exclusive
from skills_core.errors import SkillsError
from skills_core.evals.agents.kind import Rights, Via
from skills_core.evals.triggers.queries import QUERY_FILES
from skills_core.evals.triggers.split import split_queries
from skills_core.run.models import CLIENT, check_model, open_model, parse_model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic_ai.models import Model

    from server.evals.agents.agent import Agent
    from server.evals.skills.skill_copies import SkillCopy
    from skills_core.evals.triggers.queries import Query
    from skills_core.evals.triggers.split import Part

__all__ = ["AgentTriggerOptions", "triggers_with_agent"]

_EXECUTOR = "skillserve"

_USAGE = "name --agent to ask an agent, --no-model to rank the queries, or --write-queries to draft some"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTriggerOptions:
    """The options of the command that concern agents."""

    queries: Path | None
    catalog: tuple[Path, ...]
    agent: str | None
    template: str | None
    via: str
    agent_model: str | None
    agent_home: Path | None
    limits: RunLimitsOfTest
    optimize: bool
    rounds: int
    seed: int
    apply: bool
    holdout: Path | None
    model: str | None
    workspace: Path | None
    dry_run: bool
    min_recall: float | None
    max_false: float | None
    junit: Path | None
    markdown: Path | None

    @property
    def tests(self) -> bool:
        """Whether an agent is to be tested."""
        return self.agent is not None or self.template is not None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> AgentTriggerOptions:
        """Return the options among the parameters of the command."""
        names = {each.name for each in fields(cls)}
        of_runs = (given["max_calls"], given["timeout"])
        limits = RunLimitsOfTest(given["runs"], given["threshold"], given["jobs"], *of_runs)
        catalog, template = tuple(given["catalog"] or ()), given["agent_command"]
        same = {name: value for name, value in given.items() if name in names - {"catalog"}}
        return cls(**same, catalog=catalog, template=template, limits=limits)


def triggers_with_agent(folder: Path, given: Mapping[str, Any], *, as_json: bool) -> None:
    """Test the skill in `folder` as the parameters of the command say, and print the results.

    Exit with 1 without a verdict, and with 2 for wrong use.
    """
    options = AgentTriggerOptions.of(given)
    if options.optimize and not options.tests:
        fail("--optimize tests descriptions with an agent: name one with --agent or --agent-command", EXIT_USAGE)
    if not options.tests and not options.apply:
        fail(_USAGE, EXIT_USAGE)
    try:
        skill = read_copy(folder)
        workspace = options.workspace or folder.resolve().parent / f"{skill.name}-workspace"
        if not options.tests:
            _apply_last(folder, workspace, as_json=as_json)
            return
        sets = _query_sets(folder, options, workspace)
        if options.dry_run:
            _print_costs(sets, options, workspace, as_json=as_json)
            return
        model = _Model(options)
        plan = _plan(skill, sets, options, model)
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
    _finish(folder, found, results, options, as_json=as_json)


class _Model:
    """The configured model, opened when it is needed."""

    def __init__(self, options: AgentTriggerOptions) -> None:
        """Read the settings if a model is needed.

        Raises:
            ModelUnavailableError: no model is named, or it cannot be used.
            ConfigurationError: a setting cannot be used.
        """
        self.name = ""
        self._key: str | None = None
        self.needed = options.optimize or options.agent == _EXECUTOR
        if not self.needed:
            return
        runs = settings_of(Machine(current_places()), {"model": options.model}).runs
        if runs.model is None or runs.model == CLIENT:
            raise SkillsError("this needs a model: name one with --model, such as anthropic:NAME")
        spec = parse_model(runs.model)
        check_model(spec, os.environ)
        self.name, self._key = str(spec), runs.model_key.get_secret_value() if runs.model_key else None

    def open(self) -> Model | None:
        """Return the model; None if none is needed.

        Raises:
            ModelUnavailableError: the model cannot be used.
        """
        return open_model(parse_model(self.name), self._key) if self.needed else None


class _QuerySets(NamedTuple):
    queries: tuple[Query, ...]
    holdout: tuple[Query, ...]
    parts: Mapping[Part, tuple[Query, ...]] | None


def _query_sets(folder: Path, options: AgentTriggerOptions, workspace: Path) -> _QuerySets:
    queries = _queries(folder, options.queries)
    holdout = queries_in(options.holdout) if options.holdout is not None else ()
    known = {query.query for query in queries}
    if again := next((query for query in holdout if query.query in known), None):
        raise SkillsError(f"--holdout: query {again.id} is one of the others too; it needs fresh queries")
    if not options.optimize:
        return _QuerySets(queries, holdout, None)
    return _QuerySets(queries, holdout, split_queries(queries, options.seed, opened_queries(workspace)))


def _plan(skill: SkillCopy, sets: _QuerySets, options: AgentTriggerOptions, model: _Model) -> TestPlan:
    return TestPlan(
        skill=skill,
        queries=sets.queries,
        holdout=sets.holdout,
        rivals=tuple(_rivals(skill, options.catalog).values()),
        agent=_agent(skill, options, model),
        limits=options.limits,
        parts=sets.parts,
        rounds=options.rounds if options.optimize else 0,
        seed=options.seed,
        model_name=model.name if options.optimize else "",
        home=options.agent_home,
    )


def _queries(folder: Path, file: Path | None) -> tuple[Query, ...]:
    if file is not None:
        return queries_in(file)
    found = queries_of_skill(folder)
    if found is None:
        raise SkillsError(f"{printable(str(folder))} has no {QUERY_FILES[0]}; write one, or name a file with --queries")
    return found[1]


def _rivals(skill: SkillCopy, catalog: tuple[Path, ...]) -> dict[str, SkillCopy]:
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


def _agent(skill: SkillCopy, options: AgentTriggerOptions, model: _Model) -> Agent:
    if options.agent == _EXECUTOR:
        from server.evals.agents.executor_agent import ExecutorAgent

        opened = model.open()
        assert opened is not None  # noqa: S101 - this agent needs one
        return ExecutorAgent(model=opened, model_name=model.name, max_calls=options.limits.max_calls)
    if options.template is not None and "{prompt}" not in options.template:
        raise SkillsError(f"the command {options.template!r} has no {{prompt}}; write it where the query goes")
    agent = find_agent(
        options.agent,
        options.template,
        via=Via(options.via),
        rights=Rights.LOAD,
        model=options.agent_model,
        home=options.agent_home,
    )
    check_no_twin(agent, skill.name)
    return agent


def _run(workspace: Path, plan: TestPlan, model: _Model) -> tuple[dict[str, Any], Path]:
    folder = test_folder(workspace, plan)
    for line in cost_lines(with_tokens(plan.costs, workspace)):
        print_notice(line)

    async def work() -> dict[str, Any]:
        async with live_report(workspace, print_notice) as changed:

            async def report(message: str) -> None:
                print_notice(message)
                changed()

            opened = model.open() if plan.parts is not None else None
            return await TriggerTest(plan, folder, report, opened).run()

    with exclusive(folder / "runs.jsonl", seconds=0.0):
        return until_signalled(work), folder / "results.json"


def _print_costs(sets: _QuerySets, options: AgentTriggerOptions, workspace: Path, *, as_json: bool) -> None:
    planned = planned_costs(*sets, options.limits.runs, options.rounds if options.optimize else 0)
    costs = with_tokens(planned, workspace)
    if as_json:
        print_json({"costs": costs})
        return
    for line in cost_lines(costs):
        print_text(line)


def _finish(folder: Path, found: dict[str, Any], results: Path, options: AgentTriggerOptions, *, as_json: bool) -> None:
    applied, refused = None, ""
    if options.apply:
        try:
            applied = apply_description(folder, found)
        except SkillsError as error:
            refused = str(error)
    files = ReportFiles(options.junit, options.markdown)
    gates, page = write_files(results, files, min_recall=options.min_recall, max_false=options.max_false)
    if as_json:
        shown = {"results_file": str(results), "report": str(page), "gates": gate_objects(gates), "applied": applied}
        print_json({**found, **shown})
    else:
        for line in result_lines(found):
            print_text(line)
        print_text(f"results: {printable(str(results))}")
        print_text(next_step(page.parent))
        print_gates(gates)
        if applied is not None:
            print_text("SKILL.md has the new description.")
    if refused:
        fail(refused, EXIT_NO)
    if not found["finished"] or not gates_pass(gates):
        raise SystemExit(EXIT_NO)


def _apply_last(folder: Path, workspace: Path, *, as_json: bool) -> None:
    last = last_results(workspace)
    try:
        applied = apply_description(folder, last[1] if last is not None else {})
    except SkillsError as error:
        fail(str(error), EXIT_NO)
    if as_json:
        print_json({"applied": applied, "results_file": str(last[0]) if last is not None else None})
    else:
        print_text("SKILL.md has the new description.")
