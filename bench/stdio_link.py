"""A link over a child's pipes: one JSON-RPC message for each line.

A thread reads the lines, so that each gets the time of its last byte, and waits have a timeout on every operating
system. While the thread waits for bytes and the caller for a line, neither blocks the other.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from processes import GRACE
from wire import Answer, BenchError, Event, Message, encode

if TYPE_CHECKING:
    from processes import Process

CHUNK = 1 << 20


class StdioLink:
    """A connection to a server that has pipes as its stdin and stdout."""

    def __init__(self, process: Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise BenchError("the server was started without pipes")
        self._stdin = process.stdin
        self._source = process.stdout.fileno()
        self._lines: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        self._events: deque[Event] = deque()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def exchange(self, message: Message, timeout: float) -> Answer:
        """Send a request and wait for its reply; JSON is encoded before and parsed after the timing."""
        line = encode(message) + b"\n"
        start = time.perf_counter()
        self._write(line)
        while True:
            at, raw = self._next_line(start + timeout - time.perf_counter())
            reply = json.loads(raw)
            if "method" not in reply and reply.get("id") == message["id"]:
                return Answer(start, at, reply, len(raw))
            self._events.append(Event(at, reply))

    def notify(self, message: Message) -> None:
        """Send a notification."""
        self._write(encode(message) + b"\n")

    def listen(self, message: Message | None) -> None:
        """Send the request whose answer is a stream; the pipe itself carries the events."""
        if message is not None:
            self.notify(message)

    def next_event(self, timeout: float) -> Event | None:
        """Remove and return the oldest event, or wait for one."""
        if self._events:
            return self._events.popleft()
        try:
            at, raw = self._next_line(timeout)
        except TimeoutError:
            return None
        return Event(at, json.loads(raw))

    def close(self) -> None:
        """Close the server's stdin, which stops it, and wait for the end of its output."""
        with suppress(OSError):
            self._stdin.close()
        self._reader.join(GRACE)

    def _write(self, data: bytes) -> None:
        try:
            self._stdin.write(data)
        except OSError as error:
            raise BenchError(f"the server closed its stdin: {error}") from error

    def _next_line(self, timeout: float) -> tuple[float, bytes]:
        try:
            at, raw = self._lines.get(timeout=max(timeout, 0))
        except Empty:
            raise TimeoutError("no message from the server in time") from None
        if not raw:
            raise BenchError("the server closed its stdout")
        return at, raw

    def _read(self) -> None:
        parts: list[bytes] = []
        while chunk := os.read(self._source, CHUNK):
            at = time.perf_counter()
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                self._lines.put((at, b"".join((*parts, end))))
                parts.clear()
            if rest:
                parts.append(rest)
        self._lines.put((time.perf_counter(), b""))
