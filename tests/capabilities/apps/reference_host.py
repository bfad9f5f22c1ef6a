"""A host of MCP Apps in Chromium, on the bridge of the reference implementation (npm), and a page of ours in it.

The host is on one origin and the sandbox of the page on another, with the content security policy that the
specification has for pages that ask for nothing.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chromium import Chromium, CommandError

MODULES = Path(__file__).parents[3] / "conformance/node_modules"
ESBUILD = MODULES / ".bin/esbuild"
BRIDGE = MODULES / "@modelcontextprotocol/ext-apps/dist/src/app-bridge.js"

_PARTS = Path(__file__).with_name("host")

_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' data:; frame-src 'self'; connect-src 'none'"
)


def bundle(target: Path) -> None:
    """Write the script of the host with the packages that it imports."""
    command = [str(ESBUILD), str(_PARTS / "host.mjs"), "--bundle", "--format=iife", f"--outfile={target}"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "NODE_PATH": str(MODULES)})


@contextmanager
def serving_files(files: dict[str, bytes], **headers: str) -> Iterator[str]:
    """Serve files on an origin of their own, and yield it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path.removeprefix("/"))
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", "text/javascript" if self.path.endswith(".js") else "text/html")
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving_host(place: Path) -> Iterator[tuple[str, str]]:
    """Serve the host, and yield the addresses of its page and of the sandbox."""
    bundle(place / "host.js")
    host = {"host.html": (_PARTS / "host.html").read_bytes(), "host.js": (place / "host.js").read_bytes()}
    sandbox = {"sandbox.html": (_PARTS / "sandbox.html").read_bytes()}
    with serving_files(host) as page, serving_files(sandbox, Content_Security_Policy=_POLICY) as proxy:
        yield f"{page}/host.html", f"{proxy}/sandbox.html"


@dataclass
class ReferenceHost:
    """The host's page in a browser; `sandbox` is the address of the page between."""

    browser: Chromium
    sandbox: str

    def connect(self, page: str, server: str, *, modern: bool) -> None:
        """Open the host's page and connect it to a server, in the modern era or the handshake era."""
        self.browser.open(page)
        self.evaluate(f"host.connect({json.dumps(server)}, {json.dumps(modern)})")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the host."""
        return self.browser.evaluate(expression)

    def show(self, tool: str, arguments: dict[str, Any], **options: Any) -> None:
        """Call a tool as the host's model would, and show its page with the result."""
        self.evaluate(f"host.show({', '.join(map(json.dumps, (tool, arguments, self.sandbox, options)))})")
        self.wait("!document.querySelector('main').hasAttribute('aria-busy')")

    def view(self, expression: str) -> Any:
        """Return the value of an expression in the page of the tool."""
        tree = self.browser.call("Page.getFrameTree")["frameTree"]
        frame = tree["childFrames"][0]["childFrames"][0]["frame"]["id"]
        world = self.browser.call("Page.createIsolatedWorld", frameId=frame, worldName="tests")["executionContextId"]
        answer = self.browser.call(
            "Runtime.evaluate", expression=expression, contextId=world, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page of the tool."""

        def holds() -> bool:
            try:
                return bool(self.view(expression))
            except (CommandError, KeyError):
                # The frame is being replaced.
                return False

        until(holds, expression, lambda: self.text)

    @property
    def text(self) -> str:
        """What the page of the tool shows."""
        return str(self.view("document.body.innerText"))

    def press(self, label: str) -> None:
        """Click the button that has a label."""
        found = f"[...document.querySelectorAll('button')].find((each) => each.textContent === {json.dumps(label)})"
        self.wait(f"{found} && !{found}.disabled")
        self.view(f"{found}.click()")


def until(holds: Any, what: str, shown: Any) -> None:
    """Wait up to a minute for a condition; `shown` tells what is there instead."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, (what, shown())
        time.sleep(0.02)
