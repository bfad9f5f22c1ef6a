"""A minimal client of HTTP/1.1 and event streams for MCP, on a plain socket."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wire import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "/mcp"
CONNECT_TIMEOUT = 10.0
BUFFER = 1 << 16


class Connection:
    """One persistent connection."""

    def __init__(self, host: str, port: int) -> None:
        self._host = f"{host}:{port}"
        self._socket = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = self._socket.makefile("rb", BUFFER)

    def timeout(self, seconds: float | None) -> None:
        """Limit each wait for bytes; None means no limit."""
        self._socket.settimeout(seconds)

    def send(self, method: str, headers: dict[str, str], body: bytes) -> None:
        """Send a request with a single call."""
        lines = [f"{method} {PATH} HTTP/1.1", f"Host: {self._host}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._socket.sendall("\r\n".join((*lines, "\r\n")).encode("ascii") + body)

    def head(self) -> tuple[int, dict[str, str]]:
        """Read the status and the headers; their names become lower case."""
        status = self._line()
        if not status:
            raise BenchError("the server closed the connection")
        headers: dict[str, str] = {}
        while line := self._line():
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(status.split(" ")[1]), headers

    def body(self, headers: dict[str, str]) -> bytes:
        """Read a body to its end."""
        if headers.get("transfer-encoding") == "chunked":
            return b"".join(self.chunks())
        content: bytes = self._input.read(int(headers.get("content-length", 0)))
        return content

    def chunks(self) -> Iterator[bytes]:
        """Yield the chunks of a body until it ends or the connection closes."""
        with suppress(OSError, ValueError):
            while size := int(self._line(), 16):
                yield self._input.read(size)
                self._line()
            self._line()

    def close(self) -> None:
        """Close the connection, even while a thread reads from it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _line(self) -> str:
        return self._input.readline().decode("latin-1").rstrip("\r\n")


def sse_messages(raw: bytes) -> list[dict[str, Any]]:
    """Parse the JSON messages of complete events; skip comments and events without data."""
    messages = []
    for event in raw.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
        if text := b"\n".join(data).strip():
            messages.append(json.loads(text))
    return messages
