"""A link over streamable HTTP: a persistent connection for requests, and another for the event stream.

It uses a plain socket (`http_wire`) with one send for each request, to keep the client's share of a timing small.
"""

from __future__ import annotations

import json
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from http_wire import Connection, sse_messages
from processes import GRACE, HOST
from wire import Answer, BenchError, Era, Event, Message, encode

if TYPE_CHECKING:
    from processes import Process

POLL = 0.002
# uvicorn closes connections after 5 s of idling; reconnect earlier, outside of the timing.
IDLE = 2.0
ACCEPTED = range(200, 300)
MIRRORED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class HttpLink:
    """A connection to a server on a loopback port, at the path `/mcp`."""

    def __init__(self, process: Process, port: int, era: Era, start_timeout: float, token: str = "") -> None:
        """Connect, as the user of a `token` if there is one."""
        self._port = port
        self._era = era
        self._token = token
        self._session: str | None = None
        self._stream: Connection | None = None
        self._reader: threading.Thread | None = None
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._requests = self._first_connection(process, start_timeout)
        self._used = time.perf_counter()

    @property
    def session(self) -> str | None:
        """The session of the handshake era, once it is open."""
        return self._session

    def exchange(self, message: Message, timeout: float) -> Answer:
        """Post a request and read its whole answer, which is JSON or an event stream."""
        if time.perf_counter() - self._used > IDLE:
            self._requests.close()
            self._requests = Connection(HOST, self._port)
        self._requests.timeout(timeout)
        body, headers = encode(message), self._headers(message)
        start = time.perf_counter()
        self._requests.send("POST", headers, body)
        status, answered = self._requests.head()
        raw = self._requests.body(answered)
        self._used = time.perf_counter()
        self._session = answered.get("mcp-session-id", self._session)
        reply = self._reply(status, answered, raw) if raw or status not in ACCEPTED else {}
        return Answer(start, self._used, reply, len(raw))

    def notify(self, message: Message) -> None:
        """Post a notification; the answer is only a status."""
        self.exchange(message, GRACE)

    def listen(self, message: Message | None) -> None:
        """Open a second connection for an endless event stream: by GET, or by POST in the modern era."""
        stream = self._stream = Connection(HOST, self._port)
        headers = self._headers(message)
        if message is None:
            headers["Accept"] = "text/event-stream"
        stream.send("GET" if message is None else "POST", headers, b"" if message is None else encode(message))
        status, answered = stream.head()
        if status not in ACCEPTED or not answered.get("content-type", "").startswith("text/event-stream"):
            raise BenchError(f"expected an event stream, got HTTP {status}")
        stream.timeout(None)
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._reader.start()

    def next_event(self, timeout: float) -> Event | None:
        """Remove and return the oldest event, or wait for one."""
        try:
            return self._events.get(timeout=max(timeout, 0))
        except Empty:
            return None

    def close(self) -> None:
        """Close both connections, so that a server that drains them can stop."""
        self._requests.close()
        if self._stream is not None:
            self._stream.close()
        if self._reader is not None:
            self._reader.join(GRACE)

    def _first_connection(self, process: Process, timeout: float) -> Connection:
        end = time.perf_counter() + timeout
        while process.poll() is None and time.perf_counter() < end:
            try:
                return Connection(HOST, self._port)
            except OSError:
                time.sleep(POLL)
        raise BenchError("the server did not start to listen")

    def _headers(self, message: Message | None) -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._session is not None:
            headers["Mcp-Session-Id"] = self._session
        if self._era is Era.MODERN and message is not None:
            headers["Mcp-Method"] = message["method"]
            if key := MIRRORED.get(message["method"]):
                headers["Mcp-Name"] = message["params"][key]
        if self._era is Era.MODERN or self._session is not None:
            headers["MCP-Protocol-Version"] = self._era.protocol
        return headers

    def _reply(self, status: int, headers: dict[str, str], raw: bytes) -> Message:
        at = time.perf_counter()
        is_stream = headers.get("content-type", "").startswith("text/event-stream")
        try:
            messages = sse_messages(raw) if is_stream else [json.loads(raw)]
        except ValueError:
            raise BenchError(f"HTTP {status}: {raw[:200]!r}") from None
        for message in messages:
            if "method" in message:
                self._events.put(Event(at, message))
        return next((message for message in messages if "method" not in message), {})

    def _read(self, stream: Connection) -> None:
        pending = b""
        for chunk in stream.chunks():
            at = time.perf_counter()
            whole, mark, pending = (pending + chunk).replace(b"\r\n", b"\n").rpartition(b"\n\n")
            for message in sse_messages(whole + mark):
                self._events.put(Event(at, message))
