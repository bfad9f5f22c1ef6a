"""How the events of a view reach many clients: one record for all, paced wake-ups, and frames that are encoded once.

The events of a view are recorded once, with numbers, whoever listens. A listener knows the number of the last event
that was sent to it, so nothing is buffered for a client: one that reads slowly delays no other, and receives what it
missed when it reads on, each event once.

A reload makes all listeners due in the same moment. If they were woken together, a thousand clients would keep requests
waiting for a fifth of a second. So `Pacer` wakes a few at a time, with pauses in which requests are served. A listener
that is woken sends all events that it has missed in one write.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import mcp_types as types
from mcp.server.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.hosting.views import ViewName

MAX_EVENTS = 4_000
"""Most events that are remembered; a client that missed more is notified of everything that it listens to."""

_LISTS: Final[tuple[ServerEvent, ...]] = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())

AT_ONCE: Final = 16
PAUSE_SECONDS: Final = 0.004
"""So many listeners are woken at once, and then there is a pause: a thousand are notified within .3 s."""

_MAX_FRAMES: Final = 2048
# Most events whose frames are kept, for all clients that are still to be notified.

NumberedEvent: TypeAlias = tuple[int, ServerEvent]
"""An event, and its number in the record of its view."""


class RecentEvents:
    """Events in the order of their last occurrence."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[ServerEvent, int] = OrderedDict()
        self._forgotten = 0
        self.last = 0

    def add(self, event: ServerEvent) -> None:
        """Record an event; its number is `last`."""
        self.last += 1
        self._numbers[event] = self.last
        self._numbers.move_to_end(event)
        if len(self._numbers) > MAX_EVENTS:
            _, self._forgotten = self._numbers.popitem(last=False)

    def since(self, number: int, subscriptions: AbstractSet[str]) -> list[NumberedEvent]:
        """Return the events after event `number`; those of resources only if they are in `subscriptions`."""
        if number < self._forgotten:
            return [(self.last, event) for event in (*_LISTS, *map(ResourceUpdated, sorted(subscriptions)))]
        if len(subscriptions) + len(_LISTS) < self.last - number:
            # After a change of very many files, for each client only what it listens to.
            found = ((self._numbers.get(each, 0), each) for each in (*_LISTS, *map(ResourceUpdated, subscriptions)))
            return sorted((each for each in found if each[0] > number), key=lambda each: each[0])
        missed: list[NumberedEvent] = []
        for event, happened in reversed(self._numbers.items()):
            if happened <= number:
                break
            if not isinstance(event, ResourceUpdated) or event.uri in subscriptions:
                missed.append((happened, event))
        return missed[::-1]


@dataclass(eq=False, slots=True)
class Listener:
    """Something that sends events to one client while it can; `is_due` tells that it has been woken."""

    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_due(self) -> bool:
        """Whether it was woken and has not gone on yet."""
        return self._wake.is_set()

    def wake(self) -> None:
        """Let it go on."""
        self._wake.set()

    async def until_woken(self) -> None:
        """Wait until it is woken."""
        await self._wake.wait()
        self._wake.clear()


class Pacer:
    """Wakes listeners, a few at a time."""

    def __init__(self) -> None:
        self._due: dict[Listener, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, listeners: Iterable[Listener]) -> None:
        """Wake listeners soon, each once, and after those that are due already."""
        self._due.update(dict.fromkeys(listeners))
        if self._timer is None:
            self._step()

    def discard(self, listener: Listener) -> None:
        """Do not wake a listener whose client has left."""
        self._due.pop(listener, None)

    def _step(self) -> None:
        for listener in [*islice(self._due, AT_ONCE)]:
            del self._due[listener]
            listener.wake()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._step) if self._due else None


@dataclass(eq=False, slots=True)
class EventRecord:
    """The recent events of one view, kept while clients listen to the view; `end` ends the recording.

    `users` counts who needs the record; `listeners` are those who can be notified at present.
    """

    view: ViewName
    recent: RecentEvents
    end: Callable[[], None] = lambda: None
    users: int = 0
    listeners: dict[Listener, None] = field(default_factory=dict)
    is_due: bool = False


