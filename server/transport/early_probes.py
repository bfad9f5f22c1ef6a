"""Answer probes while skills and libraries are being loaded: the server is alive, and not ready yet.

A thread accepts connections on the listener of the later server. It answers probes; every other connection waits, with
what its client has sent unread, until the server takes it over. So that clients that wait, or only connect, cannot keep
probes out, both kinds have a bound: beyond it, requests are answered with 503, and the oldest silent connection is
closed.
"""

from __future__ import annotations

import json
import select
import selectors
import socket
import threading
import time
from contextlib import contextmanager, suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from server.transport.hang_ups import HangUps
from server.transport.listening import listen, require_protection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from server.config.settings import Settings

__all__ = ["EarlyListener", "early_listener"]

_MAX_WAITING: Final = 300
_MAX_SILENT: Final = 200
# Together fewer than the descriptors that systems allow a process by default.

_MAX_HEAD: Final = 16 * 1024
_PAUSE: Final = 0.05
# Before the next connection is accepted, where the system has no descriptors left.
_RECHECK: Final = 0.05
# Before a request that has come in part is looked at again.

_PROBES: Final = (b"GET /health", b"GET /ready", b"HEAD /health", b"HEAD /ready")
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)


class _Kind(Enum):
    """What a connection has sent."""

    PART = auto()
    """The beginning of a probe, or nothing yet."""
    REQUEST = auto()
    """A request, or anything else, for the server."""
    DONE = auto()
    """A probe, which is answered, or the end of the connection."""


class EarlyListener:
    """A listener, and the thread that accepts connections on it until the listener is taken."""

    def __init__(self, listener: socket.socket, hang_ups: HangUps | None = None) -> None:
        """Answer on `listener` from now on; `hang_ups` notes SIGHUP meanwhile."""
        self._listener = listener
        self._listener.setblocking(False)
        self._stopped, self._stop = socket.socketpair()
        # In the order of their arrival.
        self._silent: dict[socket.socket, None] = {}
        self._partial: dict[socket.socket, None] = {}
        self._waiting: dict[socket.socket, None] = {}
        self.hang_ups = hang_ups or HangUps()
        self._thread = threading.Thread(target=self._accept_all, name="early probes", daemon=True)
        self._thread.start()

    def take(self) -> tuple[socket.socket, list[socket.socket]]:
        """Stop answering; return the listener and the connections that wait, all of which the caller closes."""
        self._stop.close()
        self._thread.join()
        connections = [*self._waiting, *self._partial, *self._silent]
        for each in (self._waiting, self._partial, self._silent):
            each.clear()
        return self._listener, connections

    def close(self) -> None:
        """Stop answering, and close the listener and the connections that nobody took."""
        listener, connections = self.take()
        for each in (listener, *connections):
            each.close()

    def _accept_all(self) -> None:
        with self._stopped, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(_RECHECK if self._partial else None)]
                if self._stopped in ready:
                    return
                for each in ready:
                    if each is self._listener:
                        self._accept(selector)
                    elif isinstance(each, socket.socket) and each in self._silent:
                        selector.unregister(each)
                        self._judge(each)
                for each in [*self._partial]:
                    self._judge(each)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            time.sleep(_PAUSE)
            return
        connection.setblocking(False)
        self._silent[connection] = None
        selector.register(connection, selectors.EVENT_READ)
        if len(self._silent) > _MAX_SILENT:
            oldest = next(iter(self._silent))
            selector.unregister(oldest)
            self._close(oldest)

    def _judge(self, connection: socket.socket) -> None:
        """Answer a probe, and let a connection with any other request wait, if there is room."""
        kind = _kind_of(connection)
        for each in (self._silent, self._partial):
            each.pop(connection, None)
        if kind is _Kind.PART and len(self._partial) < _MAX_SILENT:
            self._partial[connection] = None
        elif kind is _Kind.REQUEST and self._has_room():
            self._waiting[connection] = None
        else:
            if kind is not _Kind.DONE:
                _send(connection, _BUSY)
            self._close(connection)

    def _has_room(self) -> bool:
        """Tell whether another request can wait; at the bound, those whose clients have gone make room."""
        if len(self._waiting) >= _MAX_WAITING:
            for each in _hung_up(self._waiting):
                self._close(each)
        return len(self._waiting) < _MAX_WAITING

    def _close(self, connection: socket.socket) -> None:
        for each in (self._silent, self._partial, self._waiting):
            each.pop(connection, None)
        connection.close()


def _hung_up(connections: Iterable[socket.socket]) -> list[socket.socket]:
    """Return those of some connections whose clients have closed them, as far as the system tells."""
    if not hasattr(select, "poll"):
        return []
    by_number = {each.fileno(): each for each in connections}
    poll = select.poll()
    for number in by_number:
        poll.register(number, _HUNG_UP)
    return [by_number[number] for number, _ in poll.poll(0)]


def _kind_of(connection: socket.socket) -> _Kind:
    """Tell what a connection has sent, and answer a probe. It never waits for the client."""
    try:
        head = connection.recv(_MAX_HEAD, socket.MSG_PEEK)
    except BlockingIOError:
        return _Kind.PART
    except OSError:
        return _Kind.DONE
    if not head:
        return _Kind.DONE
    answer = _answer(head)
    if answer is None:
        return _Kind.PART if _may_become_probe(head) else _Kind.REQUEST
    _send(connection, answer)
    return _Kind.DONE


def _may_become_probe(head: bytes) -> bool:
    is_begun = any(head.startswith(each) or each.startswith(head) for each in _PROBES)
    return is_begun and b"\r\n\r\n" not in head and len(head) < _MAX_HEAD


def _send(connection: socket.socket, answer: bytes) -> None:
    with suppress(OSError):
        # Closing a socket with unread bytes would discard the answer.
        connection.recv(_MAX_HEAD)
        connection.send(answer)


def _answer(head: bytes) -> bytes | None:
    """Return the answer to a complete probe, None for any other request."""
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in {b"GET", b"HEAD"} or not head.endswith(b"\r\n\r\n"):
        return None
    if path == b"/health":
        return _response("200 OK", {"status": "ok"}, has_body=method != b"HEAD")
    if path == b"/ready":
        return _response("503 Service Unavailable", {"status": "starting"}, has_body=method != b"HEAD")
    return None


def _response(status: str, body: dict[str, str], *, has_body: bool = True) -> bytes:
    content = json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Cache-Control: no-store",
        "Retry-After: 1",
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (content if has_body else b"")


_BUSY: Final = _response("503 Service Unavailable", {"error": "the server is starting"})


@contextmanager
def early_listener(settings: Settings) -> Iterator[EarlyListener]:
    """Listen for the block on the address of the settings, and answer probes until the listener is taken.

    Raises:
        AddressInUseError: the server cannot listen on the HTTP address.
        UnprotectedAddressError: other machines could use the server without a login.
    """
    require_protection(settings)
    hang_ups = HangUps()
    # Before it listens: whoever can connect may also send the signal.
    with hang_ups.noted():
        early = EarlyListener(listen(settings.http), hang_ups)
        try:
            yield early
        finally:
            with suppress(OSError):
                early.close()
