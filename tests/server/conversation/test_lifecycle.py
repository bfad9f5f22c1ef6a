"""The table of states and moves says all that may happen to an exchange, and every path through it ends."""

from __future__ import annotations

import ast
from enum import Enum
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.conversation import lifecycle
from server.conversation.lifecycle import (
    ATTACHED,
    ENDED,
    MOVES,
    OVER,
    Event,
    ExchangeState,
    next_state,
)

each_state = pytest.mark.parametrize("state", ExchangeState, ids=lambda state: state.name)


def reachable_from(state: ExchangeState) -> set[ExchangeState]:
    found, following = {state}, [state]
    while following:
        new = set(MOVES[following.pop()].values()) - found
        found |= new
        following += new
    return found


def test_every_state_can_be_reached_from_the_first() -> None:
    assert reachable_from(ExchangeState.UNATTENDED) == set(ExchangeState) == set(MOVES)


@each_state
def test_from_every_state_an_end_can_be_reached(state: ExchangeState) -> None:
    assert reachable_from(state) & ENDED


def test_only_the_two_ends_have_no_moves() -> None:
    assert {ExchangeState.DELIVERED, ExchangeState.DISCARDED} == ENDED


@each_state
def test_work_can_be_stopped_and_can_finish_until_it_is_over(state: ExchangeState) -> None:
    assert (Event.STOP in MOVES[state]) == (Event.FINISH in MOVES[state]) == (state not in OVER)
    if state not in OVER:
        assert next_state(state, Event.FINISH) in OVER
        assert next_state(next_state(state, Event.STOP), Event.CANCELLED) in OVER


@each_state
def test_a_request_attaches_where_none_is_and_detaches_where_one_is(state: ExchangeState) -> None:
    assert (Event.DETACH in MOVES[state]) == (state in ATTACHED)
    assert (Event.ATTACH in MOVES[state]) == (state not in ATTACHED | ENDED)
    if state not in ATTACHED | OVER:
        assert next_state(next_state(state, Event.ATTACH), Event.DETACH) is state


@each_state
def test_only_requests_attach_and_detach(state: ExchangeState) -> None:
    for event, target in MOVES[state].items():
        if event not in {Event.ATTACH, Event.DETACH} and target not in ENDED:
            assert (target in ATTACHED) == (state in ATTACHED)


@given(st.lists(st.sampled_from(Event)))
def test_any_events_lead_along_the_table_or_are_refused_with_state_and_event(events: list[Event]) -> None:
    state = ExchangeState.UNATTENDED
    for event in events:
        if event in MOVES[state]:
            state = next_state(state, event)
            assert state in MOVES
        else:
            with pytest.raises(RuntimeError, match=f"^an exchange cannot {event.value} while it is {state.value}$"):
                next_state(state, event)


@pytest.mark.parametrize("members", [ExchangeState, Event], ids=lambda members: members.__name__)
def test_every_state_and_every_event_is_described(members: type[Enum]) -> None:
    tree = ast.parse(Path(lifecycle.__file__).read_text(encoding="utf-8"))
    (defined,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == members.__name__)
    lines = defined.body[1:]
    described = {
        line.targets[0].id
        for line, after in pairwise(lines)
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and isinstance(after, ast.Expr)
    }
    assert described == set(members.__members__)
