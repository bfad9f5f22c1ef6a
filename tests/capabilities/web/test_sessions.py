"""Sessions: their cookies, what a token opens, and that what ends a token ends the session."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import Response

from server.capabilities.login.login import Login, LoginRefusal
from server.capabilities.login.static_tokens import TokenFile
from server.capabilities.web.forms import own_address
from server.capabilities.web.sessions import Seal, Session, Sessions, new_session
from tests.capabilities.login.conftest import RSA
from tests.capabilities.web.visiting import OPTIONS, ROLES, Browser, browsing
from tests.server.serving import serving, until

TOKENS: dict[str, Any] = {"login_tokens": True, **ROLES}


async def test_without_a_login_nothing_of_a_skill_is_shown(two: Path, file: TokenFile) -> None:
    file.add("anna", ("admin",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        for path in ("/", "/page/skill/one", "/page/skill/none", "/page/skill/two?file=more.md", "/page/events"):
            answer = await browser.open(path)
            assert answer.status_code == 401
            assert not {"songs", "two", "secret", "anna"} & {*answer.text.replace("<", " ").replace(">", " ").split()}
        assert (await browser.send("/page/do/anything", {})).status_code == 401
        assert (await browser.open("/page/assets/page.css")).status_code == 200


async def test_a_token_opens_the_page_with_the_skills_of_its_roles(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        answer = await browser.log_in(token, "/page/skill/one?file=SKILL.md")
        assert (answer.status_code, answer.headers["location"]) == (303, "/page/skill/one?file=SKILL.md")
        assert await browser.names() == ["one"]
        assert "anna" in (await browser.open("/")).text
        # Whoever is logged in already is not asked again.
        assert (await browser.open("/page/login?back=/page/skill/one")).headers["location"] == "/page/skill/one"
    logins = [each for each in served.found if each.target == "/page/login"]
    assert [(each.decision, each.principal.subject) for each in logins][:1] == [("allowed", "anna")]
    assert token not in str(served.found)


async def test_what_a_role_does_not_see_is_not_there(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        await browser.log_in(token)
        hidden, missing = await browser.open("/page/skill/two"), await browser.open("/page/skill/none")
        assert (hidden.status_code, hidden.text) == (404, missing.text)
        for path in ("/page/skill/two?file=more.md", "/?q=psalms", "/?q=two", "/?q=sings", "/?state=active"):
            assert not {"two", "psalms", "Third"} & {*(await browser.open(path)).text.replace("<", " ").split()}, path


async def test_an_event_of_a_hidden_skill_is_not_sent(two: Path, file: TokenFile) -> None:
    tokens = {role: file.add(role, (role,), None) for role in ("reader", "writer")}
    async with serving(two, **TOKENS) as served, browsing(served) as anna, browsing(served) as bert:
        await anna.log_in(tokens["reader"])
        await bert.log_in(tokens["writer"])
        async with events(anna) as annas, events(bert) as berts:
            for name, other in (("two", "psalms"), ("one", "songs")):
                text = (two / name / "SKILL.md").read_text()
                (two / name / "SKILL.md").write_text(text.replace(other, "tunes"))
                await served.host.reload()
            # Events do not queue up, so each of them has heard of one change or none.
            assert await annas() == await berts() == "event: change"
            text = (two / "two/SKILL.md").read_text()
            (two / "two/SKILL.md").write_text(text.replace("tunes", "hymns"))
            await served.host.reload()
            assert await berts() == "event: change"
            for part in served.host.http_parts:
                part.drain()
            assert await annas() == ""


@asynccontextmanager
async def events(browser: Browser) -> AsyncGenerator[Callable[[], Awaitable[str]]]:
    """Open the events that a browser receives: a call waits for the next one, and is empty at the end of the stream."""
    async with browser.client.stream("GET", browser.served.at("/page/events")) as answer:
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        assert await anext(lines) == "retry: 1000"

        async def following() -> str:
            with anyio.fail_after(60):
                async for line in lines:
                    if line.startswith("event:"):
                        return line
            return ""

        yield following


@pytest.mark.parametrize("secure", [False, True])
async def test_the_cookie_is_for_the_browser_and_this_server_alone(two: Path, file: TokenFile, secure: bool) -> None:  # noqa: FBT001
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        given = {"X-Forwarded-Proto": "https"} if secure else {}
        answer = await browser.log_in(token, **given)
        (cookie,) = answer.headers.get_list("set-cookie")
        port = served.url.rpartition(":")[2].partition("/")[0]
        name, value = cookie.partition(";")[0].split("=", 1)
        assert name == ("__Host-skillserve" if secure else f"skillserve-{port}")
        flags = {each.strip().lower() for each in cookie.split(";")[1:]}
        assert flags == {"httponly", "samesite=lax", "path=/"} | ({"secure"} if secure else set())
        assert token not in value
        shown = await browser.open("/", Cookie=cookie.partition(";")[0], **given)
        assert shown.status_code == 200
        for asked in (answer, shown):
            assert asked.headers["cache-control"] == "no-store"


async def test_a_cookie_of_another_process_or_an_invented_one_opens_nothing(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as first, serving(two, **TOKENS) as second:
        async with browsing(first) as browser:
            await browser.log_in(token)
            ((_, value),) = browser.cookies.items()
        name = f"skillserve-{second.url.rpartition(':')[2].partition('/')[0]}"
        changed = value[:-2] + ("AA" if value[-2:] != "AA" else "BB")
        for each in (value, changed, value[:20], "v1.", "x", "", token):
            async with browsing(second) as browser:
                assert (await browser.open("/", Cookie=f"{name}={each}")).status_code == 401
        # None of them was a login that could be refused.
        assert not [each for each in second.found if each.method == "login"]


async def test_servers_with_shared_keys_open_the_sessions_of_each_other(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    shared = {**TOKENS, "replicas_secret": "0123456789abcdef0123456789abcdef"}
    async with serving(two, **shared) as first, serving(two, **shared) as second, browsing(first) as browser:
        await browser.log_in(token)
        ((_, value),) = browser.cookies.items()
        name = f"skillserve-{second.url.rpartition(':')[2].partition('/')[0]}"
        async with browsing(second) as other:
            assert (await other.open("/", Cookie=f"{name}={value}")).status_code == 200


def test_a_seal_opens_what_it_sealed_for_one_purpose_until_its_end() -> None:
    keys = ("0123456789abcdef0123456789abcdef",)
    session = new_session("secret")
    text = Seal(Session, "session", keys).seal(session)
    assert Seal(Session, "session", keys).open(text) == session
    assert Seal(Session, "login", keys).open(text) is None
    assert Seal(Session, "session").open(text) is None
    seal = Seal(Session, "session", keys)
    over = Session(until=time.time() - 1, id="id", begun=0)
    assert seal.open(seal.seal(over)) is None


async def test_a_revoked_token_ends_its_session_and_the_streams_of_it(two: Path, file: TokenFile) -> None:
    token, other = file.add("anna", ("reader",), None), file.add("bert", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as anna, browsing(served) as bert:
        await anna.log_in(token)
        await bert.log_in(other)
        async with events(anna) as annas:
            assert file.revoke("anna")
            # The end of the stream, without any change.
            assert await annas() == ""
        refused = await anna.open("/")
        assert refused.status_code == 401
        assert "session has ended" in refused.text
        assert "Max-Age=0" in refused.headers["set-cookie"]
        assert await bert.names() == ["one"]


async def test_an_expired_token_ends_its_session(two: Path, file: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    token = file.add("anna", ("reader",), datetime.now(UTC) + timedelta(hours=1))
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        await browser.log_in(token)
        assert await browser.names() == ["one"]
        later = time.time() + 3 * 3600
        monkeypatch.setattr("server.capabilities.login.static_tokens.StoredToken.is_expired", lambda *_: True)
        assert (await browser.open("/")).status_code == 401
        monkeypatch.undo()
        # A session ends by itself, whatever its token.
        monkeypatch.setattr("server.capabilities.web.sessions.time.time", lambda: later + 12 * 3600)
        assert (await browser.open("/")).status_code == 401


async def test_a_script_that_asks_keeps_the_session_for_the_login(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        await browser.log_in(token)
        file.revoke("anna")

        async def is_over() -> bool:
            answer = await browser.fetch("/")
            assert "set-cookie" not in answer.headers
            return answer.status_code == 401

        await until(is_over)
        assert browser.cookies


async def test_who_logs_out_is_out_with_every_copy_of_the_cookie(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser, browsing(served) as thief:
        await browser.log_in(token)
        ((name, value),) = browser.cookies.items()
        copy = {"Cookie": f"{name}={value}"}
        assert (await thief.open("/", **copy)).status_code == 200
        answer = await browser.send("/page/logout", {"form_token": await browser.form_token()})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert browser.cookies == {}
        assert (await browser.open("/")).status_code == 401
        assert (await thief.open("/", **copy)).status_code == 401
        # The token itself is as good as before.
        assert (await browser.log_in(token)).status_code == 303


@pytest.mark.parametrize(
    "token", ["", "sks_000000000000_x", "x" * 9000, "two words", "a,b", "ümlaut", "Bearer x", "\r\nx: y", "%00"]
)
async def test_a_wrong_token_opens_nothing_and_is_recorded(two: Path, file: TokenFile, token: str) -> None:
    file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        answer = await browser.log_in(token, "/page/skill/one")
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "does not accept this token" in answer.text
        # A second attempt leads to the same place.
        assert 'name="back" value="/page/skill/one"' in answer.text
    (record,) = [each for each in served.found if each.method == "login"]
    assert (record.target, record.decision) == ("/page/login", "denied")
    assert record.address


@pytest.mark.usefixtures("provider")
async def test_a_token_that_is_too_long_for_a_cookie_is_said(two: Path) -> None:
    async with serving(two, **OPTIONS, login_tokens=True) as served, browsing(served) as browser:
        claims: dict[str, Any] = {"aud": served.url, "roles": [os.urandom(8).hex() for _ in range(250)]}
        token = RSA.sign(**claims)
        assert 4000 < len(token) < 8192
        answer = await browser.log_in(token)
        assert f"{len(token):,} characters" in answer.text
        assert browser.cookies == {}
        small = RSA.sign(**{**claims, "roles": claims["roles"][:120]})
        assert len(small) > 2000
        assert (await browser.log_in(small)).status_code == 303
        assert max(map(len, browser.cookies.values())) < 4000


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": ""},
    {"Origin": "null", "Sec-Fetch-Site": ""},
    {"Origin": "", "Sec-Fetch-Site": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "", "Sec-Fetch-Site": "none"},
]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_forms_of_other_sites_do_nothing(two: Path, file: TokenFile, headers: dict[str, str]) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        refused = await browser.log_in(token, **headers)
        assert refused.status_code in {400, 403}
        assert browser.cookies == {}
        await browser.log_in(token)
        answer = await browser.send("/page/logout", {"form_token": await browser.form_token()}, **headers)
        assert answer.status_code in {400, 403}
        assert await browser.names() == ["one"]


async def test_origins_that_may_call_the_endpoint_may_send_no_forms(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    origin = "https://app.example.com"
    async with serving(two, **TOKENS, allowed_origins=(origin,)) as served, browsing(served) as browser:
        for site in ("cross-site", ""):
            assert (await browser.log_in(token, Origin=origin, **{"Sec-Fetch-Site": site})).status_code == 400
    assert browser.cookies == {}


async def test_a_server_that_checks_no_names_checks_who_sends_forms(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS, host="0.0.0.0") as served, browsing(served) as browser:  # noqa: S104 - any name
        evil = {"Origin": "https://evil.example", "Sec-Fetch-Site": ""}
        assert (await browser.log_in(token, **evil)).status_code == 400
        assert browser.cookies == {}
        assert (await browser.log_in(token, **{"Sec-Fetch-Site": ""})).status_code == 303


async def test_a_form_has_the_token_of_its_own_session(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as anna, browsing(served) as other:
        await anna.log_in(token)
        await other.log_in(token)
        tokens = await anna.form_token(), await other.form_token()
        assert tokens[0] != tokens[1]
        assert await anna.form_token() == tokens[0]
        for wrong in ({}, {"form_token": ""}, {"form_token": tokens[1]}, {"form_token": "ü"}):
            answer = await anna.send("/page/logout", wrong)
            assert answer.status_code == 400
        assert await anna.names() == ["one"]
        assert tokens[0] not in str(anna.cookies)


async def test_a_large_or_odd_form_is_refused(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        assert (await browser.send("/page/login", {"token": token, "more": "x" * 70_000})).status_code == 400
        assert (
            await browser.send("/page/login", {"token": token} | {f"f{n}": "" for n in range(200)})
        ).status_code == 400
        own = {"Origin": served.at(""), "Sec-Fetch-Site": "same-origin"}
        for body in (
            {"json": {"token": token}},
            {"content": token.encode(), "headers": {"Content-Type": "text/plain"}},
        ):
            headers = {**own, **body.pop("headers", {})}  # type: ignore[dict-item]
            assert (await browser.client.post(served.at("/page/login"), headers=headers, **body)).status_code == 400
    assert browser.cookies == {}


@pytest.mark.parametrize(
    "address",
    [
        *("https://evil.example", "//evil.example", "/\\evil.example", "\\/evil.example", "javascript:x()", ""),
        *("/\t/evil.example", "/\n/evil.example", " //evil.example", "/ /x", "evil.example", "/" + "x" * 2000),
        *("/page/logout", "/page/login/start", "/page/login", "/page/enter?code=x", "/\u2028", "/ü"),
    ],
)
async def test_a_login_leads_nowhere_else(two: Path, file: TokenFile, address: str) -> None:
    assert own_address(address) == "/"
    token = file.add("anna", ("reader",), None)
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        assert (await browser.log_in(token, address)).headers["location"] == "/"


@pytest.mark.usefixtures("file")
async def test_the_login_leads_back_to_where_one_was(two: Path) -> None:
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        asked = await browser.open("/page/skill/one?file=a%20b%22.md")
    assert 'name="back" value="/page/skill/one?file=a%20b%22.md"' in asked.text


@pytest.mark.usefixtures("provider")
async def test_a_required_scope_does_not_concern_static_tokens(two: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    options: dict[str, Any] = {**OPTIONS, "login_tokens": True, "login_required_scopes": ("skills",)}
    async with serving(two, **options) as served, browsing(served) as browser:
        assert (await browser.log_in(token)).status_code == 303
        refused = await browser.log_in(RSA.sign(aud=served.url, scope="other"))
        assert (refused.status_code, "lacks a scope" in refused.text) == (403, True)
        assert (await browser.log_in(RSA.sign(aud=served.url, scope="skills"))).status_code == 303


async def test_admin_roles_make_operators(two: Path, file: TokenFile) -> None:
    tokens = {role: file.add(role, (role,), None) for role in ("reader", "chief")}
    options: dict[str, Any] = {"login_tokens": True, "login_admin_roles": ("chief",)}
    for role, token in tokens.items():
        async with serving(two, **options) as served, browsing(served) as browser:
            await browser.log_in(token)
            text = (await browser.open("/page/skill/one")).text
            # The folder of a source is for operators.
            assert (str(two) in text) == ('<span class="note">operator</span>' in text) == (role == "chief")


@pytest.mark.usefixtures("file")
async def test_a_session_outlasts_a_provider_that_is_away(
    two: Path, file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = file.add("anna", ("admin",), None)

    async def cannot_tell(*_: object) -> LoginRefusal:
        return LoginRefusal.UNAVAILABLE

    async with serving(two, login_tokens=True) as served, browsing(served) as browser, browsing(served) as copy:
        await browser.log_in(token)
        ((name, value),) = browser.cookies.items()
        with monkeypatch.context() as away:
            away.setattr(Login, "authenticate", cannot_tell)
            assert (await browser.open("/")).status_code == 503
        assert (await browser.open("/")).status_code == 200
        with monkeypatch.context() as away:
            away.setattr(Login, "authenticate", cannot_tell)
            await browser.send("/page/logout", {})
        assert browser.cookies == {}
        # A copy of the cookie opens nothing either.
        assert (await copy.open("/", Cookie=f"{name}={value}")).status_code == 401


async def test_logging_out_works_without_a_session(two: Path) -> None:
    async with serving(two, **TOKENS) as served, browsing(served) as browser:
        answer = await browser.send("/page/logout", {})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_ended_sessions_are_forgotten_at_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions()

    def request(cookie: str) -> Request:
        headers = [(b"host", b"localhost:1"), (b"cookie", cookie.encode())]
        return Request({"type": "http", "scheme": "http", "headers": headers})

    now = time.time()
    for hours in (0, 13, 26):
        monkeypatch.setattr("server.capabilities.web.sessions.time.time", lambda moment=now + 3600 * hours: moment)
        response = Response()
        sessions.begin(new_session(), request(""), response)
        cookie = response.headers["set-cookie"].partition(";")[0]
        assert sessions.of(request(cookie)) is not None
        sessions.end(request(cookie), Response())
        assert sessions.of(request(cookie)) is None
        assert len(sessions._ended) == 1
