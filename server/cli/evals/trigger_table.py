"""Print the ranks of a skill for its trigger queries as a table, and their summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from skills_core.diagnostics import counted, one_line, shortened
from skills_core.evals.triggers.query_summary import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from server.evals.triggers.ranked_triggers import ClientSight, RankedTriggers
    from skills_core.evals.triggers.query_ranking import RankedQuery
    from skills_core.evals.triggers.query_summary import Confusion, Rate

__all__ = ["print_triggers"]

_MAX_QUERY = 70
_MAX_CONFUSIONS = 20
_COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.NONE: "yellow"}


def print_triggers(console: Console, triggers: RankedTriggers) -> None:
    """Print a row for each query, what each client shows, and the summary."""
    head = f"{triggers.skill.key} among {counted(triggers.skills, 'skill')}, queries of {triggers.file}"
    console.print(escape(one_line(head)), soft_wrap=True)
    console.print(_table(triggers))
    console.print()
    for sight in triggers.clients:
        console.print(escape(_sight_line(sight)), soft_wrap=True)
    for line in _summary_lines(triggers):
        console.print(escape(one_line(line)), soft_wrap=True)
    verdict = triggers.summary.verdict
    if verdict is not None:
        why = escape(one_line("; ".join(triggers.summary.reasons)))
        console.print(f"[{_COLOURS[verdict]}]{verdict.value}[/]{f': {why}' if why else ''}", soft_wrap=True)


def _table(triggers: RankedTriggers) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("id", "should", "rank", "", "query", "above it"):
        table.add_column(heading, overflow="fold")
    for ranked in triggers.ranked:
        query = ranked.query
        table.add_row(
            escape(shortened(query.id, 20)),
            "yes" if query.should_trigger else "no",
            _rank(ranked),
            "" if ranked.is_right else "[red]wrong[/]",
            escape(shortened(query.query, _MAX_QUERY)),
            escape(one_line(_rivals(ranked))),
        )
    return table


def _rank(ranked: RankedQuery) -> str:
    if ranked.rank is None:
        return "-"
    return f"{ranked.rank} (weak)" if ranked.match is not None and ranked.match.weak else str(ranked.rank)


def _rivals(ranked: RankedQuery) -> str:
    """Return which skills rank above, if the skill should be the first, and where an expected skill ranks if not."""
    if ranked.query.should_trigger:
        return ", ".join(ranked.above)
    expected = ranked.query.expected_skill
    if expected is None or ranked.expected_rank == 1:
        return ""
    return f"{expected} has rank {ranked.expected_rank}" if ranked.expected_rank else f"{expected} is not found"


def _sight_line(sight: ClientSight) -> str:
    state = "the entry is in sight" if sight.shown else f"the entry is not in sight ({sight.sight}, {sight.entry})"
    place = f"number {sight.position:,} of {sight.offered:,} in its order, which shows {_entries(sight.described)}"
    return f"{one_line(sight.label)}: {state}; {place}"


def _entries(number: int) -> str:
    return counted(number, "entry", "entries")


def _summary_lines(triggers: RankedTriggers) -> Iterator[str]:
    summary = triggers.summary
    yield f"found first (recall@1)        {_share(summary.recall_at_1)}"
    yield f"in the first five (recall@5)  {_share(summary.recall_at_5)}"
    yield f"near-misses that trigger      {_share(summary.false_triggers)}"
    yield f"the same with weak matches    {_share(summary.first_of_near_misses)}"
    if summary.expected_first.total:
        yield f"expected skill first          {_share(summary.expected_first)}"
    yield from map(_confusion_line, summary.confusions[:_MAX_CONFUSIONS])
    if (more := len(summary.confusions) - _MAX_CONFUSIONS) > 0:
        yield f"and {counted(more, 'more rival')}, which --json lists"
    for name in triggers.unknown:
        yield f"expected_skill {name[:200]!r} is no skill of the catalog; name its folder with --catalog"


def _confusion_line(confusion: Confusion) -> str:
    above = f"ranks above it for {', '.join(confusion.above)}" if confusion.above else ""
    displaced = f"is displaced for {', '.join(confusion.displaced)}" if confusion.displaced else ""
    return f"confused with {confusion.rival}, which {' and '.join(filter(None, (above, displaced)))}"


def _share(rate: Rate) -> str:
    if rate.share is None:
        return "no such queries"
    low, high = rate.interval
    return f"{rate.hits} of {rate.total} = {rate.share:.2f} (95 %: {low:.2f} to {high:.2f})"
