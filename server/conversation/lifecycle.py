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

from collections.abc import Mapping
from enum import Enum


class ExchangeState(Enum):
    """What the work of an exchange does, and whether a request of its client is attached: see the table above."""

    UNATTENDED = "unattended"
    """The first state, and that of work which goes on by itself although its client has been asked something."""
    WORKING = "working"
    """A request waits for the outcome of the work."""
    ASKING = "asking"
    """The work needs input that only a further request can bring; the attached request is to be answered with it."""
    AWAITING_CLIENT = "awaiting client"
    """The client has been asked and holds a resume token; the deadline for its next request stops the work."""
    STOPPING = "stopping"
    """A request waits for the end of the work, which is being cancelled."""
    ABANDONED = "abandoned"
    """A request that comes back in time attaches, and waits for the end."""
    FINISHED = "finished"
    """The attached request is to be answered with the outcome."""
    UNCLAIMED = "unclaimed"
    """The outcome is kept until a request attaches, or it expires."""
    DELIVERED = "delivered"
    """A request was answered with the outcome."""
    DISCARDED = "discarded"
    """No request was answered with the outcome."""


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


MOVES: Mapping[ExchangeState, Mapping[Event, ExchangeState]] = {
    ExchangeState.UNATTENDED: {
        Event.ATTACH: ExchangeState.WORKING,
        Event.ASK: ExchangeState.AWAITING_CLIENT,
        Event.PROCEED: ExchangeState.UNATTENDED,
        Event.STOP: ExchangeState.ABANDONED,
        Event.FINISH: ExchangeState.UNCLAIMED,
    },
    ExchangeState.WORKING: {
        Event.DETACH: ExchangeState.UNATTENDED,
        Event.ASK: ExchangeState.ASKING,
        Event.PROCEED: ExchangeState.WORKING,
        Event.STOP: ExchangeState.STOPPING,
        Event.FINISH: ExchangeState.FINISHED,
    },
    ExchangeState.ASKING: {
        Event.DETACH: ExchangeState.AWAITING_CLIENT,
        Event.ASK: ExchangeState.ASKING,
        Event.PROCEED: ExchangeState.WORKING,
        Event.STOP: ExchangeState.STOPPING,
        Event.FINISH: ExchangeState.FINISHED,
    },
    ExchangeState.AWAITING_CLIENT: {
        Event.ATTACH: ExchangeState.ASKING,
        Event.ASK: ExchangeState.AWAITING_CLIENT,
        Event.PROCEED: ExchangeState.UNATTENDED,
        Event.STOP: ExchangeState.ABANDONED,
        Event.FINISH: ExchangeState.UNCLAIMED,
    },
    # While the work is cancelled it withdraws its questions, and whatever else stops it changes nothing.
    ExchangeState.STOPPING: {
        Event.DETACH: ExchangeState.ABANDONED,
        Event.ASK: ExchangeState.STOPPING,
        Event.PROCEED: ExchangeState.STOPPING,
        Event.STOP: ExchangeState.STOPPING,
        Event.FINISH: ExchangeState.FINISHED,
        Event.CANCELLED: ExchangeState.FINISHED,
    },
    ExchangeState.ABANDONED: {
        Event.ATTACH: ExchangeState.STOPPING,
        Event.ASK: ExchangeState.ABANDONED,
        Event.PROCEED: ExchangeState.ABANDONED,
        Event.STOP: ExchangeState.ABANDONED,
        Event.FINISH: ExchangeState.UNCLAIMED,
        Event.CANCELLED: ExchangeState.DISCARDED,
    },
    ExchangeState.FINISHED: {Event.DETACH: ExchangeState.DELIVERED},
    ExchangeState.UNCLAIMED: {Event.ATTACH: ExchangeState.FINISHED, Event.EXPIRE: ExchangeState.DISCARDED},
    ExchangeState.DELIVERED: {},
    ExchangeState.DISCARDED: {},
}

ENDED = frozenset(state for state, moves in MOVES.items() if not moves)
"""The states that nothing moves on."""

OVER = ENDED | {ExchangeState.FINISHED, ExchangeState.UNCLAIMED}
"""The states in which the work has ended."""

ATTACHED = frozenset(state for state, moves in MOVES.items() if Event.DETACH in moves)
"""The states in which a request is attached."""


def next_state(state: ExchangeState, event: Event) -> ExchangeState:
    """Return the state that `event` leads to.

    Raises:
        RuntimeError: the table has no such move, which is an error in the server.
    """
    try:
        return MOVES[state][event]
    except KeyError:
        raise RuntimeError(f"an exchange cannot {event.value} while it is {state.value}") from None
