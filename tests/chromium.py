"""A headless Chromium over its DevTools protocol, by a pipe: NUL-terminated JSON on descriptors 3 and 4."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
_LIMIT = 60.0

# Either may be 3 or 4 already, so both are copied out of the way first.
_AS_3_AND_4 = """
import fcntl, os, sys
copies = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for copy, descriptor in zip(copies, (3, 4)):
    os.dup2(copy, descriptor)
os.execv(sys.argv[3], sys.argv[3:])
"""

_WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => {
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI}`);
});
"""


class CommandError(Exception):
    """The browser refused a command."""


class Chromium:
    """One page in a browser of its own; `requests` are the addresses that it asked for."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _AS_3_AND_4, str(to_browser), str(from_browser), *command],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)

    def close(self) -> None:
        """End the browser."""
        session, self._session = self._session, None
        try:
            self.call("Browser.close")
        except (OSError, AssertionError):
            self._process.kill()
        self._process.wait(_LIMIT)
        self._session = session
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a command."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": params, **session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise CommandError(str(answer["error"]))
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], _LIMIT)
            assert ready, "the browser does not answer"
            more = os.read(self._in, 1 << 20)
            if not more:
                raise OSError("the browser has ended")
            self._buffer += more
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message

    def open(self, url: str) -> None:
        """Load a page, and wait until all of it is there."""
        self.call("Page.navigate", url=url)
        self.wait_until(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression on the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_until(self, expression: str) -> None:
        """Wait until an expression is true on the page."""
        end = time.monotonic() + _LIMIT
        while not self._holds(expression):
            assert time.monotonic() < end, expression
            time.sleep(0.02)

    def _holds(self, expression: str) -> bool:
        try:
            return bool(self.evaluate(expression))
        except CommandError:
            # The page was replaced by its successor meanwhile.
            return False

    def show(self, *, width: int = 1200, dark: bool = False, media: str = "") -> None:
        """Set the width of the window, the colour scheme and the medium."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def screenshot(self, target: Path, *, whole: bool = True) -> None:
        """Write what the page looks like."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        target.write_bytes(base64.b64decode(answer["data"]))
