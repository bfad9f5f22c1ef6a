"""When another description is adopted, on which evidence, and what gain it may claim."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.evals.triggers.adoption import (
    MAX_FALSE_ADOPTIONS,
    Adoption,
    adoption_object,
    compare,
    comparison_object,
    decide,
    propose,
)
from skills_core.evals.triggers.parts import SEALED_EACH, MissingQueries
from skills_core.evals.triggers.queries import Query
from skills_core.evals.triggers.results import Outcome, Round, SetResult, query_result

RUNS = 2


def measured(should: Sequence[int], should_not: Sequence[int], *, runs: int = RUNS, errors: int = 0) -> SetResult:
    """Return results with so many loads of `runs` for each query of a kind, the first with errors besides."""
    results = []
    for place, (kind, loads) in enumerate(
        [*((True, each) for each in should), *((False, each) for each in should_not)]
    ):
        outcomes = [Outcome.LOADED] * loads + [Outcome.NOT_LOADED] * (runs - loads)
        outcomes += [Outcome.ERROR] * (errors if place == 0 else 0)
        results.append(query_result(Query(f"query {place}", kind, str(place)), outcomes))
    return SetResult(tuple(results))


def mirrored(results: SetResult) -> SetResult:
    """Return the set in which each query is of the other kind and has the opposite outcomes."""
    turned = {Outcome.LOADED: Outcome.NOT_LOADED, Outcome.NOT_LOADED: Outcome.LOADED}
    return SetResult(
        tuple(
            query_result(
                Query(each.query.text, not each.query.should_trigger, each.query.id),
                [turned[Outcome(outcome)] for outcome in each.outcomes],
            )
            for each in results.results
        )
    )


NEVER, HALF, ALWAYS = [0] * SEALED_EACH, [0] * 5 + [RUNS] * 5, [RUNS] * SEALED_EACH


def test_a_description_that_is_clearly_better_is_adopted_with_a_gain_and_its_interval() -> None:
    found = decide(measured(ALWAYS, NEVER), measured(HALF, NEVER))
    assert found.adopted
    assert not found.proposed
    assert found.comparison is not None
    assert found.comparison.verdict == "better"
    assert (found.comparison.wins, found.comparison.losses, found.comparison.p) == (5, 0, 1 / 32)
    assert found.comparison.gain == pytest.approx(0.25)
    assert found.gain is not None
    assert 0 <= found.gain.interval.low <= found.gain.gain <= found.gain.interval.high <= 1
    assert found.gain.gain < 0.25


def test_more_passes_alone_adopt_nothing() -> None:
    """One query more of twenty is what chance gives, and was enough once."""
    found = decide(measured([0] * 4 + [RUNS] * 6, NEVER), measured(HALF, NEVER))
    assert (found.adopted, found.proposed, found.gain) == (False, True, None)
    assert "only proposed" in found.reason
    assert found.comparison is not None
    assert found.comparison.queries_needed is not None
    assert found.comparison.queries_needed > 2 * SEALED_EACH


def test_both_kinds_of_queries_count() -> None:
    found = decide(measured(HALF, NEVER), measured(HALF, HALF))
    assert found.adopted
    assert found.comparison is not None
    assert found.comparison.should_not.gain == pytest.approx(0.5)


def test_a_gain_in_loads_does_not_pay_for_false_alarms() -> None:
    found = decide(measured(ALWAYS, HALF), measured(NEVER, NEVER))
    assert not found.adopted
    assert "it makes more false alarms (p = 0.031)" in found.reason
    found = decide(measured(HALF, NEVER), measured(ALWAYS, ALWAYS))
    assert not found.adopted
    assert "it loads the skill less often when it should" in found.reason


def test_a_worse_description_has_the_verdict_worse() -> None:
    found = decide(measured(HALF, NEVER), measured(ALWAYS, NEVER))
    assert (found.adopted, found.proposed) == (False, True)
    assert found.comparison is not None
    assert found.comparison.verdict == "worse"
    assert found.reason.startswith("the old description stays: ")


@pytest.mark.parametrize(
    ("should", "should_not", "missing"),
    [
        (9, 30, "1 more that should trigger"),
        (30, 4, "6 more that should not"),
        (2, 2, "8 more that should trigger and"),
    ],
)
def test_fewer_than_ten_sealed_queries_of_a_kind_have_no_verdict_and_say_how_many_are_missing(
    should: int, should_not: int, missing: str
) -> None:
    found = decide(measured([RUNS] * should, [0] * should_not), measured([0] * should, [RUNS] * should_not))
    assert (found.adopted, found.proposed) == (False, True)
    assert missing in found.reason
    assert not propose(MissingQueries(3, 0)).adopted
    assert "3 more that should trigger" in propose(MissingQueries(3, 0)).reason


@pytest.mark.parametrize("arm", ["new", "old"])
def test_errors_are_counted_for_each_description_and_one_with_too_many_leaves_no_verdict(arm: str) -> None:
    sets = {"new": measured(ALWAYS, NEVER), "old": measured(HALF, NEVER)}
    sets[arm] = measured(*((ALWAYS, NEVER) if arm == "new" else (HALF, NEVER)), errors=6)
    found = decide(**sets)
    assert (found.adopted, found.proposed) == (False, True)
    assert f"with the {arm} description 6 of 46 runs ended with an error" in found.reason
    assert found.comparison is not None
    assert [each.count for each in found.comparison.errors] == ([6, 0] if arm == "new" else [0, 6])


counts = st.lists(st.integers(0, RUNS), min_size=SEALED_EACH, max_size=SEALED_EACH + 3)


@st.composite
def both(draw: st.DrawFn) -> tuple[SetResult, SetResult]:
    should, should_not = draw(counts), draw(counts)
    again = [
        draw(st.lists(st.integers(0, RUNS), min_size=len(each), max_size=len(each))) for each in (should, should_not)
    ]
    return measured(should, should_not), measured(*again)


@given(both())
def test_a_kind_and_its_mirror_image_are_judged_alike(pair: tuple[SetResult, SetResult]) -> None:
    found, turned = compare(*pair), compare(*map(mirrored, pair))
    assert (found.verdict, found.wins, found.losses) == (turned.verdict, turned.wins, turned.losses)
    assert found.p == pytest.approx(turned.p)
    assert found.gain == pytest.approx(turned.gain)


@given(both())
def test_of_two_descriptions_at_most_one_is_better(pair: tuple[SetResult, SetResult]) -> None:
    new, old = pair
    forth, back = compare(new, old), compare(old, new)
    assert (forth.verdict, back.verdict) != ("better", "better")
    assert (forth.wins, forth.losses) == (back.losses, back.wins)
    assert forth.gain == pytest.approx(-(back.gain or 0.0))


@given(both())
def test_a_claim_is_made_with_the_adoption_alone_and_is_never_above_what_was_measured(
    pair: tuple[SetResult, SetResult],
) -> None:
    found = decide(*pair)
    assert (found.gain is not None) == found.adopted
    if found.gain is not None:
        assert found.comparison is not None
        assert found.comparison.p <= MAX_FALSE_ADOPTIONS
        assert 0 <= found.gain.interval.low <= found.gain.gain <= found.gain.interval.high <= 1
        assert found.gain.gain <= (found.comparison.gain or 0.0) + 1e-6


def test_a_kind_with_more_queries_weighs_no_more() -> None:
    few = compare(measured(ALWAYS, NEVER), measured(NEVER, NEVER))
    many = compare(measured(ALWAYS, NEVER * 4), measured(NEVER, NEVER * 4))
    assert few.gain == pytest.approx(0.5)
    assert many.gain == pytest.approx(0.5)


def simulated(right: float, better: float, times: int) -> list[Adoption]:
    """Return decisions on descriptions with rates of two humps, of which the new one is better by so much."""
    chance, found = random.Random(7), []  # noqa: S311 - a reproducible sample

    def outcomes(share: float, *, kind: bool) -> list[int]:
        rates = [0.95 if chance.random() < share else 0.05 for _ in range(SEALED_EACH)]
        loads = [sum(chance.random() < rate for _ in range(3)) for rate in rates]
        return loads if kind else [3 - each for each in loads]

    for _ in range(times):
        old, new = (measured(outcomes(each, kind=True), outcomes(each, kind=False), runs=3) for each in (right, better))
        found.append(decide(new, old))
    return found


def test_a_useless_description_is_adopted_at_most_once_in_twenty_and_a_good_one_mostly() -> None:
    # 60 adoptions of 1,000 would be 1.5 standard deviations above 5 %.
    assert sum(each.adopted for each in simulated(0.5, 0.5, 1000)) <= 60
    assert sum(each.adopted for each in simulated(0.5, 0.28, 200)) <= 2
    assert sum(each.adopted for each in simulated(0.5, 0.95, 200)) >= 160


def test_what_adopted_descriptions_claim_is_on_average_what_they_are_worth() -> None:
    for share, gain in ((0.73, 0.2), (0.95, 0.4)):  # of rates of 0.95 and 0.05
        claims = [each.gain for each in simulated(0.5, share, 600) if each.gain is not None]
        assert statistics.fmean(each.gain for each in claims) == pytest.approx(gain, abs=0.05)
        assert statistics.fmean(each.interval.low <= gain <= each.interval.high for each in claims) >= 0.88


def test_the_documents_say_what_was_decided() -> None:
    new, old = measured(ALWAYS, NEVER), measured(HALF, NEVER)
    best = Round(1, "new", new, new)
    found = adoption_object(decide(new, old), "new", {"new": new, "old": old}, best, 0.5)
    assert (found["adopted"], found["proposed"], found["best_description"]) == (True, False, "new")
    assert isinstance(found["gain"], float)
    assert isinstance(found["test"], dict)
    compared = found["test"]["comparison"]
    assert compared == comparison_object(compare(new, old))
    assert isinstance(compared, dict)
    assert compared["should_trigger"] == {
        "queries": 10, "new_rate": 1.0, "old_rate": 0.5, "gain": 0.5, "p_harm": pytest.approx(31 / 32, abs=0.001),
    }  # fmt: skip
    assert compared["missing"] == {"should_trigger": 0, "should_not_trigger": 0}
    assert adoption_object(propose(MissingQueries(1, 1)), "old", {}, best, 0.5)["gain"] is None
