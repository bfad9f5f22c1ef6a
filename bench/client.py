"""A client for both protocol eras over both links: connect, send requests, receive notifications."""

from __future__ import annotations

import itertools
import json
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from http_link import HttpLink
from processes import Command, free_port, running
from stdio_link import StdioLink
from wire import CLIENT_INFO, Answer, BenchError, Era, Link, Message, RefusedError, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_TIMEOUT = 600.0
CALL_TIMEOUT = 60.0
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGES = frozenset(
    f"notifications/{name}"
    for name in ("tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated")
)


class Client:
    """One open connection to one server."""

    def __init__(self, link: Link, era: Era, spawned: float, pid: int) -> None:
        self.spawned = spawned
        self.pid = pid
        self._link = link
        self.era = era
        self._numbers = itertools.count(1)
        self._capabilities = self._open()

    def timed(self, method: str, params: Message | None = None, timeout: float = CALL_TIMEOUT) -> Answer:
        """Send a request and return the timed answer; raise on an error, which must not be timed."""
        message = request(self.era, next(self._numbers), method, params or {})
        try:
            answer = self._link.exchange(message, timeout)
        except OSError as error:
            raise BenchError(f"{method}: {error}") from error
        if "result" not in answer.reply:
            raise RefusedError(f"{method}: {json.dumps(answer.reply)[:300]}")
        return answer

    def call(self, method: str, params: Message | None = None) -> Message:
        """Send a request and return its result."""
        result: Message = self.timed(method, params).reply["result"]
        return result

    def subscribe(self, uris: list[str]) -> None:
        """Request every change notification, in the way of this era."""
        if self.era is Era.HANDSHAKE:
            self._link.listen(None)
            if self._capabilities.get("resources", {}).get("subscribe"):
                for uri in uris:
                    self.call("resources/subscribe", {"uri": uri})
            return
        wanted = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
        params = {"notifications": {**wanted, "resourceSubscriptions": uris}}
        self._link.listen(request(self.era, next(self._numbers), "subscriptions/listen", params))
        event = self._link.next_event(CALL_TIMEOUT)
        if event is None or event.message.get("method") != ACKNOWLEDGED:
            raise BenchError(f"subscriptions/listen: {event and event.message}")

    def next_change(self, timeout: float) -> float | None:
        """Return when the next change notification arrived, or None at the timeout."""
        end = time.perf_counter() + timeout
        while event := self._link.next_event(end - time.perf_counter()):
            if event.message.get("method") in CHANGES:
                return event.at
        return None

    def settle(self, quiet: float) -> None:
        """Discard events until none has arrived for `quiet` seconds."""
        while self._link.next_event(quiet):
            pass

    def _open(self) -> Message:
        if self.era is Era.MODERN:
            opened = self.timed("server/discover", timeout=START_TIMEOUT).reply["result"]
        else:
            params = {"protocolVersion": self.era.protocol, "capabilities": {}, "clientInfo": CLIENT_INFO}
            opened = self.timed("initialize", params, START_TIMEOUT).reply["result"]
            self._link.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})
        capabilities: Message = opened.get("capabilities", {})
        return capabilities


@contextmanager
def connected(command: Command, folder: Path, transport: str, era: Era) -> Iterator[Client]:
    """Start a server and connect to it; stop both on exit."""
    port = 0 if transport == "stdio" else free_port()
    with running(command, folder, port, piped=transport == "stdio") as process:
        link = StdioLink(process) if transport == "stdio" else HttpLink(process, port, era, START_TIMEOUT)
        with closing(link):
            yield Client(link, era, process.spawned, process.pid)
