"""What happens at a server, as events: activations, edits, denials, runs and whatever capabilities add.

The last events are kept, and new ones go to those who listen. An event is for people who watch a server: like a record,
from which most are made, it has names, decisions and figures, and never the texts of requests and results. What must
be complete belongs into the audit log, because a reader who is slow loses events, and nothing outlasts the server.
All of this belongs to the event loop of the server.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
from msgspec import Struct, structs

from server.access import PrincipalKind
from server.hosting.catalog_log import lines_of
from server.listing.tools import FIND
from server.requests import LOGIN_METHOD, OPENING_METHODS, RequestDecision, RequestReason, Use
from skills_core.diagnostics import one_line, shortened

if TYPE_CHECKING:
    from server.requests import RequestRecord
    from skills_core.live.library import Change

MAX_EVENTS: Final = 500
"""Most events that are kept, and most that wait for one reader."""

_MAX_CHANGES: Final = 50
# Events of one reload, which may change thousands of skills.

_MAX_LOOKED_AT: Final = 200
# Lines of one reload that are looked at; of more, one about trouble may be missed here, but not in the log.

_MAX_NAME: Final = 80
_MAX_TARGET: Final = 200
_MAX_TEXT: Final = 600
# Characters of names that clients chose, and of a line.


class ActivityKind(StrEnum):
    """The kinds of events that every server has; capabilities add their own."""

    CONNECTED = "connected"
    """A client began a conversation."""
    ACTIVATION = "activation"
    """A client got the instructions of a skill."""
    READ = "read"
    """A client read a file of a skill."""
    SEARCH = "search"
    RUN = "run"
    """A skill, or a script or a declared tool of it, ran here for a client."""
    DENIED = "denied"
    INVALID = "invalid"
    """A client asked for what does not exist, or in a wrong form."""
    FAILED = "failed"
    ADDED = "added"
    """A skill is new on the disk."""
    EDITED = "edited"
    REMOVED = "removed"


class ActivityEvent(Struct, frozen=True, kw_only=True):
    """Something that happened; the empty string stands for what does not apply.

    `number` counts the events of a server from 1, and `time` is in seconds since 1970. `text` is a line for people, who
    see time and client beside it; `is_trouble` tells that something was refused or does not work. `who` is the subject
    of the principal, unless that is the server's user.
    """

    number: int
    time: float
    kind: str
    text: str
    is_trouble: bool = False
    skill: str = ""
    target: str = ""
    tool: str = ""
    reason: str = ""
    who: str = ""
    client: str = ""
    address: str = ""
    milliseconds: float | None = None

    def as_object(self) -> dict[str, Any]:
        """Return the event as an object for JSON."""
        return {
            **structs.asdict(self),
            "time": datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds"),
        }


class News(NamedTuple):
    """New events for a reader, and how many older ones it has lost."""

    events: tuple[ActivityEvent, ...]
    missed: int


class Subscription:
    """The events for one reader. If it is slow, the oldest of them are lost."""

    def __init__(self) -> None:
        """Begin without any event."""
        self._waiting: deque[ActivityEvent] = deque(maxlen=MAX_EVENTS)
        self._missed = 0
        self._wake = anyio.Event()
        self._is_over = False

    def put(self, event: ActivityEvent) -> None:
        """Add an event."""
        self._missed += len(self._waiting) == MAX_EVENTS
        self._waiting.append(event)
        self._wake.set()

    def end(self) -> None:
        """End the subscription: there will be no more events."""
        self._is_over = True
        self._wake.set()

    async def next(self, seconds: float) -> News | None:
        """Wait for events, at most so long; return those that have come, None once the subscription is over."""
        with anyio.move_on_after(seconds):
            await self._wake.wait()
        if not self._is_over:
            self._wake = anyio.Event()
        elif not self._waiting:
            return None
        news = News((*self._waiting,), self._missed)
        self._waiting.clear()
        self._missed = 0
        return news


class _Kept(NamedTuple):
    """The request of an event, with the number and the time of the event."""

    number: int
    time: float
    request: RequestRecord


def _event_of(kept: ActivityEvent | _Kept) -> ActivityEvent:
    if isinstance(kept, ActivityEvent):
        return kept
    request, kind = kept.request, _kind_of(kept.request)
    name, version = request.client
    return ActivityEvent(
        number=kept.number,
        time=kept.time,
        kind=kind,
        text=one_line(_text_of(kind, request)),
        is_trouble=request.decision is not RequestDecision.ALLOWED,
        skill=request.skill,
        target=request.target[:_MAX_TARGET],
        tool=request.tool,
        reason=request.reason,
        who="" if request.principal.kind is PrincipalKind.LOCAL else request.principal.subject[:_MAX_NAME],
        client=f"{name[:_MAX_NAME]} {version[:_MAX_NAME]}".strip(),
        address=request.address,
        milliseconds=round(request.seconds * 1000, 1),
    )


class Activity:
    """The events of one server: the last `MAX_EVENTS`, and the subscriptions to new ones."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Begin without any event."""
        self._clock = clock
        self._kept: deque[ActivityEvent | _Kept] = deque(maxlen=MAX_EVENTS)
        self._last = 0
        self._subscriptions: set[Subscription] = set()
        self._is_over = False
        self.began = clock()
        self.id = os.urandom(6).hex()
        """Tells the numbers of this server from those of the one that ran before."""

    @property
    def events(self) -> tuple[ActivityEvent, ...]:
        """The last events, the oldest first."""
        return tuple(map(_event_of, self._kept))

    def add(self, kind: str, text: str, **about: Any) -> None:  # noqa: ANN401 - the further fields of an event
        """Add an event that happens now; `about` are further fields of it."""
        self._last += 1
        line = one_line(text[:_MAX_TEXT])
        self._keep(ActivityEvent(number=self._last, time=self._clock(), kind=kind, text=line, **about))

    def record(self, request: RequestRecord) -> None:
        """Add the event of a request, if people want to know of it; most requests only list."""
        # A request must not wait for what nobody may ever read, so its event is made when it is read.
        if not _is_told(request):
            return
        self._last += 1
        self._keep(_Kept(self._last, self._clock(), request))

    def _keep(self, event: ActivityEvent | _Kept) -> None:
        self._kept.append(event)
        for subscription in self._subscriptions:
            subscription.put(_event_of(event))

    def add_change(self, change: Change) -> None:
        """Add an event for each skill that a reload changed."""
        lines = sorted(islice(lines_of(change), _MAX_LOOKED_AT), key=lambda line: -line.level)
        added = {skill.identity for skill in change.added}
        removed = {skill.identity for skill in change.removed}
        for line in lines[:_MAX_CHANGES]:
            skill, kind = line.skill, ActivityKind.EDITED
            if skill.identity in added:
                kind = ActivityKind.ADDED
            elif skill.identity in removed:
                kind = ActivityKind.REMOVED
            self.add(kind, line.text, is_trouble=line.is_trouble, skill=skill.settings_key)
        if rest := max(len(lines), change.size if len(lines) == _MAX_LOOKED_AT else 0) - len(lines[:_MAX_CHANGES]):
            self.add(ActivityKind.EDITED, f"and {rest} more changes of skills")

    @contextmanager
    def subscribed(self, after: int = 0) -> Iterator[Subscription]:
        """Yield a subscription to the kept events whose number is higher than `after`, and to all that come."""
        subscription = Subscription()
        for event in self.events:
            if event.number > after:
                subscription.put(event)
        if self._is_over:
            subscription.end()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def end(self) -> None:
        """End all subscriptions, because the server stops."""
        self._is_over = True
        for subscription in self._subscriptions:
            subscription.end()


