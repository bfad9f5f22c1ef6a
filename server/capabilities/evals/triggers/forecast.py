"""What a trigger test will take at most, and what of it would be wasted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.evals.agents.agent import EXECUTOR
from server.capabilities.evals.agents.metered import REVISION, AgentCosts, bounds_of, named_price, price_of_named_model
from server.capabilities.evals.iterations.forecast import bound_warnings, spent_in
from server.capabilities.runs.settings import RunSettings
from skills_core.diagnostics import counted
from skills_core.evals.agents import AGENTS
from skills_core.evals.forecast import Forecast, ForecastRow, tokens_of
from skills_core.runs.spending import KindOfWork

if TYPE_CHECKING:
    from server.capabilities.evals.tested_skills import SkillCopy
    from server.capabilities.evals.triggers import QuerySets, TriggerFlags
    from server.config.settings.model import Settings
    from skills_core.runs.models import Price

FEWEST_QUERIES: Final = 10
"""With fewer queries of a kind, a share says little."""

_PARTS: Final = ("canary", "queries", "rounds", "sealed_test", "holdout")


def forecast_of_test(
    skill: SkillCopy,
    sets: QuerySets,
    options: TriggerFlags,
    settings: Settings,
    planned: Mapping[str, Any],
    workspace: Path,
) -> Forecast:
    """Return what a test takes at most; `planned` are its runs, with the tokens and dollars of the last test.

    Raises:
        SpendingError: there are bounds, and the file of what was used cannot be read.
    """
    spent = spent_in(workspace, bounds_of(settings))
    query = max((len(each.text) for each in sets.queries), default=0)
    measured = _measured(planned)
    # The catalog has each description, and the model sees the query.
    least = tokens_of(len(skill.name) + len(skill.description) + query)
    price = _price(options, settings)
    rows: list[ForecastRow] = []
    for part in _PARTS:
        if runs := int(planned.get(part, 0)):
            tokens = runs * (measured["tokens"] or least)
            dollars = None if price is None else price.of(round(tokens), 0)
            seconds = None if measured["seconds"] is None else runs * measured["seconds"]
            rows.append(
                ForecastRow(
                    what=part.replace("_", " "),
                    runs=runs,
                    requests=runs,
                    tokens=tokens,
                    dollars=dollars if measured["cost_usd"] is None else runs * measured["cost_usd"],
                    seconds=seconds,
                    least=measured["tokens"] is None or measured["cost_usd"] is None,
                    more_requests=options.agent == EXECUTOR,
                )
            )
    if planned["model_requests"]:
        rows.append(_revisions(skill, settings, int(planned["model_requests"]), spent.kinds))
    how = "measured in the last test of this workspace" if measured["tokens"] else ""
    sent = ">= is what is sent once, at 4 characters a token: the description and the longest query"
    basis = "; ".join(filter(None, [how, sent if any(each.least for each in rows) else ""]))
    found = Forecast(rows=rows, jobs=options.jobs, most=True, basis=basis and f"({basis})")
    bounds = bounds_of(settings)
    warnings = (*_warnings(sets, options), *bound_warnings(found.total, spent, bounds.cost, bounds.requests))
    return Forecast(rows=rows, jobs=options.jobs, most=True, basis=found.basis, warnings=warnings)


def _measured(planned: Mapping[str, Any]) -> dict[str, float | None]:
    """Return what a run of the last test took, None where it is unknown."""
    runs = planned["runs"]
    return {
        name: planned[name] / runs if planned.get(name) and runs else None for name in ("tokens", "cost_usd", "seconds")
    }


def _price(options: TriggerFlags, settings: Settings) -> Price | None:
    given = named_price(options.price_in, options.price_out)
    if given is not None:
        return given
    if options.agent == EXECUTOR:
        return AgentCosts.of(settings, None, None).price
    provider = AGENTS[options.agent].provider if options.agent else ""
    return price_of_named_model(settings, options.agent_model, provider) if options.agent_model else None


def _revisions(skill: SkillCopy, settings: Settings, requests: int, kinds: Mapping[str, KindOfWork]) -> ForecastRow:
    model = settings.section(RunSettings).model or ""
    known = kinds.get(f"{REVISION}: {model}", KindOfWork())
    tokens = requests * (known.mean_tokens or tokens_of(len(skill.body) + len(skill.description)))
    price = price_of_named_model(settings, model)
    dollars = None if price is None else price.of(round(tokens), 0)
    return ForecastRow(
        what="revisions",
        requests=requests,
        tokens=tokens,
        dollars=dollars if known.mean_cost is None else requests * known.mean_cost,
        seconds=None if known.mean_seconds is None else requests * known.mean_seconds,
        least=known.mean_tokens is None or known.mean_cost is None,
    )


def _warnings(sets: QuerySets, options: TriggerFlags) -> Iterator[str]:
    """Yield what would waste runs."""
    wanted = sum(each.should_trigger for each in sets.queries)
    for count, kind in ((wanted, "should trigger"), (len(sets.queries) - wanted, "should not")):
        if count < FEWEST_QUERIES:
            queries = counted(count, "query", "queries")
            yield f"{queries} that {kind}: with fewer than {FEWEST_QUERIES} of each kind, a share says little"
    template = options.agent_command
    if template is not None and "{prompt}" not in template:
        yield "the agent's command has no {prompt}, so it would not get the query"
