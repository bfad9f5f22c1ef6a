"""Web pages of a server's own hosts and of `http.allowed_origins` reach it from a browser, and no others."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.chromium import CHROMIUM, Chromium
from tests.conftest import MakeSkill
from tests.server.serving import modern, modern_headers, serving

APP = "https://app.example.com"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,mcp-method,mcp-name,mcp-param-x,mcp-session-id",
}


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://skills.example.com", 200),
        ("http://skills.example.com", 200),
        ("https://skills.example.com:8443", 200),
        ("https://localhost", 200),
        ("https://127.0.0.1:9000", 200),
        (APP, 200),
        ("http://app.example.com", 403),
        ("https://app.example.com:8443", 403),
        ("https://skills.example.com.evil.com", 403),
        ("https://evil.com", 403),
        ("https://skills.example.comx:1", 403),
        ("null", 403),
        ("*", 403),
    ],
)
async def test_the_origins_of_allowed_hosts_are_accepted_with_and_without_tls(
    origin: str, status: int, make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills, allowed_hosts=("skills.example.com",), allowed_origins=(APP,)) as served:
        message = modern("tools/list")
        answer = await served.client.post(served.url, json=message, headers=modern_headers(message, Origin=origin))
    assert answer.status_code == status
    # Of the accepted pages, those of the setting may read the answer: the others are of the server itself.
    assert answer.headers.get("Access-Control-Allow-Origin") == (APP if origin == APP else None)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/p/reader", "/.well-known/oauth-protected-resource"])
@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [
        (APP, True),
        ("https://any.example.com:4000", True),
        ("https://any.example.com", False),
        ("https://any.example.com:4000.evil.com", False),
        ("https://any.example.com:4000@evil.com", False),
        ("https://evil.com", False),
        ("https://skills.example.com", False),
    ],
)
async def test_a_preflight_needs_no_login_and_admits_the_origins_of_the_setting_alone(
    origin: str, path: str, skills: Path, make_skill: MakeSkill, *, is_allowed: bool
) -> None:
    make_skill("one")
    origins = (APP, "https://any.example.com:*", "*")
    options: dict[str, Any] = {
        "allowed_hosts": ("skills.example.com",),
        "allowed_origins": origins,
        "login_tokens": True,
    }
    async with serving(skills, **options) as served:
        asked = {"Origin": origin, "Access-Control-Request-Private-Network": "true", **PREFLIGHT}
        answer = await served.client.options(served.at(path), headers=asked)
        refused = await served.client.post(served.url, json=modern("tools/list"), headers={"Origin": origin})
    granted = [each.headers.get("Access-Control-Allow-Origin") for each in (answer, refused)]
    assert granted == [origin if is_allowed else None] * 2
    if is_allowed:
        assert answer.status_code == 200
        assert set(PREFLIGHT["Access-Control-Request-Headers"].split(",")) <= {
            each.strip() for each in answer.headers["Access-Control-Allow-Headers"].split(",")
        }
        assert {"GET", "POST", "DELETE"} <= {*answer.headers["Access-Control-Allow-Methods"].split(", ")}
        assert "Origin" in answer.headers["Vary"]
        assert (refused.status_code, "WWW-Authenticate" in refused.headers["Access-Control-Expose-Headers"]) == (
            401,
            True,
        )


async def test_without_allowed_origins_no_page_gets_a_header(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills) as served:
        for origin in ("http://localhost:3000", "https://evil.com"):
            answer = await served.client.options(served.url, headers={"Origin": origin, **PREFLIGHT})
            assert [name for name in answer.headers if name.startswith("access-control")] == []


PAGE = b"<!doctype html><title>page</title>"

USE = """
async (url) => {
  const post = (body, more) => fetch(url, {method: 'POST', body: JSON.stringify(body), headers: {
    'Content-Type': 'application/json', 'Accept': 'application/json, text/event-stream', ...more}});
  const info = {protocolVersion: '2025-06-18', capabilities: {}, clientInfo: {name: 'page', version: '1'}};
  const opened = await post({jsonrpc: '2.0', id: 1, method: 'initialize', params: info}, {'Authorization': 'Bearer x'});
  const session = {'Mcp-Session-Id': opened.headers.get('Mcp-Session-Id'), 'Mcp-Protocol-Version': '2025-06-18'};
  const kind = opened.headers.get('Content-Type');
  await opened.text();
  await post({jsonrpc: '2.0', method: 'notifications/initialized'}, session);
  const call = {name: 'activate_skill', arguments: {name: 'one'}};
  const answer = await (await post({jsonrpc: '2.0', id: 2, method: 'tools/call', params: call}, session)).text();
  const stop = new AbortController();
  const events = await fetch(url, {headers: {Accept: 'text/event-stream', ...session}, signal: stop.signal});
  const stream = events.headers.get('Content-Type');
  const ended = await fetch(url, {method: 'DELETE', headers: session});
  stop.abort();
  return [opened.status, kind, answer.includes('Do the thing'), events.status, stream, ended.status];
}
"""

TRY = """
async (url) => {
  const headers = {'Content-Type': 'application/json', 'Mcp-Method': 'tools/list'};
  const found = [];
  for (const more of [{headers}, {}, {mode: 'no-cors'}]) {
    try {
      const answer = await fetch(url, {method: 'POST', body: '{}', ...more});
      found.push(answer.type === 'opaque' ? 'opaque' : await answer.text());
    } catch (error) {
      found.push(error.name);
    }
  }
  return found;
}
"""


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name of the base class
        """Print nothing."""


@contextmanager
def web_page() -> Iterator[str]:
    """Serve an empty page on loopback; yield its origin."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _evaluated(browser: Chromium, page: str, script: str, url: str) -> Any:
    browser.open(f"{page}/")
    return browser.evaluate(f"({script})({url!r})")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None or sys.platform == "win32", reason="needs Chromium, and pipes of POSIX")
@pytest.mark.parametrize("streams", [False, True])
async def test_a_page_of_an_allowed_origin_uses_the_server_in_a_browser_and_another_one_does_not(
    make_skill: MakeSkill, skills: Path, tmp_path: Path, *, streams: bool
) -> None:
    make_skill("one")
    browser = await anyio.to_thread.run_sync(Chromium, tmp_path / "profile")
    try:
        with web_page() as allowed, web_page() as other:
            async with serving(skills, allowed_origins=(allowed,), streams=streams) as served:
                used = await anyio.to_thread.run_sync(partial(_evaluated, browser, allowed, USE, served.url))
                tried = await anyio.to_thread.run_sync(partial(_evaluated, browser, other, TRY, served.url))
                # A page of the attacker whose name now leads to this machine: its requests have its name as Host.
                rebound = served.url.replace("127.0.0.1", "evil.localhost")
                hijacked = await anyio.to_thread.run_sync(partial(_evaluated, browser, allowed, TRY, rebound))
    finally:
        await anyio.to_thread.run_sync(browser.close)
    content = "text/event-stream" if streams else "application/json"
    assert used == [200, content, True, 200, "text/event-stream", 200]
    assert tried == ["TypeError", "TypeError", "opaque"]
    assert hijacked == ["Invalid Host header", "Invalid Content-Type header", "opaque"]
