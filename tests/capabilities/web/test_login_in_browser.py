"""People log in on the page in a real Chromium, at a real identity provider (oidc-provider)."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest

from conformance.identity_provider import MODULES, USER, identity_provider
from server.capabilities.login.static_tokens import TokenFile
from skills_core.live.watch_options import WatchMode
from tests.capabilities.web.test_page_in_browser import AXE, SHOTS, browser, press, shown
from tests.chromium import CHROMIUM, Chromium
from tests.conftest import MakeSkill
from tests.server.serving import Served, serving

__all__ = ["browser"]

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"), pytest.mark.slow]

needs_provider = pytest.mark.skipif(
    shutil.which("node") is None or not (MODULES / "oidc-provider").is_dir(),
    reason="node or oidc-provider is not installed; `make conformance` installs it",
)

ROLES = {"editor": ["two", "three"], "reader": ["one"]}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def registered(issuer: str, origin: str) -> str:
    """Register the page at the identity provider; return the name of the client."""
    metadata = {
        "client_name": "the page",
        "redirect_uris": [f"{origin}/page/login/callback"],
        "token_endpoint_auth_method": "none",
    }
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{issuer}/reg", json=metadata)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["client_id"])


async def looked_at(skills: Path, look: Callable[[Served], None], **options: Any) -> None:
    async with serving(skills, watch=WatchMode.AUTO, **options) as served, anyio.create_task_group() as tasks:
        tasks.start_soon(served.host.follow)
        await anyio.to_thread.run_sync(look, served)
        tasks.cancel_scope.cancel()


def submitted(browser: Chromium, selector: str) -> None:
    """Press a button, and wait until another page is there."""
    browser.evaluate(f"window.here = true; document.querySelector({selector!r}).click()")
    browser.wait_until("window.here === undefined && document.readyState === 'complete'")


@needs_provider
@pytest.mark.parametrize("form", ["jwt", "opaque"])
async def test_a_person_logs_in_at_the_provider_sees_the_skills_of_a_role_and_logs_out(
    two: Path, make_skill: MakeSkill, browser: Chromium, form: str
) -> None:
    port = free_port()
    origin = f"http://127.0.0.1:{port}"

    def look(_: Served) -> None:
        browser.open(f"{origin}/page/skill/two")
        assert browser.evaluate("document.querySelector('main h1').textContent") == "Log in"
        submitted(browser, "a.button")
        for _step in range(10):
            if browser.evaluate("location.origin") == origin:
                break
            browser.evaluate(
                f"document.querySelectorAll('input[name=login], input[name=password]')"
                f".forEach((each) => {{ each.value = '{USER}'; }})"
            )
            submitted(browser, "button[type=submit]")
        assert browser.evaluate("location.pathname + location.search") == "/page/skill/two"
        assert USER in browser.evaluate("document.querySelector('.account').textContent")
        assert browser.evaluate("document.cookie") == ""
        browser.open(f"{origin}/")
        assert shown(browser) == ["two"]
        browser.wait_until("document.getElementById('live').textContent === 'Live'")
        make_skill("three")
        browser.wait_until("document.querySelectorAll('.skill').length === 2")
        assert browser.evaluate("window.violations") == []
        submitted(browser, ".account button")
        assert browser.evaluate("document.querySelector('main h1').textContent") == "Log in"
        browser.open(f"{origin}/page/skill/two")
        assert browser.evaluate("document.querySelector('main h1').textContent") == "Log in"

    async with identity_provider(form) as issuer:
        options = {
            "port": port,
            "login_issuer": issuer,
            "login_required_scopes": ("skills",),
            "login_introspection_url": f"{issuer}/token/introspection",
            "login_introspection_client_id": "skillserve",
            "login_introspection_client_secret": "a secret of the client",
            "web_client_id": await registered(issuer, origin),
            "access_roles": ROLES,
        }
        await looked_at(two, look, **options)


async def test_a_person_types_a_token_and_is_out_when_it_is_revoked(
    two: Path, file: TokenFile, browser: Chromium
) -> None:
    token = file.add("anna", ("reader",), None)

    def look(served: Served) -> None:
        browser.open(served.at("/?q=songs"))
        browser.evaluate("document.getElementById('token').focus()")
        for letter in token:
            browser.call("Input.insertText", text=letter)
        browser.evaluate("window.here = true")
        press(browser, "Enter", 13, "\r")
        browser.wait_until("window.here === undefined && document.readyState === 'complete'")
        assert browser.evaluate("location.search") == "?q=songs"
        assert shown(browser) == ["one"]
        browser.wait_until("document.getElementById('live').textContent === 'Live'")
        file.revoke("anna")
        # The stream ends, and the page says so without a click.
        browser.wait_until(
            "document.querySelector('main h1')?.textContent === 'Log in' && document.readyState === 'complete'"
        )
        assert "session has ended" in browser.evaluate("document.querySelector('main').textContent")
        assert "songs" not in browser.evaluate("document.querySelector('main').textContent")

    await looked_at(two, look, login_tokens=True, access_roles=ROLES)


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core, which `make conformance` installs")
@pytest.mark.parametrize(("width", "dark"), [(360, True), (1200, False)])
async def test_the_login_can_be_read_and_reached(
    two: Path, file: TokenFile, browser: Chromium, width: int, *, dark: bool
) -> None:
    token = file.add("anna.with-a-long-name@skills.example.com", ("reader", "admin"), None)

    def look(served: Served) -> None:
        browser.show(width=width, dark=dark)
        browser.open(served.at("/"))
        for step in ("login", "refused", "account"):
            browser.evaluate(f"{AXE.read_text(encoding='utf-8')}; 0")
            found = browser.evaluate(
                "axe.run(document).then((all) => all.violations.map((each) => [each.id, each.nodes[0].html]))"
            )
            assert found == [], step
            assert browser.evaluate("document.documentElement.scrollWidth") <= width, step
            if SHOTS:
                browser.screenshot(Path(SHOTS, f"{step}-{width}-{'dark' if dark else 'light'}.png"))
            if step != "account":
                given = token if step == "refused" else "sks_wrong"
                browser.evaluate(f"document.getElementById('token').value = '{given}'")
                submitted(browser, "main button[type=submit]")

    await looked_at(two, look, login_tokens=True, login_issuer="https://id.example.com", web_client_id="page")
