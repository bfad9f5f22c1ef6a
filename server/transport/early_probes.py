"""Answer probes while skills and libraries are being loaded: the server is alive, and not ready yet.

A thread answers on the listener of the later server. Connections that it has not accepted wait for the server.
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

_SECONDS: Final = 1.0
# Time for a client to send its request and take the answer; the start of the server waits for it.

_PAUSE: Final = 0.01

_MAX_HEAD: Final = 16 * 1024


class EarlyListener:
    """A listener, and the thread that answers on it until the listener is taken."""

    def __init__(self, listener: socket.socket) -> None:
        """Answer on `listener` from now on."""
        self._listener = listener
        self._listener.setblocking(False)
        self._stopped, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._answer_all, name="early probes", daemon=True)
        self._thread.start()

    def take(self) -> socket.socket:
        """Stop answering, and return the listener, which the caller closes."""
        self._stop.close()
        self._thread.join()
        return self._listener

    def close(self) -> None:
        """Stop answering, and close the listener."""
        self.take().close()

    def _answer_all(self) -> None:
        with self._stopped, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._stopped in ready:
                    return
                try:
                    connection, _ = self._listener.accept()
                except OSError:
                    # The client is gone, or no descriptors are left: the connection stays ready, so wait a little.
                    time.sleep(_PAUSE)
                    continue
                with connection, suppress(OSError):
                    _answer(connection, time.monotonic() + _SECONDS)


def _receive(connection: socket.socket, deadline: float) -> bytes:
    """Return the next bytes of a client; raise TimeoutError when the time for the whole connection is over."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)
    return connection.recv(4096)


def _answer(connection: socket.socket, deadline: float) -> None:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD:
        part = _receive(connection, deadline)
        if not part:
            return
        head += part
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    is_get = method in {b"GET", b"HEAD"}
    if is_get and path == b"/health":
        status, body = "200 OK", {"status": "ok"}
    elif is_get and path == b"/ready":
        status, body = "503 Service Unavailable", {"status": "starting"}
    else:
        status, body = "503 Service Unavailable", {"error": "the server is starting"}
    content = json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Cache-Control: no-store",
        "Retry-After: 1",
        "Connection: close",
    ]
    answer = "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == b"HEAD" else content)
    connection.sendall(answer)
    # Closing a socket with unread bytes would discard the answer.
    connection.shutdown(socket.SHUT_WR)
    with suppress(TimeoutError):
        while _receive(connection, deadline):
            pass


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
        early.close()
