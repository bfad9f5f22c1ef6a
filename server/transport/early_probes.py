"""Answer probes while skills and libraries are being loaded: the server is alive, and not ready yet.

A thread accepts connections on the listener of the later server. It answers probes; every other connection waits, with
what its client has sent unread, until the server takes it over.
"""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from server.transport.listening import listen, require_protection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.config.settings import Settings

__all__ = ["EarlyListener", "early_listener"]

_MAX_CONNECTIONS: Final = 500
# Further ones wait in the queue of the system.

_MAX_HEAD: Final = 16 * 1024
_PAUSE: Final = 0.05
# Before the next connection is accepted, where the system has no descriptors left.


class EarlyListener:
    """A listener, and the thread that accepts connections on it until the listener is taken."""

    def __init__(self, listener: socket.socket) -> None:
        """Answer on `listener` from now on."""
        self._listener = listener
        self._listener.setblocking(False)
        self._stopped, self._stop = socket.socketpair()
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept_all, name="early probes", daemon=True)
        self._thread.start()

    def take(self) -> tuple[socket.socket, list[socket.socket]]:
        """Stop answering; return the listener and the connections that wait, all of which the caller closes."""
        self._stop.close()
        self._thread.join()
        connections, self._connections = [*self._connections], set()
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
                ready = [key.fileobj for key, _ in selector.select()]
                if self._stopped in ready:
                    return
                for each in ready:
                    if each is self._listener:
                        self._accept(selector)
                    elif isinstance(each, socket.socket):
                        # Its first bytes decide: programs that probe send their request at once.
                        selector.unregister(each)
                        if _was_answered(each):
                            self._connections.discard(each)
                            each.close()
                if len(self._connections) < _MAX_CONNECTIONS and self._listener not in selector.get_map():
                    selector.register(self._listener, selectors.EVENT_READ)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            time.sleep(_PAUSE)
            return
        connection.setblocking(False)
        self._connections.add(connection)
        selector.register(connection, selectors.EVENT_READ)
        if len(self._connections) >= _MAX_CONNECTIONS:
            selector.unregister(self._listener)


def _was_answered(connection: socket.socket) -> bool:
    """Answer a probe; return whether the connection is done. It never waits for the client."""
    try:
        head = connection.recv(_MAX_HEAD, socket.MSG_PEEK)
        if not head:
            return True
        answer = _answer(head)
        if answer is None:
            return False
        # Closing a socket with unread bytes would discard the answer.
        connection.recv(len(head))
        connection.send(answer)
    except OSError:
        return True
    return True


def _answer(head: bytes) -> bytes | None:
    """Return the answer to a complete probe, None for any other request."""
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in {b"GET", b"HEAD"} or not head.endswith(b"\r\n\r\n"):
        return None
    if path == b"/health":
        status, body = "200 OK", {"status": "ok"}
    elif path == b"/ready":
        status, body = "503 Service Unavailable", {"status": "starting"}
    else:
        return None
    content = json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Cache-Control: no-store",
        "Retry-After: 1",
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == b"HEAD" else content)


@contextmanager
def early_listener(settings: Settings) -> Iterator[EarlyListener]:
    """Listen for the block on the address of the settings, and answer probes until the listener is taken.

    Raises:
        AddressInUseError: the server cannot listen on the HTTP address.
        UnprotectedAddressError: other machines could use the server without a login.
    """
    require_protection(settings)
    early = EarlyListener(listen(settings.http))
    try:
        yield early
    finally:
        with suppress(OSError):
            early.close()
