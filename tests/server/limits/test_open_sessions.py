"""Rules of the sessions of the handshake era that a principal may have open."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.limits.principal_limits import LimitExceededError, LimitReason, OpenSessions

ANNA, BEN = ("jwt", "anna"), ("jwt", "ben")
IDLE = 60.0


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


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


def test_zero_means_no_limit() -> None:
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
