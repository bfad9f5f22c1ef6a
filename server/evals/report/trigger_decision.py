"""Which description the outcomes of an optimization belong to, and what was decided with which evidence.

An optimization writes the outcomes of the old description first. Once a new one is adopted, the skill has that one, so
its outcomes count: those of its round, and of the sealed test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from server.evals.report.fields import count, number, record, records, text
from server.evals.report.model import Judgement, Verdict
from skills_core.diagnostics import counted
from skills_core.evals.statistics import wilson

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from server.evals.report.model import TriggerRound

__all__ = ["Measured", "measured", "read_decision"]

_RESULTS = "results"


class Measured(NamedTuple):
    """The outcomes that count, which description has them, and those of the description that it replaced."""

    results: Sequence[Mapping[str, Any]]
    description: str = ""
    replaced: Sequence[Mapping[str, Any]] = ()


def measured(values: Mapping[str, Any], rounds: Sequence[TriggerRound]) -> Measured:
    """Return the outcomes of the description that the skill has after the optimization."""
    decision = record(values.get("decision"))
    old, splits = records(values.get(_RESULTS)), _splits(values)
    if not decision:
        return Measured(old, "the description of round 0, which SKILL.md has" if len(rounds) > 1 else "")
    sealed = record(decision.get("test"))
    before = [*old, *_sealed(sealed, "old")]
    if decision.get("adopted") is not True:
        return Measured(before, "the old description, which stays" if len(rounds) > 1 else "")
    best = count(decision.get("best_round"))
    own = [each for each in records(values.get("rounds")) if count(each.get("number")) == best]
    of_round = [
        {**each, "split": splits.get(text(each.get("query")), "")}
        for every in own
        for each in records(every.get(_RESULTS))
    ]
    after = [*of_round, *_sealed(sealed, "new")]
    if not after:
        return Measured(before, "the old description: the outcomes of the new one are not in this file")
    return Measured(after, f"the new description (round {best}, adopted), training queries included", before)


def _splits(values: Mapping[str, Any]) -> dict[str, str]:
    return {text(each.get("query")): text(each.get("split")) for each in records(values.get(_RESULTS))}


def _sealed(test: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    yield from ({**each, "split": "sealed test"} for each in records(record(test.get(name)).get(_RESULTS)))


def read_decision(decision: Mapping[str, Any]) -> Judgement | None:
    """Return the decision with intervals and with whether it may be chance; None without a reason."""
    reason = text(decision.get("reason"))
    if not reason:
        return None
    test = record(decision.get("test"))
    compared = record(test.get("comparison"))
    found = text(compared.get("verdict")) or "no verdict"
    known = {"better": Verdict.GOOD, "worse": Verdict.BAD}.get(found, Verdict.NONE)
    title = f"{'Adopted' if decision.get('adopted') is True else 'Not adopted'}, {found}"
    # The reason of a decision by the sealed test says its counts, without their intervals.
    words = [*([] if compared else [reason]), *_rates(test), *_chance(compared)]
    return Judgement(known, title, "; ".join(words) + ".")


def _rates(test: Mapping[str, Any]) -> Iterator[str]:
    for name in ("new", "old"):
        passed, total = (count(record(test.get(name)).get(field)) for field in ("passed", "total"))
        if passed is not None and total and passed <= total:
            low, high = wilson(passed, total)
            queries = f"{passed} of {counted(total, 'query', 'queries')}"
            yield f"sealed test, {name} description: {queries} (95 % interval {low:.2f} to {high:.2f})"


def _chance(compared: Mapping[str, Any]) -> Iterator[str]:
    wins, losses, probability = count(compared.get("wins")), count(compared.get("losses")), number(compared.get("p"))
    if wins is None or losses is None or probability is None:
        return
    yield f"only the new one passes {wins}, only the old one {losses} (McNemar's exact test: p = {probability:.3g})"
    needed = count(compared.get("queries_needed"))
    if needed:
        yield f"about {counted(needed, 'query', 'queries')} would show a difference of this size"
