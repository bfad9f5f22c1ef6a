"""The section of cost: time, tokens and money of each arm and of trigger queries, and in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.evals.report.html.markup import Child, Html, foreign, tag
from server.evals.report.html.parts import arm_name, section, table
from server.evals.report.model import Spent
from server.evals.report.numbers import amount, money

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from server.evals.report.model import Iteration, Workspace

__all__ = ["cost_section"]


def cost_section(workspace: Workspace) -> Html | None:
    """Return time, tokens and money of every arm and of trigger queries, and in all; None without any."""
    found = [each for iteration in workspace.iterations for each in _of_arms(iteration)]
    found += [(each.label, each.spent) for each in workspace.triggers]
    found = [(name, spent) for name, spent in found if _is_known(spent)]
    if not found:
        return None
    rows = [_row(foreign("span", name), spent) for name, spent in found]
    if len(found) > 1:
        rows.append(_row(tag("strong", "In all"), _sum([spent for _, spent in found])))
    note = (
        "What the agents under test reported, failed runs included; a dash means that they did not. Runs at the same "
        "time add their seconds up. Graders and the model that writes descriptions are not counted."
    )
    heads = ["Work", "Runs", "Seconds", "Tokens", "Money"]
    return section("cost", "Cost", table("Cost of all runs", heads, rows), tag("p", note, class_="note"))


def _of_arms(iteration: Iteration) -> Iterator[tuple[str, Spent]]:
    for arm in iteration.arms:
        runs = [run for case in iteration.cases for run in case.of(arm)]
        seconds, tokens, cost = (_total(getattr(run, name) for run in runs) for name in ("seconds", "tokens", "cost"))
        yield f"{iteration.label}, {arm_name(arm)}", Spent(len(runs), seconds, tokens, cost)


def _row(name: Child, spent: Spent) -> list[Child]:
    return [name, f"{spent.runs:,}", amount(spent.seconds), amount(spent.tokens), money(spent.cost)]


def _is_known(spent: Spent) -> bool:
    return any(value is not None for value in (spent.seconds, spent.tokens, spent.cost))


def _sum(found: Sequence[Spent]) -> Spent:
    return Spent(
        sum(each.runs for each in found),
        _total(each.seconds for each in found),
        _total(each.tokens for each in found),
        _total(each.cost for each in found),
    )


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
