"""The life of an exchange as a table: its states, the events that move it, and no I/O.

An exchange is the work of one tool call that may need input from its client. The work runs in a task of the server;
the client's requests attach to it and detach from it, one at a time. A state says what the work does (the row) and
whether a request is attached (the column)::

    The work            with a request          without one
    ------------------  ----------------------  ------------------------
    runs                WORKING      <------->  UNATTENDED   (start)
      | ASK   ^ PROCEED
    needs input         ASKING       <------->  AWAITING_CLIENT
      | STOP
    is being cancelled  STOPPING     <------->  ABANDONED
      | FINISH, CANCELLED
    is over             FINISHED     <--------  UNCLAIMED
                           | DETACH                | EXPIRE
                        DELIVERED               DISCARDED    (ends)

ATTACH and DETACH move between the columns, all other events down or up the rows. STOP and FINISH leave every row above
them. Work that was CANCELLED without a request to tell is discarded at once: it has no outcome to keep.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ATTACHED", "ENDED", "MOVES", "OVER", "Event", "IllegalMoveError", "State", "next_state"]


class State(Enum):
    """What the work of an exchange does, and whether a request of its client is attached."""

    UNATTENDED = "unattended"
    """The work runs and no request is attached.

    The first state, and that of work which goes on by itself although its client has been asked something. The client
    attaches a request; the work asks or ends; the deadline for the next request stops it.
    """

    WORKING = "working"
    """The work runs and a request waits for its outcome.

    The work asks or ends; the request detaches when the client cancels it.
    """

    ASKING = "asking"
    """The work needs input that only a further request can bring; the attached request is to be answered with it.

    The request detaches with that response; before, the work may withdraw its questions or end.
    """

    AWAITING_CLIENT = "awaiting client"
    """The client has been asked and holds a resume token; no request is attached.

    The client answers and attaches the next request; the work may withdraw its questions or end; the deadline for the
    next request stops it.
    """

    STOPPING = "stopping"
    """The work is being cancelled and a request waits for the end.

    The work ends, or the request detaches.
    """

    ABANDONED = "abandoned"
    """The work is being cancelled and no request is attached.

    The work ends; a request that comes back in time attaches and waits for that.
    """

    FINISHED = "finished"
    """The work is over and the attached request is to be answered with its outcome.

    The request detaches.
    """

    UNCLAIMED = "unclaimed"
    """The work is over, its outcome is kept, and no request has come for it.

    A request attaches, or the outcome expires.
    """

    DELIVERED = "delivered"
    """A request was answered with the outcome. An end: nothing moves it on."""

    DISCARDED = "discarded"
    """The work is over and no request was answered with its outcome. An end: nothing moves it on."""


class Event(Enum):
    """What moves an exchange from one state to another."""

    ATTACH = "attach"
    """A request of the client begins to wait for its response."""
    DETACH = "detach"
    """That request is answered or was cancelled."""
    ASK = "ask"
    """The work needs input that only a further request can bring."""
    PROCEED = "proceed"
    """The work needs no such input, because it was answered or withdrawn."""
    STOP = "stop"
    """The work is to be cancelled: by the client, by the server or by a deadline."""
    FINISH = "finish"
    """The work has returned or raised."""
    CANCELLED = "cancelled"
    """The work has ended by cancellation."""
    EXPIRE = "expire"
    """No request came for the outcome in time."""


MOVES: Mapping[State, Mapping[Event, State]] = {
    State.UNATTENDED: {
        Event.ATTACH: State.WORKING,
        Event.ASK: State.AWAITING_CLIENT,
        Event.PROCEED: State.UNATTENDED,
        Event.STOP: State.ABANDONED,
        Event.FINISH: State.UNCLAIMED,
    },
    State.WORKING: {
        Event.DETACH: State.UNATTENDED,
        Event.ASK: State.ASKING,
        Event.PROCEED: State.WORKING,
        Event.STOP: State.STOPPING,
        Event.FINISH: State.FINISHED,
    },
    State.ASKING: {
        Event.DETACH: State.AWAITING_CLIENT,
        Event.ASK: State.ASKING,
        Event.PROCEED: State.WORKING,
        Event.STOP: State.STOPPING,
        Event.FINISH: State.FINISHED,
    },
    State.AWAITING_CLIENT: {
        Event.ATTACH: State.ASKING,
        Event.ASK: State.AWAITING_CLIENT,
        Event.PROCEED: State.UNATTENDED,
        Event.STOP: State.ABANDONED,
        Event.FINISH: State.UNCLAIMED,
    },
    # While the work is cancelled it withdraws its questions, and whatever else stops it changes nothing.
    State.STOPPING: {
        Event.DETACH: State.ABANDONED,
        Event.ASK: State.STOPPING,
        Event.PROCEED: State.STOPPING,
        Event.STOP: State.STOPPING,
        Event.FINISH: State.FINISHED,
        Event.CANCELLED: State.FINISHED,
    },
    State.ABANDONED: {
        Event.ATTACH: State.STOPPING,
        Event.ASK: State.ABANDONED,
        Event.PROCEED: State.ABANDONED,
        Event.STOP: State.ABANDONED,
        Event.FINISH: State.UNCLAIMED,
        Event.CANCELLED: State.DISCARDED,
    },
    State.FINISHED: {Event.DETACH: State.DELIVERED},
    State.UNCLAIMED: {Event.ATTACH: State.FINISHED, Event.EXPIRE: State.DISCARDED},
    State.DELIVERED: {},
    State.DISCARDED: {},
}

ENDED = frozenset(state for state, moves in MOVES.items() if not moves)
"""The states that nothing moves on."""

OVER = ENDED | {State.FINISHED, State.UNCLAIMED}
"""The states in which the work has ended."""

ATTACHED = frozenset(state for state, moves in MOVES.items() if Event.DETACH in moves)
"""The states in which a request is attached."""


class IllegalMoveError(RuntimeError):
    """An event came that the table has no move for: an error in the server."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"an exchange cannot {event.value} while it is {state.value}")
        self.state = state
        self.event = event


def next_state(state: State, event: Event) -> State:
    """Return the state that `event` leads to.

    Raises:
        IllegalMoveError: the table has no such move.
    """
    try:
        return MOVES[state][event]
    except KeyError:
        raise IllegalMoveError(state, event) from None
