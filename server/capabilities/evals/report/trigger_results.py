"""Results of trigger queries: those of `skillserve triggers`, and those of skill-creator's loop and single runs.

An optimization writes the outcomes of the old description first. Once a new one is adopted, the skill has that one, so
its outcomes count: those of its round, and of the sealed test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from server.capabilities.evals.report.folder import count, first, number, read_lines, text, texts, truth
from server.capabilities.evals.report.model import RoundScore, RunCosts, ShownVerdict, Tone, TriggerRound, TriggerSet
from server.capabilities.evals.report.scores import read_verdict
from skills_core.diagnostics import agreeing, counted, printable
from skills_core.evals.agents.kind import record, records
from skills_core.evals.statistics import wilson
from skills_core.evals.triggers.queries import Query
from skills_core.evals.triggers.results import FAULTS, QueryResult, Rate, SetResult

if TYPE_CHECKING:
    from server.capabilities.evals.report.folder import Budget, WorkspaceFolder
    from server.capabilities.evals.report.model import ShownTranscript

_SETS = ("train", "validation", "test", "holdout")

_TRANSCRIPT = re.compile(r"transcripts/[0-9a-zA-Z_-]{1,100}\.jsonl")
_MAX_TRANSCRIPTS = 100

_RESULTS = "results"

_ROUNDING = 0.0005
# Rates are written with four digits.

_FACTS = (
    ("Model", "model"),
    ("Agent", "agent"),
    ("Client", "client"),
    ("Threshold", "threshold"),
    ("Ended because", "exit_reason"),
    ("Score of the best round", "best_score"),
    ("Score on the sealed test", "best_test_score"),
    ("Version", "version"),
    ("Skill installed by", "via"),
    ("Note", "note"),
)


def read_triggers(
    folder: WorkspaceFolder, relative: str, position: int, budget: Budget | None = None
) -> TriggerSet | None:
    """Return the results in a folder; None if it holds none. Without a budget, without transcripts."""
    path = f"{relative}/results.json".lstrip("/")
    value = folder.json(path)
    values = dict(record(value))
    rounds = [_round(each, place) for place, each in enumerate(records(first(values, "rounds", "history")), 1)]
    found = measured(values, rounds)
    results = tuple(map(_result, found.results)) or _results_of_history(records(values.get("history")))
    started = folder.read(f"{relative}/config.json".lstrip("/")) is not None
    if not (results or rounds) and not (started and relative.startswith("triggers-")):
        return None
    decision = record(values.get("decision"))
    summary, metadata = record(values.get("summary")), record(values.get("metadata"))
    number_of = count(relative.rpartition("-")[2])
    return TriggerSet(
        number=position if number_of is None else number_of,
        label=printable(relative) or folder.name,
        skill=text(values.get("skill_name")),
        description=text(decision.get("description")) or text(first(values, "description", "best_description")),
        results=SetResult(results),
        rounds=tuple(rounds),
        best=_best(values | dict(decision), rounds),
        facts=tuple(_facts(values, metadata)),
        # The summary is that of the old description.
        verdict=None if found.replaced else read_verdict(summary),
        measured=found.description,
        replaced=SetResult(tuple(map(_result, found.replaced))),
        transcripts=_transcripts(results, folder, relative, budget) if budget is not None else {},
        decision=read_decision(decision),
        spent=_spent(record(values.get("costs"))),
        complete=value is not None and values.get("finished") is not False,
    )


def _facts(*places: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield how the queries were run; an agent is a name or an object."""
    agent = record(places[0].get("agent"))
    for label, name in _FACTS:
        shown = next((found for place in (*places, agent) if (found := text(place.get(name)))), "")
        if shown:
            yield label, shown


def _spent(costs: Mapping[str, Any]) -> RunCosts:
    tokens, money = number(costs.get("total_tokens")), number(costs.get("cost_usd"))
    return RunCosts(count(costs.get("runs_made")) or 0, number(costs.get("agent_seconds")), tokens, money)


