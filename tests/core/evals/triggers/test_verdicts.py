from __future__ import annotations

import itertools

import pytest

from skills_core.evals.triggers.outcomes import Outcome
from skills_core.evals.triggers.queries import Query
from skills_core.evals.triggers.rounds import Round, best_round, decide
from skills_core.evals.triggers.verdicts import QueryResult, SetResult, compare, is_settled

L, N, D, E, T = Outcome.LOADED, Outcome.NOT_LOADED, Outcome.DENIED, Outcome.ERROR, Outcome.TIMEOUT


def result(outcomes: list[Outcome], *, should: bool = True, number: int = 1, threshold: float = 0.5) -> QueryResult:
    return QueryResult(Query(f"query {number}", should, str(number)), tuple(outcomes), threshold)


def set_of(*passed: bool) -> SetResult:
    return SetResult(tuple(result([L if each else N], number=number) for number, each in enumerate(passed)))


@pytest.mark.parametrize(
    ("outcomes", "triggers", "total", "passed"),
    [
        ([L, L, N], 2, 3, True),
        ([L, N, N], 1, 3, False),
        ([L, E, T], 1, 1, True),
        ([D, D, L], 1, 3, False),
        ([E, T], 0, 0, None),
        ([L, N], 1, 2, False),  # a rate equal to the threshold is not above it
    ],
)
def test_errors_and_timeouts_leave_the_denominator(
    outcomes: list[Outcome],
    triggers: int,
    total: int,
    passed: bool | None,  # noqa: FBT001 - a column of the table
) -> None:
    found = result(outcomes)
    assert (found.rate.count, found.rate.total, found.passed) == (triggers, total, passed)


def test_a_query_that_should_not_trigger_passes_below_the_threshold() -> None:
    assert result([N, N, L], should=False).passed is True
    assert result([L, L, N], should=False).passed is False
    assert result([L, N], should=False).passed is False


def test_each_rate_has_its_interval_and_the_runs_that_it_would_take() -> None:
    three = result([L, L, L])
    assert three.rate.interval == pytest.approx((0.44, 1.0), abs=0.005)
    assert three.runs_needed == 4
    assert result([L] * 4).runs_needed is None
    assert result([L, N]).runs_needed is None  # no number of runs tells a rate from itself
    assert result([E]).runs_needed is None


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("planned", [1, 2, 3, 4, 5])
def test_a_query_is_settled_exactly_if_no_further_outcome_changes_its_verdict(planned: int, threshold: float) -> None:
    for count in range(planned + 1):
        for outcomes in itertools.product((L, N, E), repeat=count):
            wholes = [[*outcomes, *more] for more in itertools.product((L, N, E), repeat=planned - count)]
            verdicts = {
                (result(each, threshold=threshold).passed, result(each, threshold=threshold, should=False).passed)
                for each in wholes
            }
            if count == planned:
                assert is_settled(outcomes, planned, threshold)
            else:
                assert is_settled(outcomes, planned, threshold) == (len(verdicts) == 1), (outcomes, verdicts)


def test_more_than_a_tenth_of_errors_leaves_no_verdict() -> None:
    nine = [result([L], number=number) for number in range(9)]
    assert not SetResult((*nine, result([L], number=9))).no_verdict
    assert not SetResult((*nine, result([E, L], number=9))).no_verdict  # 1 of 11
    assert SetResult((*nine[:7], result([E, L], number=9))).no_verdict.startswith("1 of 9 runs")
    assert SetResult((*nine, result([E], number=9))).no_verdict == "1 of 10 queries has no run that counts"
    assert SetResult(()).no_verdict == "there are no queries"


def test_recall_and_false_positives_are_counted_apart() -> None:
    found = SetResult(
        (
            result([L], number=1),
            result([N], number=2),
            result([N], should=False, number=3),
            result([L], should=False, number=4),
            result([N], should=False, number=5),
        )
    )
    assert (found.passed.count, found.passed.total) == (3, 5)
    assert (found.recall.count, found.recall.total) == (1, 2)
    assert (found.false_positives.count, found.false_positives.total) == (1, 3)


def test_a_comparison_without_six_discordant_queries_has_no_verdict_but_says_how_many_it_takes() -> None:
    few = compare(set_of(*[True] * 5, False), set_of(*[False] * 5, False))
    assert (few.wins, few.losses, few.verdict) == (5, 0, "no verdict")
    assert few.queries_needed
    many = compare(set_of(*[True] * 6), set_of(*[False] * 6))
    assert (many.verdict, many.queries_needed) == ("better", None)
    assert compare(set_of(*[False] * 6), set_of(*[True] * 6)).verdict == "worse"
    assert compare(set_of(True), set_of(True)).queries_needed is None


def test_the_old_description_stays_unless_the_new_one_passes_more_of_the_sealed_test() -> None:
    assert decide(set_of(True, True), set_of(True, False)).adopted
    assert not decide(set_of(True, False), set_of(False, True)).adopted
    assert not decide(set_of(False, False), set_of(True, False)).adopted
    broken = SetResult((result([E]),))
    decision = decide(broken, set_of(False))
    assert not decision.adopted
    assert "no verdict" in decision.reason


def test_the_best_round_is_that_of_validation_not_the_last_and_ties_go_to_the_earlier_one() -> None:
    def made(number: int, train: int, validation: int) -> Round:
        sets = [set_of(*[True] * count, *[False] * (4 - count)) for count in (train, validation)]
        return Round(number, f"description {number}", *sets)

    rounds = [made(0, 1, 2), made(1, 2, 3), made(2, 4, 3), made(3, 4, 1)]
    assert best_round(rounds).number == 1
    assert best_round([made(0, 0, 0), made(1, 4, 0)]).number == 0
    without = Round(4, "d", set_of(True), SetResult((result([E]),)))
    assert best_round([*rounds, without]).number == 1
