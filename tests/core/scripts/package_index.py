"""A package index on the loopback interface, which records its requests."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME = "tiny_thing"
WHEEL = f"{NAME}-1.0-py3-none-any.whl"


def wheel(value: int = 42) -> bytes:
    """Return a wheel with a module that has `VALUE`; the same bytes each time."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, text in {
            f"{NAME}.py": f"VALUE = {value}\n",
            f"{NAME}-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n",
            f"{NAME}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{NAME}-1.0.dist-info/RECORD": "",
        }.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text)
    return raw.getvalue()


@dataclass
class Index:
    """A running index: the files that it has of a package `tiny-thing`, and the requests that it got.

    One that is `closed` asks for credentials, and takes any.
    """

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    closed: bool = False
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.address}/simple"

    @property
    def credentials(self) -> set[str]:
        return {headers["authorization"] for _, headers in self.requests if "authorization" in headers}


@contextmanager
def package_index(files: dict[str, bytes]) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            body = self.answer()
            turned_away = index.closed and "Authorization" not in self.headers
            self.send_response(401 if turned_away else 404 if body is None else 200)
            if turned_away:
                body = b""
                self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body or b"")

        do_HEAD = do_GET  # noqa: N815 - the name that the server calls

        def answer(self) -> bytes | None:
            if self.path == "/simple/tiny-thing/":
                links = (
                    f'<a href="/files/{name}#sha256={hashlib.sha256(raw).hexdigest()}">{name}</a>'
                    for name, raw in index.files.items()
                )
                return "".join(links).encode()
            return index.files.get(self.path.removeprefix("/files/"))

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index = Index(f"http://127.0.0.1:{server.server_port}", files)
        # `shutdown` waits for the next poll.
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