def _transcripts(
    results: tuple[QueryResult, ...], folder: WorkspaceFolder, relative: str, budget: Budget
) -> dict[str, ShownTranscript]:
    names = [name for each in results for name in each.transcripts[:_MAX_TRANSCRIPTS] if _TRANSCRIPT.fullmatch(name)]
    return {name: read_lines(folder, f"{relative}/{name}".lstrip("/"), budget) for name in names}


def _results_of_history(history: list[Mapping[str, Any]]) -> tuple[QueryResult, ...]:
    """Return the results of the last round of skill-creator's loop."""
    if not history:
        return ()
    last = history[-1]
    train = [_result(each, "train") for each in records(first(last, "train_results", "results"))]
    return (*train, *(_result(each, "test") for each in records(last.get("test_results"))))


def _result(values: Mapping[str, Any], split: str = "") -> QueryResult:
    outcomes = texts(values.get("outcomes"))
    triggers = count(values.get("triggers")) or 0
    errors = count(values.get("errors")) or sum(outcome in FAULTS for outcome in outcomes)
    runs = sum(outcome not in FAULTS for outcome in outcomes) if outcomes else _runs(values, triggers, errors)
    # More triggers than runs are impossible, so they are not evidence.
    rate = Rate(triggers, runs) if triggers <= runs else Rate(0, 0)
    identifier, part = text(values.get("id")), text(values.get("split")) or split
    return QueryResult(
        Query(text(values.get("query")), values.get("should_trigger") is True, identifier, part),
        rate,
        errors,
        count(values.get("denied")) or 0,
        # Without a single run that counts there is nothing that could have passed.
        truth(values.get("pass")) if rate.total else None,
        outcomes,
        texts(values.get("transcripts")),
        error=text(values.get("error")),
    )


def _runs(values: Mapping[str, Any], triggers: int, errors: int) -> int:
    """Return how many runs count; some tools leave errors out of `runs`, which the rate tells."""
    runs, rate = count(values.get("runs")) or 0, number(values.get("trigger_rate"))
    # A rate of 0 tells nothing.
    without_errors = rate is not None and rate > 0 and runs > 0 and abs(triggers / runs - rate) < _ROUNDING
    return runs if without_errors else max(0, runs - errors)


def _round(values: Mapping[str, Any], position: int) -> TriggerRound:
    scores = [(name, score) for name in _SETS if (score := _score(values, name)) is not None]
    if not scores and (score := _score({"all": values}, "all")) is not None:
        scores = [("all", score)]
    number_of = count(first(values, "number", "round", "iteration"))
    note = text(first(values, "note", "rationale", "reason"))
    return TriggerRound(
        position if number_of is None else number_of, text(values.get("description")), tuple(scores), note
    )


def _score(values: Mapping[str, Any], name: str) -> RoundScore | None:
    """Return a score: an object, a rate, or the fields `<name>_passed` and `<name>_total` of skill-creator."""
    value = values.get(name)
    if isinstance(value, dict):
        passed, total = count(value.get("passed")), count(value.get("total"))
        rate = number(first(value, "pass_rate", "rate", "score"))
    else:
        passed, total = count(values.get(f"{name}_passed")), count(values.get(f"{name}_total"))
        rate = number(value)
    if rate is None and passed is not None and total:
        rate = passed / total
    return RoundScore(passed, total, rate) if rate is not None and 0 <= rate <= 1 else None


def _best(values: Mapping[str, Any], rounds: list[TriggerRound]) -> int | None:
    found = count(first(values, "best_round", "best"))
    if found is not None:
        return found
    best = text(values.get("best_description"))
    return next((each.number for each in rounds if best and each.description == best), None)


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