class EventRecords:
    """The records of all views of a host that clients listen to."""

    def __init__(self, host: Host) -> None:
        """Record the feeds of `host`, each while it is needed."""
        self._host = host
        self._records: dict[ViewName, EventRecord] = {}
        self._pacer = Pacer()

    @contextmanager
    def of(self, view: ViewName) -> Iterator[EventRecord]:
        """Record the events of a view within this context, in one record for all clients with the view."""
        record = self.take(view)
        try:
            yield record
        finally:
            self.release(record)

    def take(self, view: ViewName) -> EventRecord:
        """Record the events of a view until the record is released as often as it was taken."""
        record = self._records.get(view)
        if record is None:
            record = self._records[view] = EventRecord(view, RecentEvents())
            record.end = self._host.feed(view).subscribe(partial(self._on_event, record))
        record.users += 1
        return record

    def release(self, record: EventRecord) -> None:
        """Give a record back; the recording ends with its last user."""
        record.users -= 1
        if not record.users:
            record.end()
            del self._records[record.view]

    @contextmanager
    def notified(self, record: EventRecord, listener: Listener) -> Iterator[None]:
        """Wake a listener within this context for each change of a record, and at once for what it missed."""
        record.listeners[listener] = None
        listener.wake()
        try:
            yield
        finally:
            del record.listeners[listener]
            self._pacer.discard(listener)

    def _on_event(self, record: EventRecord, event: ServerEvent) -> None:
        record.recent.add(event)
        if not record.is_due:
            # The events of a reload follow at once, and are sent together.
            record.is_due = True
            asyncio.get_running_loop().call_soon(self._announce, record)

    def _announce(self, record: EventRecord) -> None:
        record.is_due = False
        self._pacer.add(record.listeners)


Send: TypeAlias = Callable[[Sequence[NumberedEvent]], Awaitable[None]]
"""How events go to one client: together, in their order."""


def notification_of(event: ServerEvent) -> types.ServerNotification:
    """Return the notification of an event."""
    if isinstance(event, ToolsListChanged):
        return types.ToolListChangedNotification()
    if isinstance(event, PromptsListChanged):
        return types.PromptListChangedNotification()
    if isinstance(event, ResourcesListChanged):
        return types.ResourceListChangedNotification()
    return types.ResourceUpdatedNotification(params=types.ResourceUpdatedNotificationParams(uri=event.uri))


def handshake_frames(events: Iterable[NumberedEvent]) -> bytes:
    """Return the frames of notifications on an event stream, whose ids are the numbers of the events."""
    return b"".join([b"id: %d\r\n%s" % (number, _frame(event)) for number, event in events])


def modern_frames(events: Iterable[NumberedEvent], subscription: str | int) -> bytes:
    """Return the frames of notifications on a stream of the modern era, where they have the id of the stream."""
    named = json.dumps(subscription).encode()
    return b"".join([named.join(_frame_around_id(event)) for _, event in events])


@lru_cache(_MAX_FRAMES)
def _frame(event: ServerEvent) -> bytes:
    return _encoded(notification_of(event).model_dump(by_alias=True, mode="json", exclude_none=True))


@lru_cache(_MAX_FRAMES)
def _frame_around_id(event: ServerEvent) -> tuple[bytes, bytes]:
    """Return what comes before and after the id of a stream, which is the last value of the message."""
    message = notification_of(event).model_dump(by_alias=True, mode="json", exclude_none=True)
    message["params"] = {**message.get("params", {}), "_meta": {SUBSCRIPTION_ID_META_KEY: None}}
    before, _, after = _encoded(message).rpartition(b"null")
    return before, after


def _encoded(message: dict[str, object]) -> bytes:
    text = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
    return f"event: message\r\ndata: {text}\r\n\r\n".encode()