_KINDS: Final = {
    RequestDecision.DENIED: ActivityKind.DENIED,
    RequestDecision.INVALID: ActivityKind.INVALID,
    RequestDecision.FAILED: ActivityKind.FAILED,
}
_USES: Final = {Use.ACTIVATED: ActivityKind.ACTIVATION, Use.READ: ActivityKind.READ, Use.RAN: ActivityKind.RUN}

_ALLOWED: Final = RequestDecision.ALLOWED
# Members of an enum are looked up slowly.

_UNTOLD: Final = frozenset({RequestReason.CANCELLED, RequestReason.UNKNOWN_METHOD})
# Streams of events end so, and clients try methods that servers may lack.


def is_of_interest(use: Use | None, method: str, tool: str) -> bool:
    """Tell whether people who watch want to know of a request that is allowed; most requests only list."""
    return use is not None or method in OPENING_METHODS or tool == FIND


def _is_told(request: RequestRecord) -> bool:
    """Tell whether a request is an event."""
    if request.decision is _ALLOWED:
        return is_of_interest(request.use, request.method, request.tool)
    return request.use is not None or request.reason not in _UNTOLD


def _kind_of(request: RequestRecord) -> ActivityKind:
    if request.decision is not RequestDecision.ALLOWED:
        return _KINDS[request.decision]
    if request.use is not None:
        return _USES[request.use]
    return ActivityKind.CONNECTED if request.method in OPENING_METHODS else ActivityKind.SEARCH


def _text_of(kind: ActivityKind, request: RequestRecord) -> str:
    skill = request.skill
    if kind is ActivityKind.ACTIVATION:
        return f"{skill} activated{' as a prompt' if request.method == 'prompts/get' else ''}"
    if kind is ActivityKind.READ:
        what = shortened(request.target, _MAX_TARGET)
        return f"{skill}: {what} read" if what != skill else f"{skill}: a file read"
    if kind is ActivityKind.RUN:
        waits = ", and asks its user" if request.reason == RequestReason.INPUT_REQUIRED else ""
        return f"{skill} ran by {request.tool}{waits}"
    if kind is ActivityKind.CONNECTED:
        return "connected"
    if kind is ActivityKind.SEARCH:
        return f"searched, and found {', '.join(request.found[:5]) or 'nothing'}"
    what = "a login" if request.method == LOGIN_METHOD else request.tool or request.method
    target = f" of {shortened(request.target, _MAX_TARGET)}" if request.target else ""
    return f"{what}{target} {_SAID[kind]}: {request.reason.replace('_', ' ')}"


_SAID: Final = {
    ActivityKind.DENIED: "denied",
    ActivityKind.INVALID: "is not possible",
    ActivityKind.FAILED: "failed",
}
