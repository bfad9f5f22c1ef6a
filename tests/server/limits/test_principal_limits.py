"""Rules of the accounts: what is admitted, what is refused, and what is forgotten."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.limits.principal_limits import MAX_ACCOUNTS, LimitExceededError, LimitReason, PrincipalLimits

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
