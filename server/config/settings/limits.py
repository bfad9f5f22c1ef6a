"""Limits of what one principal may ask of a server over HTTP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class LimitSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of requests over HTTP. All but the last four hold for each principal, and need a login (`[login]`)."""

    requests_per_second: Annotated[float, Meta(ge=0, le=100_000)] = 100.0
    """Requests a second that a principal may send for long. One that keeps the server busy for more than 50
    milliseconds, or is larger than 64 KiB, counts as several. With 0 there is no limit."""
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5000
    """Requests that a principal may send at once after a pause. Clients that read a whole library need one for each
    file."""
    concurrent_requests: Annotated[int, Meta(ge=0, le=1_000_000)] = 256
    """Requests in progress that a principal may have, with its open event streams. With 0 there is no limit."""
    bytes_in_progress: Annotated[int, Meta(ge=0, le=68_719_476_736)] = 16_777_216
    """Bytes of the bodies of all requests in progress that a principal may have, with those that opened event streams.
    A single request may be larger. With 0 there is no limit."""
    sessions: Annotated[int, Meta(ge=0, le=10_000)] = 200
    """Sessions of the handshake era that a principal may have open. With 0 there is no limit but that of the server,
    10,000."""
    runs: Annotated[int, Meta(ge=0, le=1_000)] = 16
    """Runs and other calls that converse with their client, such as scripts, that a principal may have at a time, those
    that wait for an answer of the client included. With 0 there is no limit but that of the server, 64."""
    event_streams: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Streams of events (`subscriptions/listen`) that all clients together may have open, with and without a login. At
    most half of the descriptors of the process are used for them over HTTP; the server raises its limit as far as the
    system lets it, up to 65,536."""
    request_bytes: Annotated[int, Meta(ge=1024, le=1_073_741_824)] = 1_048_576
    """Most bytes of the body of a request, with and without a login. Only texts that clients pass on need more than
    some kilobytes. The `stdin` of a script may have a million characters, which take up to six times as many bytes."""
    request_values: Annotated[int, Meta(ge=0, le=100_000_000)] = 10_000
    """Most objects, items and fields in the body of a request, with and without a login. They, not bytes, are what a
    body costs. With 0 there is no limit."""
    receive_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 20.0
    """Seconds in which the head of a request must be complete, and then its body, with and without a login. The server
    closes slower connections. With 0 there is no limit."""
