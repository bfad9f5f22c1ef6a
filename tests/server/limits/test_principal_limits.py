"""Rules of the limits for each principal: rates, requests in progress, and open sessions."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.limits.principal_limits import MAX_ACCOUNTS, LimitExceededError, LimitReason, OpenSessions, PrincipalLimits

ANNA, BEN = ("jwt", "anna"), ("jwt", "ben")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def is_admitted(limits: PrincipalLimits, principal: tuple[str, str] = ANNA) -> bool:
    try:
        with limits.admitted(principal):
            return True
    except LimitExceededError:
        return False


@given(
    rate=st.floats(0.1, 1000),
    burst=st.integers(1, 50),
    pauses=st.lists(st.floats(0, 10), max_size=200),
)
def test_no_more_is_admitted_than_the_burst_and_the_rate_allow(rate: float, burst: int, pauses: list[float]) -> None:
    clock = Clock()
    limits = PrincipalLimits(rate, burst, 0, clock)
    admitted = 0
    for pause in pauses:
        clock.now += pause
        admitted += is_admitted(limits)
    assert admitted <= burst + rate * sum(pauses) + 1e-6


@given(rate=st.floats(0.1, 1000), burst=st.integers(1, 50))
def test_a_refused_principal_is_admitted_after_the_seconds_that_it_was_told(rate: float, burst: int) -> None:
    clock = Clock()
    limits = PrincipalLimits(rate, burst, 0, clock)
    for _ in range(burst):
        assert is_admitted(limits)
    with pytest.raises(LimitExceededError) as refused, limits.admitted(ANNA):
        pass
    assert refused.value.limit is LimitReason.RATE
    clock.now += math.ceil(refused.value.seconds)
    assert is_admitted(limits)


@given(rate=st.floats(0.1, 100), pauses=st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_refusals_cost_nothing(rate: float, pauses: list[float]) -> None:
    clock = Clock()
    limits, other = PrincipalLimits(rate, 1, 0, clock), PrincipalLimits(rate, 1, 0, clock)
    assert is_admitted(limits)
    assert is_admitted(other)
    for pause in pauses:
        clock.now += pause / rate / len(pauses)
        is_admitted(limits)
    clock.now += 1.01 / rate
    assert is_admitted(limits)
    assert is_admitted(other)


def test_principals_do_not_share_a_limit() -> None:
    limits = PrincipalLimits(1, 1, 0, Clock())
    assert is_admitted(limits, ANNA)
    assert not is_admitted(limits, ANNA)
    assert is_admitted(limits, BEN)
    assert is_admitted(limits, ("token", "anna"))


def test_requests_in_progress_are_limited_until_one_ends() -> None:
    limits = PrincipalLimits(0, 1, 2, Clock())
    with ExitStack() as running:
        running.enter_context(limits.admitted(ANNA))
        with limits.admitted(ANNA):
            with pytest.raises(LimitExceededError) as refused, limits.admitted(ANNA):
                pass
            assert refused.value.limit is LimitReason.CONCURRENCY
        assert is_admitted(limits)


def test_a_request_that_fails_is_no_longer_in_progress() -> None:
    limits = PrincipalLimits(0, 1, 1, Clock())
    for _ in range(3):
        with pytest.raises(ValueError, match="fault"), limits.admitted(ANNA):
            raise ValueError("fault")
    assert is_admitted(limits)


def test_zero_means_no_limit() -> None:
    limits = PrincipalLimits(0, 1, 0, Clock())
    with ExitStack() as running:
        for _ in range(1000):
            running.enter_context(limits.admitted(ANNA))


def test_accounts_that_are_as_new_are_dropped() -> None:
    clock = Clock()
    limits = PrincipalLimits(1, 1, 1, clock)
    with limits.admitted(ANNA):
        for number in range(MAX_ACCOUNTS):
            is_admitted(limits, ("jwt", str(number)))
        clock.now += 1
        assert is_admitted(limits, BEN)
        assert len(limits._accounts) == 2
        assert not is_admitted(limits, ANNA)


def test_bodies_in_progress_are_limited_together_until_a_request_ends() -> None:
    limits = PrincipalLimits(0, 1, 0, Clock(), size=100)
    with limits.admitted(ANNA, 60) as first:
        with limits.admitted(ANNA, 40):
            with pytest.raises(LimitExceededError) as refused, limits.admitted(ANNA, 1):
                pass
            assert refused.value.limit is LimitReason.SIZE
            assert is_admitted(limits, BEN)
        first.resize(10)
        with limits.admitted(ANNA, 90), pytest.raises(LimitExceededError), limits.admitted(ANNA, 1):
            pass
    # Alone, a request may have the size that the server admits at all.
    with limits.admitted(ANNA, 1000):
        pass
    with limits.admitted(ANNA, 100):
        pass


IDLE = 60.0


def opens(sessions: OpenSessions, session: str, principal: tuple[str, str] = ANNA) -> bool:
    try:
        with sessions.opening(principal) as note:
            note(session)
    except LimitExceededError:
        return False
    return True


def test_principals_do_not_share_the_limit() -> None:
    sessions = OpenSessions(1, IDLE, Clock())
    assert opens(sessions, "a")
    assert not opens(sessions, "b")
    assert opens(sessions, "c", BEN)


def test_a_session_that_is_ended_or_idle_leaves_room() -> None:
    clock = Clock()
    sessions = OpenSessions(1, IDLE, clock)
    assert opens(sessions, "a")
    sessions.end(ANNA, "a")
    assert opens(sessions, "b")
    clock.now += IDLE
    assert opens(sessions, "c")


def test_a_session_is_not_idle_while_a_request_is_in_progress() -> None:
    clock = Clock()
    sessions = OpenSessions(1, IDLE, clock)
    assert opens(sessions, "a")
    with sessions.used(ANNA, "a"):
        clock.now += 10 * IDLE
        assert not opens(sessions, "b")
    clock.now += IDLE / 2
    assert not opens(sessions, "b")
    clock.now += IDLE / 2
    assert opens(sessions, "b")


def test_sessions_that_are_being_opened_count() -> None:
    sessions = OpenSessions(1, IDLE, Clock())
    with sessions.opening(ANNA):
        assert not opens(sessions, "a")
    # It was not opened after all.
    assert opens(sessions, "a")


def test_nobody_ends_or_keeps_the_session_of_another_principal() -> None:
    clock = Clock()
    sessions = OpenSessions(1, IDLE, clock)
    assert opens(sessions, "a")
    sessions.end(BEN, "a")
    assert not opens(sessions, "b")
    with sessions.used(BEN, "a"):
        clock.now += IDLE
        assert opens(sessions, "b")


def test_the_refusal_says_when_a_session_becomes_idle() -> None:
    clock = Clock()
    sessions = OpenSessions(2, IDLE, clock)
    assert opens(sessions, "a")
    clock.now += 20
    assert opens(sessions, "b")
    with pytest.raises(LimitExceededError) as refused, sessions.opening(ANNA):
        pass
    assert refused.value.limit is LimitReason.SESSIONS
    assert refused.value.seconds == IDLE - 20
    clock.now += refused.value.seconds
    assert opens(sessions, "c")


def test_zero_means_no_limit_of_sessions() -> None:
    sessions = OpenSessions(0, IDLE, Clock())
    assert all(opens(sessions, str(number)) for number in range(1000))
    assert len(sessions._accounts) == 0


@given(st.lists(st.tuples(st.sampled_from(["open", "end", "use", "wait"]), st.integers(0, 5)), max_size=60))
def test_there_are_never_more_sessions_than_the_limit_and_no_account_without_sessions(
    steps: list[tuple[str, int]],
) -> None:
    clock = Clock()
    sessions = OpenSessions(3, IDLE, clock)
    used: dict[str, float] = {}
    for step, number in steps:
        name = str(number)
        alive = {key for key, at in used.items() if clock.now - at < IDLE}
        if step == "open" and name not in used:
            assert opens(sessions, name) is (len(alive) < 3)
            if len(alive) < 3:
                used = {key: used[key] for key in alive} | {name: clock.now}
        elif step == "end":
            sessions.end(ANNA, name)
            used.pop(name, None)
        elif step == "use" and name in used:
            with sessions.used(ANNA, name):
                clock.now += 1
            used[name] = clock.now
        elif step == "wait":
            clock.now += 10 * number
    for name in list(used):
        sessions.end(ANNA, name)
    assert len(sessions._accounts) == 0
