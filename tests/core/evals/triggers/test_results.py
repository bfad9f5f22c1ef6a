"""Outcomes of runs, and results of queries, sets and rounds."""

from __future__ import annotations

import itertools

import pytest

from skills_core.evals.agents.kind import AgentRun, Transcript
from skills_core.evals.triggers.queries import Query
from skills_core.evals.triggers.results import (
    Outcome,
    QueryResult,
    Round,
    SetResult,
    best_round,
    compare,
    decide,
    is_decided,
    is_settled,
    outcome_of,
    query_result,
    runs_needed,
)

L, N, D, E, T = Outcome.LOADED, Outcome.NOT_LOADED, Outcome.DENIED, Outcome.ERROR, Outcome.TIMEOUT


def result(outcomes: list[Outcome], *, should: bool = True, number: int = 1, threshold: float = 0.5) -> QueryResult:
    return query_result(Query(f"query {number}", should, str(number)), outcomes, threshold)


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
    assert runs_needed(three.rate, 0.5) == 4
    assert runs_needed(result([L] * 4).rate, 0.5) is None
    assert runs_needed(result([L, N]).rate, 0.5) is None  # no number of runs tells a rate from itself
    assert runs_needed(result([E]).rate, 0.5) is None


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
    assert (found.specificity.count, found.specificity.total) == (2, 3)


def test_a_comparison_without_six_discordant_queries_has_no_verdict_but_says_how_many_it_takes() -> None:
    few = compare(set_of(*[True] * 5, False), set_of(*[False] * 5, False))
    assert (few["wins"], few["losses"], few["verdict"]) == (5, 0, "no verdict")
    assert few["queries_needed"]
    many = compare(set_of(*[True] * 6), set_of(*[False] * 6))
    assert (many["verdict"], many["queries_needed"]) == ("better", None)
    assert compare(set_of(*[False] * 6), set_of(*[True] * 6))["verdict"] == "worse"
    assert compare(set_of(True), set_of(True))["queries_needed"] is None


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


SKILL = "tide-tables"
DONE = Transcript(recognized=True, finished=True)


def outcome(
    transcript: Transcript, *, exit_code: int | None = 0, timed_out: bool = False, installed: bool = True
) -> Outcome:
    run = AgentRun(transcript=transcript, exit_code=exit_code, timed_out=timed_out)
    return outcome_of(run, SKILL, installed=installed)[0]


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        (DONE, Outcome.NOT_LOADED),
        (Transcript(recognized=True, loaded=("tide-tables-2", "other")), Outcome.NOT_LOADED),
        (Transcript(recognized=True, loaded=("other", SKILL)), Outcome.LOADED),
        (Transcript(recognized=True, loaded=(SKILL,), is_error=True, error="later"), Outcome.LOADED),
        (Transcript(recognized=True, denied=(SKILL,)), Outcome.DENIED),
        (Transcript(recognized=True, denied=("*",)), Outcome.DENIED),
        (Transcript(recognized=True, denied=("other",)), Outcome.NOT_LOADED),
        (Transcript(recognized=True, failed={SKILL: "no rg"}), Outcome.ERROR),
        (Transcript(recognized=True, failed={"other": ""}), Outcome.NOT_LOADED),
        (Transcript(recognized=True, is_error=True, error="401"), Outcome.ERROR),
        (Transcript(), Outcome.ERROR),
        (Transcript(recognized=True, available=("other",)), Outcome.ERROR),
        (Transcript(recognized=True, available=(SKILL, SKILL)), Outcome.ERROR),
        (Transcript(recognized=True, available=(SKILL,)), Outcome.NOT_LOADED),
    ],
)
def test_the_record_of_the_agent_decides(transcript: Transcript, expected: Outcome) -> None:
    assert outcome(transcript) is expected


def test_a_run_that_failed_or_took_too_long_does_not_say_that_the_skill_was_not_loaded() -> None:
    assert outcome(DONE, exit_code=1) is Outcome.ERROR
    assert outcome(DONE, timed_out=True) is Outcome.TIMEOUT
    assert outcome(Transcript(), timed_out=True, exit_code=None) is Outcome.TIMEOUT


def test_a_run_that_was_ended_early_has_no_exit_code_and_counts() -> None:
    assert outcome(Transcript(recognized=True, tool_calls=20), exit_code=None) is Outcome.NOT_LOADED


def test_an_agent_that_has_the_skill_from_a_server_does_not_list_it() -> None:
    assert outcome(Transcript(recognized=True, available=("other",)), installed=False) is Outcome.NOT_LOADED


def test_an_outcome_is_clear_when_the_skill_is_loaded_the_run_failed_or_the_agent_works_without_it() -> None:
    assert is_decided(Transcript(loaded=(SKILL,)), SKILL, 5)
    assert is_decided(Transcript(is_error=True), SKILL, 5)
    assert is_decided(Transcript(tool_calls=5), SKILL, 5)
    assert not is_decided(Transcript(tool_calls=4, loaded=("other",)), SKILL, 5)
