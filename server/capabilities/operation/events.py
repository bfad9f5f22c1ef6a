"""The stream of a server's events at `GET /admin/events`: server-sent events with a JSON object each.

First comes `server`, which says what server it is, then an `activity` for each event: those that are kept, and new ones
as they happen. `missed` has the number of events that a slow reader has lost. `server` is repeated regularly, so that
a reader notices a server that is gone, and the server a reader that is gone. `end` is sent before the server stops. A
reader that takes nothing, such as a program that is paused, holds one connection and the events that wait for it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
from starlette.responses import StreamingResponse

from server import __version__
from server.hosting.catalog_log import served_from
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from starlette.requests import Request

    from server.capability import Coming
    from server.hosting.activity import ActivityEvent
    from server.hosting.host import Host

BEAT_SECONDS: Final = 10.0
"""Seconds between two events `server`, by which each side notices that the other one is gone."""

_MAX_COMING: Final = 5

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def events_response(host: Host, request: Request) -> StreamingResponse:
    """Return the stream of all events of `host`; `Last-Event-ID` names the last one that the reader has."""
    origin, _, number = request.headers.get("last-event-id", "").rpartition("-")
    after = int(number) if origin == host.activity.id and number.isdecimal() and len(number) < 20 else 0  # noqa: PLR2004
    return StreamingResponse(_events(host, after), media_type="text/event-stream", headers=_HEADERS)


async def _events(host: Host, after: int) -> AsyncGenerator[str]:
    with host.activity.subscribed(after) as subscription:
        yield _encoded("server", await server_object(host))
        beat = time.monotonic() + BEAT_SECONDS
        while (news := await subscription.next(max(0.0, beat - time.monotonic()))) is not None:
            if news.missed:
                yield _encoded("missed", {"count": news.missed})
            for event in news.events:
                yield _activity(host, event)
            if time.monotonic() >= beat:
                yield _encoded("server", await server_object(host))
                beat = time.monotonic() + BEAT_SECONDS
        yield _encoded("end", {})


async def server_object(host: Host) -> dict[str, Any]:
    """Return what a server is and what it will do by itself next, as an object for JSON."""
    coming = await anyio.to_thread.run_sync(_coming, host)
    return {
        "version": __version__,
        "pid": os.getpid(),
        "transport": host.settings.server.transport.value,
        "began": round(host.activity.began, 3),
        "skills": len(host.everything.active),
        "folders": one_line(served_from(host.library)),
        "coming": [{"time": each.time.isoformat(), "what": one_line(each.what)} for each in coming],
    }


def _coming(host: Host) -> list[Coming]:
    found: Iterable[Coming] = (each for part in (*host.parts, *host.http_parts) for each in part.coming())
    return sorted(found, key=lambda each: each.time)[:_MAX_COMING]


def _activity(host: Host, event: ActivityEvent) -> str:
    return f"id: {host.activity.id}-{event.number}\n{_encoded('activity', event.as_object())}"


def _encoded(event: str, data: dict[str, Any]) -> str:
    # JSON in ASCII has no character that ends a line, nor one that a terminal obeys.
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"
