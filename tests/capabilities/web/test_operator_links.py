"""Without a login, the server's user opens the page as its operator, by a link that only this user gets."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import rmtree
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from starlette.applications import Starlette

from server.capabilities.login.static_tokens import TokenFile
from server.capabilities.web.operator_links import OperatorLinks
from server.capabilities.web.settings import LINK_PATH
from server.capability import HttpPart, PageAction, PageParts, Visit
from tests.capabilities.web.visiting import Browser, browsing
from tests.server.serving import Served, serving
from tests.server.sessions import REPOSITORY, http_server, server_environment

sockets = pytest.mark.skipif(sys.platform == "win32", reason="there are no such sockets")


async def link(served: Served) -> str:
    """Return the address that the server's user gets on the admin socket."""
    parts = [part for part in served.host.http_parts if isinstance(part, HttpPart)]
    app = Starlette(routes=[route for part in parts for route in part.local_routes()])
    transport = httpx2.ASGITransport(app)
    port = urlsplit(served.url).port
    (page,) = [part for part in parts if part.local_routes()]
    with page.around(port):
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.post(LINK_PATH)
    return str(answer.json()["url"])


async def sees_folder(browser: Browser, two: Path) -> bool:
    return str(two) in (await browser.open("/page/skill/one")).text


async def test_a_link_makes_the_operator_of_one_browser_and_leaves_the_address_bar(two: Path) -> None:
    async with serving(two) as served, browsing(served) as browser, browsing(served) as other:
        address = await link(served)
        assert address.startswith(served.at("/page/enter?code="))
        answer = await browser.open(address)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert "max-age" not in cookie
        assert await sees_folder(browser, two)
        assert "Operator" in (await browser.open("/")).text
        assert not await sees_folder(other, two)
        assert await other.names() == ["one", "two"]
        assert await other.form_token() == ""
        await browser.send("/page/logout", {"form_token": await browser.form_token()})
        assert not await sees_folder(browser, two)
    entered = [each for each in served.found if each.target == "/page/enter"]
    assert [(each.method, each.decision) for each in entered] == [("admin", "allowed")]
    assert urlsplit(address).query not in str(served.found)


@pytest.mark.parametrize("code", ["", "x", "ü", "x" * 5000])
async def test_an_invented_link_opens_nothing(two: Path, code: str) -> None:
    async with serving(two) as served, browsing(served) as browser:
        await link(served)
        answer = await browser.open(f"/page/enter?code={code}")
        assert (answer.status_code, "skillserve page" in answer.text) == (403, True)
        assert browser.cookies == {}
    assert [each.decision for each in served.found if each.target == "/page/enter"] == ["denied"]


async def test_a_link_works_once(two: Path) -> None:
    async with serving(two) as served, browsing(served) as browser, browsing(served) as other:
        address = await link(served)
        # Whoever looks where a link leads does not use it.
        assert (await other.client.head(address)).status_code == 200
        assert (await browser.open(address)).status_code == 303
        assert (await other.open(address)).status_code == 403
        assert await sees_folder(browser, two)


async def test_a_session_of_another_process_is_not_one_of_this_server(two: Path) -> None:
    async with serving(two) as first, serving(two) as second, browsing(first) as browser, browsing(second) as other:
        await browser.open(await link(first))
        ((_, value),) = browser.cookies.items()
        name = f"skillserve-{urlsplit(second.url).port}"
        assert str(two) not in (await other.open("/page/skill/one", Cookie=f"{name}={value}")).text


async def test_where_people_log_in_a_link_leads_to_the_login(two: Path, file: TokenFile) -> None:
    file.add("anna", ("admin",), None)
    async with serving(two, login_tokens=True) as served, browsing(served) as browser:
        assert await link(served) == served.at("/")
        assert (await browser.open("/page/enter?code=x")).status_code == 401