def read_decision(decision: Mapping[str, Any]) -> ShownVerdict | None:
    """Return the decision with what the sealed test says of each kind of queries; None without a reason."""
    reason = text(decision.get("reason"))
    if not reason:
        return None
    test = record(decision.get("test"))
    compared = record(test.get("comparison"))
    found = text(compared.get("verdict")) or "no verdict"
    known = {"better": Tone.GOOD, "worse": Tone.BAD}.get(found, Tone.NONE)
    done = "Adopted" if decision.get("adopted") is True else "Not adopted"
    if decision.get("proposed") is True and found != "worse":
        done = "Only proposed"
    passes = _passes(test) if "gain" not in compared else ()
    words = [
        reason,
        *_claim(decision),
        *passes,
        *_measured_gain(compared),
        *_by_kind(compared),
        *_errors_by_arm(compared),
    ]
    return ShownVerdict(known, f"{done}, {found}", "; ".join(words) + ".")


def _passes(test: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many sealed queries passed, as earlier versions decided by them."""
    for name in ("new", "old"):
        passed, total = (count(record(test.get(name)).get(field)) for field in ("passed", "total"))
        if passed is not None and total and passed <= total:
            low, high = wilson(passed, total)
            queries = f"{passed} of {counted(total, 'query', 'queries')}"
            yield f"sealed test, {name} description: {queries} (95 % interval {low:.2f} to {high:.2f})"


def _claim(decision: Mapping[str, Any]) -> Iterator[str]:
    gain, interval = number(decision.get("gain")), _ends(decision.get("gain_interval"))
    if gain is not None and interval is not None:
        yield f"gain {gain:+.2f} (95 % interval {interval[0]:.2f} to {interval[1]:.2f}), corrected for the adoption"


def _measured_gain(compared: Mapping[str, Any]) -> Iterator[str]:
    gain, interval = number(compared.get("gain")), _ends(compared.get("interval"))
    if gain is not None and interval is not None:
        yield f"sealed test: measured {gain:+.2f} (95 % interval {interval[0]:.2f} to {interval[1]:.2f})"
    needed = count(compared.get("queries_needed"))
    if needed:
        yield f"about {counted(needed, 'query', 'queries')} would show a gain of this size"


def _by_kind(compared: Mapping[str, Any]) -> Iterator[str]:
    for name, words in (("should_trigger", "should load the skill"), ("should_not_trigger", "should not")):
        kind = record(compared.get(name))
        queries, new, old = count(kind.get("queries")), number(kind.get("new_rate")), number(kind.get("old_rate"))
        if queries and new is not None and old is not None:
            shown = counted(queries, "query", "queries")
            yield f"{shown} that {words}: loaded in {new:.0%} of the runs, with the old description in {old:.0%}"


def _errors_by_arm(compared: Mapping[str, Any]) -> Iterator[str]:
    for name, each in record(compared.get("errors")).items():
        failed, runs = count(record(each).get("errors")), count(record(each).get("runs"))
        if failed and runs:
            yield f"{failed} of {counted(runs, 'run')} with the {name} description failed"


def _ends(value: object) -> tuple[float, float] | None:
    found = [number(each) for each in value] if isinstance(value, list) else []
    match found:
        case [float() | int() as low, float() | int() as high]:
            return low, high
        case _:
            return None


def trigger_verdict(triggers: TriggerSet) -> ShownVerdict:
    """Return whether the queries have the wanted outcomes, or why the numbers cannot tell; a recorded one counts."""
    if triggers.verdict is not None:
        return triggers.verdict
    if why := triggers.results.no_verdict:
        return ShownVerdict(Tone.NONE, "No verdict", why)
    rate = triggers.results.passed
    queries, have = counted(rate.total, "query", "queries"), agreeing(rate.count, "has", "have")
    whose = f" with {triggers.measured}" if triggers.measured else ""
    low, high = rate.interval
    words = f"{rate.count} of {queries} {have} the wanted outcome{whose} (95 % interval {low:.2f} to {high:.2f})."
    if rate.count == rate.total:
        return ShownVerdict(Tone.GOOD, "All as wanted", words)
    # How many must be is for a gate to say, which may pass.
    tone, title = (Tone.MIXED, "Some not as wanted") if rate.count else (Tone.BAD, "None as wanted")
    return ShownVerdict(tone, title, words)
