"""What a planned eval will take, and what of it would be wasted."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from server.capabilities.evals.agents.metered import JUDGE, AgentCosts, bounds_of
from server.capabilities.evals.iterations.plan import EvalMode, finished_by_arm
from server.capabilities.evals.iterations.session import judge_costs, judges_itself
from server.capabilities.evals.workspace import iterations_of
from server.capabilities.runs.metering import SPENDING_FILE
from server.capabilities.runs.settings import RunSettings
from skills_core.diagnostics import counted, shortened
from skills_core.disk.files import Location, Reader
from skills_core.errors import FileRefusedError
from skills_core.evals.forecast import Forecast, ForecastRow, tokens_of
from skills_core.evals.grading.judging import assertions_for_judge
from skills_core.evals.grading.results import Arm
from skills_core.evals.statistics import MIN_CASES
from skills_core.runs.spending import KindOfWork, SpendingError, SpendingFile, Spent

if TYPE_CHECKING:
    from pathlib import Path

    from server.capabilities.evals.iterations.plan import EvalPlan
    from server.capabilities.evals.iterations.runner import Work
    from server.config.settings.model import Settings
    from skills_core.evals.grading.cases import EvalCase
    from skills_core.evals.grading.results import EvalOutcome
    from skills_core.runs.spending import Bounds

FEWEST_CASES: Final = MIN_CASES
"""With fewer cases, no result of the exact test is a verdict."""

_NAMED: Final = 3
# Cases that a warning names.


def forecast_of(plan: EvalPlan, settings: Settings) -> Forecast:
    """Return what is left of a plan, measured where earlier runs are known.

    Raises:
        SpendingError: there are bounds, and the file of what was used cannot be read.
    """
    spent = spent_in(plan.workspace, bounds_of(settings))
    known = finished_by_arm(plan.workspace, plan.work)
    model = settings.section(RunSettings).model
    own = spent.kinds.get(f"eval: {model}") if model and plan.options.agent is None else None
    rows = [_arm_row(plan, settings, arm, known.get(arm, []), own) for arm in plan.arms if plan.performs]
    rows += _judge_rows(plan, settings, spent)
    runs = sum(map(len, known.values()))
    measured = f"measured in {counted(runs, 'earlier run')} of these cases" if runs else ""
    least = ">= is what is sent once, at 4 characters a token: prompts, text files, the SKILL.md"
    basis = "; ".join(filter(None, [measured, least if any(each.least for each in rows) else ""]))
    found = Forecast(rows=rows, jobs=plan.options.jobs, basis=basis and f"({basis})")
    warnings = (*_warnings(plan, settings), *_bound_warnings(found, spent, settings))
    return Forecast(rows=found.rows, jobs=found.jobs, basis=found.basis, warnings=warnings)


def spent_in(workspace: Path, bounds: Bounds) -> Spent:
    """Return what was used in a workspace; without bounds, nothing is known if its file cannot be read.

    Raises:
        SpendingError: there are bounds, and the file cannot be read.
    """
    try:
        return SpendingFile(workspace / SPENDING_FILE).spent()
    except SpendingError:
        if bounds:
            raise
        return Spent()


def _arm_row(
    plan: EvalPlan, settings: Settings, arm: Arm, known: Sequence[EvalOutcome], own: KindOfWork | None
) -> ForecastRow:
    """Return the row of an arm; `own` is what is known of the requests of our own executor."""
    pending = [each for each in plan.work if each.performs and each.key.arm is arm]
    count = len(pending)
    tokens = _mean(each.total_tokens for each in known)
    dollars = _mean(each.cost_usd for each in known)
    millis = _mean(each.duration_ms for each in known)
    least = tokens is None
    whole = count * tokens if tokens is not None else tokens_of(sum(_length(plan, arm, each) for each in pending))
    price = AgentCosts.of(settings, plan.options.agent, plan.options.price).price
    if dollars is not None:
        money: float | None = count * dollars
    else:
        # Input costs less than output, so this is the least of so many tokens.
        least, money = True, None if price is None else price.of(round(whole), 0)
    seconds = None if millis is None else count * millis / 1000
    requests = count if own is None else round(count * own.requests / own.count)
    return ForecastRow(
        what=arm.value,
        runs=count,
        requests=requests,
        tokens=whole,
        dollars=money,
        seconds=seconds,
        least=least,
        more_requests=plan.options.agent is None and own is None,
    )


def _length(plan: EvalPlan, arm: Arm, work: Work) -> int:
    """Return how many characters are sent to the model in a run, at least."""
    version = plan.version if arm is Arm.WITH_SKILL else plan.old_version
    skill = 0 if version is None else len(version.skill.description) + version.skill.body_length
    return skill + len(work.case.prompt) + _files_length(plan, work.case)


def _files_length(plan: EvalPlan, case: EvalCase) -> int:
    """Return the length of the text files of a case; an agent reads them in most runs."""
    length = 0
    with Reader() as reader:
        for path in case.files:
            try:
                raw, _ = reader.read(Location(plan.read.inputs, path))
            except FileRefusedError:
                continue
            length += 0 if b"\0" in raw else len(raw)
    return length


def _judge_rows(plan: EvalPlan, settings: Settings, spent: Spent) -> Iterator[ForecastRow]:
    judge = plan.options.judge
    if judge is None or not (plan.cost.judge_requests or plan.cost.compare_requests):
        return
    known = spent.kinds.get(f"{JUDGE}: {judge.label}", KindOfWork())
    price = judge_costs(judge, settings).price
    left = [each for each in plan.work if each.grades and not each.is_complete]
    asked = [_question_length(each.case) for each in left if assertions_for_judge(each.case)]
    for what, requests in (("judge", plan.cost.judge_requests), ("comparison", plan.cost.compare_requests)):
        if not requests:
            continue
        if known.mean_tokens is not None:
            tokens, least = requests * known.mean_tokens, False
        else:
            tokens, least = float(tokens_of(sum(asked) if what == "judge" else 0)), True
        dollars = None if price is None else price.of(round(tokens), 0)
        if known.mean_cost is not None:
            dollars = requests * known.mean_cost
        seconds = None if known.mean_seconds is None else requests * known.mean_seconds
        yield ForecastRow(what=what, requests=requests, tokens=tokens, dollars=dollars, seconds=seconds, least=least)


def _question_length(case: EvalCase) -> int:
    texts = (each.text for each in case.assertions)
    return len(case.prompt) + len(case.expected_output) + sum(map(len, texts))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return statistics.fmean(known) if known else None


def _warnings(plan: EvalPlan, settings: Settings) -> Iterator[str]:
    """Yield what would waste runs."""
    options, cases = plan.options, plan.cases
    if options.agent is not None and not options.agent.gets_skill and plan.performs:
        yield "the agent's command has no {skill}, so both arms are the same: it would measure the noise"
    if options.grades and (bare := [each.folder for each in cases if not each.assertions and not each.expected_output]):
        yield f"{_named(bare)}: no assertions, so these runs decide nothing; write some, or use --no-grade"
    if len(cases) < FEWEST_CASES and options.grades:
        yield f"{counted(len(cases), 'case')}: a verdict needs {FEWEST_CASES} or more; what comes is a description"
    if plan.needs_judge and judges_itself(options, settings):
        yield "the model under test judges itself; name one of another family with --judge-model or --judge-agent"
    if options.mode is EvalMode.WHOLE and plan.old_version is None and (useless := _useless(plan)):
        yield (
            f"{counted(len(useless), 'assertion')} passed in all runs of both arms before, so they show nothing of the "
            f"skill: {_named(useless)}"
        )
    yield from (f"{plan.read.file.name}: {each}" for each in plan.read.notes)
    yield from plan.left_out


def _useless(plan: EvalPlan) -> list[str]:
    """Return the present assertions that passed in all runs of the latest graded iteration, with and without skill."""
    present = {(case.folder, each.text) for case in plan.cases for each in case.assertions}
    for iteration in iterations_of(plan.workspace, plan.runs):
        match iteration.read("benchmark.json"):
            case {"patterns": {"always_pass": list(listed)}, "metadata": dict()}:
                found = [(each.get("eval"), each.get("assertion")) for each in listed if isinstance(each, dict)]
                return [shortened(str(text), 60) for name, text in found if (name, text) in present]
    return []


def _named(names: Sequence[str]) -> str:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


def _bound_warnings(found: Forecast, spent: Spent, settings: Settings) -> Iterator[str]:
    bounds, total = bounds_of(settings), found.total
    yield from bound_warnings(total, spent, bounds.cost, bounds.requests)


def bound_warnings(total: ForecastRow, spent: Spent, dollars: float | None, requests: int | None) -> Iterator[str]:
    """Yield the bounds that would stop the work, with what was used within 24 hours."""
    if dollars is not None and total.dollars is not None and spent.cost + total.dollars > dollars:
        used, more = f"${spent.cost:,.4f} are used", f"${total.dollars:,.4f} more are expected"
        yield f"it would stop at --max-cost {dollars:g}: {used}, {more}"
    if requests is not None and spent.requests + total.requests > requests:
        used, more = f"{spent.requests:,} are used", f"{total.requests:,} more are expected"
        yield f"it would stop at --max-requests {requests:,}: {used}, {more}"