async def test_nobody_gets_a_link_over_http(two: Path) -> None:
    async with serving(two) as served, browsing(served) as browser:
        assert (await browser.send(LINK_PATH, {})).status_code == 404


@pytest.mark.parametrize(("changes", "status"), [(True, 400), (False, 403)])
async def test_only_operators_change_something_where_the_settings_allow_it(
    two: Path, monkeypatch: pytest.MonkeyPatch, *, changes: bool, status: int
) -> None:
    done: list[str] = []

    def act(form: Mapping[str, str], _: Visit) -> str:
        done.append(form["what"])
        return "It is done."

    action = PageAction("try", act)
    monkeypatch.setattr("server.capabilities.web.part.WebPage._parts", {"web": PageParts(actions=(action,))})
    async with serving(two, web_changes=changes) as served, browsing(served) as browser:
        assert (await browser.send("/page/do/try", {"what": "x"})).status_code == 403
        await browser.open(await link(served))
        assert (await browser.send("/page/do/try", {"what": "x", "form_token": "y"})).status_code == status
        assert done == []
        sent = {"what": "x", "form_token": await browser.form_token(), "back": "//evil.example"}
        told = await browser.send("/page/do/try", sent)
        assert done == (["x"] if changes else [])
        assert ("It is done." in told.text) == changes
        assert "evil" not in told.text
    found = [(each.method, each.decision) for each in served.found if each.target == "/page/do/try"]
    refused = ("admin", "denied")
    assert found == [
        refused,
        ("admin", "invalid") if changes else refused,
        ("admin", "allowed") if changes else refused,
    ]


def test_a_link_ends_after_a_minute_and_there_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    links = OperatorLinks()
    code, first = links.new_code(), links.new_code()
    now = time.monotonic()
    monkeypatch.setattr("server.capabilities.web.operator_links.time.monotonic", lambda: now + 61)
    assert not links.redeem(code)
    monkeypatch.undo()
    others = [links.new_code() for _ in range(100)]
    assert not links.redeem(first)
    assert all(map(links.redeem, others))
    assert not links.redeem(others[0])


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder for sockets; the paths of those must be short."""
    folder = Path(tempfile.mkdtemp()).resolve()
    yield folder
    rmtree(folder)


async def page(*flags: str, **environment: str) -> tuple[int, str, str]:
    with anyio.fail_after(60):
        done = await anyio.run_process(
            [sys.executable, "-m", "server", "page", *flags],
            cwd=REPOSITORY,
            env=server_environment(**environment),
            check=False,
        )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@sockets
async def test_the_command_prints_a_link_or_gives_it_to_the_browser(two: Path, runtime: Path, tmp_path: Path) -> None:
    where = {"XDG_RUNTIME_DIR": str(runtime)}
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    program.chmod(0o755)
    async with http_server(two, **where) as url, httpx2.AsyncClient() as client:
        port = str(urlsplit(url).port)
        code, printed, _ = await page("--port", port, "--print", **where)
        assert code == 0
        answer = await client.get(printed.strip(), headers={"Accept": "text/html"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        code, told, _ = await page("--port", port, BROWSER=str(program), **where)
        assert (code, told) == (0, f"Opened http://127.0.0.1:{port}/ in the browser.\n")
        opened = (tmp_path / "opened").read_text()
        assert (await client.get(opened)).status_code == 303
        assert "code=" not in told


@sockets
async def test_the_command_says_that_there_is_no_page_or_no_server(two: Path, runtime: Path) -> None:
    where = {"XDG_RUNTIME_DIR": str(runtime)}
    async with http_server(two, SKILLSERVE_WEB_ENABLED="false", **where) as url:
        port = str(urlsplit(url).port)
        assert await page("--port", port, "--print", **where) == (
            1,
            "",
            f"skillserve: the server at port {port} has no page; set web.enabled where it runs\n",
        )
    code, printed, told = await page("--port", port, **where)
    assert (code, printed) == (1, "")
    assert f"port {port}: none of your servers on this machine has a socket" in told
