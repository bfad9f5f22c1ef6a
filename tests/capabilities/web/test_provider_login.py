"""The login at the identity provider in a browser: OAuth 2.1, and what people are told where it fails."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import pytest

from server.capabilities.web.provider_login import ProviderLogin
from tests.capabilities.login.conftest import FOREIGN, ISSUER
from tests.capabilities.web.visiting import METADATA, OPTIONS, ROLES, PageProvider, browsing
from tests.server.serving import serving

SECRETS = ("s+ %", "of-the-client")
MANY = 5


async def test_a_login_at_the_provider_opens_the_page_where_one_was(two: Path, provider: PageProvider) -> None:
    async with serving(two, **OPTIONS, **ROLES) as served, browsing(served) as browser:
        asked = await browser.open("/page/skill/one?file=SKILL.md")
        assert asked.status_code == 401
        assert "Log in with id.example.com" in asked.text
        assert 'type="password"' not in asked.text
        start = f"{served.at('/page/login/start')}?{urlencode({'back': '/page/skill/one?file=SKILL.md'})}"
        assert f'href="{start}"' in asked.text
        begun = await browser.open(start)
        query = provider.asked_for(begun.headers["location"])
        assert query["redirect_uri"] == served.at("/page/login/callback")
        assert query["resource"] == served.url
        assert "scope" not in query
        answer = await browser.open(provider.agree(begun.headers["location"]))
        assert (answer.status_code, answer.headers["location"]) == (303, "/page/skill/one?file=SKILL.md")
        assert provider.client is None
        assert await browser.names() == ["one"]
        # Nothing is kept of the login but the session.
        assert len(browser.cookies) == 1


async def test_the_provider_is_asked_for_the_scopes_and_knows_the_client_by_its_secret(
    two: Path, provider: PageProvider
) -> None:
    options = {**OPTIONS, "login_required_scopes": ("use",), "login_advertised_scopes": ("api://1/use", "more")}
    async with serving(two, **options, web_client_secret=SECRETS[0]) as served, browsing(served) as browser:
        start = await browser.open("/page/login/start")
        assert provider.asked_for(start.headers["location"])["scope"] == "api://1/use more"
        assert (await browser.log_in_at(provider, scope="use")).status_code == 303
        assert provider.client == ("page", "s%2B+%25")
        refused = await browser.log_in_at(provider, scope="other")
        assert (refused.status_code, "lacks a scope that this server requires: use." in refused.text) == (403, True)


@pytest.mark.usefixtures("provider")
async def test_cookies_of_a_login_last_for_minutes_and_are_not_for_scripts(two: Path) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        (cookie,) = (await browser.open("/page/login/start")).headers.get_list("set-cookie")
        flags = {each.strip().lower() for each in cookie.split(";")[1:]}
        assert flags == {"httponly", "samesite=lax", "path=/", "max-age=600"}
        secure = await browser.open("/page/login/start", **{"X-Forwarded-Proto": "https"})
        assert secure.headers["set-cookie"].startswith("__Host-skillserve-login-")
        assert "Secure" in secure.headers["set-cookie"]


async def test_an_answer_counts_once_and_in_the_browser_that_asked(two: Path, provider: PageProvider) -> None:
    async with (
        serving(two, **OPTIONS) as served,
        browsing(served) as browser,
        browsing(served) as other,
    ):
        start = await browser.open("/page/login/start")
        await other.open("/page/login/start")
        answer = provider.agree(start.headers["location"])
        stolen = await other.open(answer)
        assert (stolen.status_code, "begun in another browser" in stolen.text) == (400, True)
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        assert (await browser.open(answer)).status_code == 303
        again = await browser.open(answer)
        assert (again.status_code, "begun in another browser" in again.text) == (400, True)
        # A thief who has the cookie too has a code that the provider does not take again.
        replayed = await other.open(answer, Cookie=cookies)
        assert (replayed.status_code, "gives no token" in replayed.text) == (400, True)
        assert "set-cookie" not in replayed.headers or "Max-Age=0" in replayed.headers["set-cookie"]
        assert (await other.open("/")).status_code == 401


async def test_two_logins_in_one_browser_do_not_disturb_each_other(two: Path, provider: PageProvider) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        starts = [await browser.open(f"/page/login/start?back=/page/{name}") for name in ("a", "b")]
        answers = [await browser.open(provider.agree(each.headers["location"])) for each in starts]
    assert [each.headers["location"] for each in answers] == ["/page/a", "/page/b"]


@pytest.mark.parametrize("wrong", ["", "x", "ü", "x" * 5000])
async def test_an_answer_with_another_state_is_refused(two: Path, provider: PageProvider, wrong: str) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        start = await browser.open("/page/login/start")
        query = provider.asked_for(start.headers["location"])
        answer = await browser.open(provider.back({**query, "state": wrong}, code="code"))
        assert answer.status_code == 400
        assert (await browser.open("/page/login/callback")).status_code == 400
        assert (await browser.open("/")).status_code == 401
    assert not provider.client


async def test_a_login_that_took_too_long_is_over(
    two: Path, provider: PageProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        start = await browser.open("/page/login/start")
        later = time.time() + 601
        monkeypatch.setattr("server.capabilities.web.sessions.time.time", lambda: later)
        answer = await browser.open(provider.agree(start.headers["location"]))
    assert (answer.status_code, "This login is over" in answer.text) == (400, True)


@pytest.mark.parametrize("issuer", ["https://evil.example", f"{ISSUER}/", ""])
async def test_an_answer_of_another_provider_is_refused(two: Path, provider: PageProvider, issuer: str) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        for given in ({"code": "code-0"}, {"error": "access_denied"}):
            start = await browser.open("/page/login/start")
            provider.agree(start.headers["location"])
            query = provider.asked_for(start.headers["location"])
            answer = await browser.open(provider.back(query, iss=issuer, **given))
            assert (answer.status_code, "not one of the identity provider" in answer.text) == (400, True)
    assert len(provider.codes) == 2


async def test_a_provider_that_names_no_issuer_is_one_that_never_does(two: Path, provider: PageProvider) -> None:
    del provider.metadata["authorization_response_iss_parameter_supported"]
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        start = await browser.open("/page/login/start")
        answer = provider.agree(start.headers["location"]).replace(urlencode({"iss": ISSUER}), "x=y")
        assert (await browser.open(answer)).status_code == 303


async def test_people_are_told_that_the_provider_refused_and_why(two: Path, provider: PageProvider) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        start = await browser.open("/page/login/start?back=/page/skill/one")
        query = provider.asked_for(start.headers["location"])
        told = {"error": "access_denied", "error_description": "<b>You may not.</b>" + "x" * 500}
        answer = await browser.open(provider.back(query, **told))
    assert answer.status_code == 400
    assert "did not log you in: access_denied &lt;b&gt;You may not.&lt;/b&gt;" in answer.text
    assert "x" * 300 not in answer.text
    assert 'href="http' in answer.text


async def test_a_provider_that_is_away_is_said_and_asked_again(
    two: Path, provider: PageProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.web.provider_login._PAUSE_SECONDS", 0.0)
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        metadata = provider.answers.pop(METADATA)
        answer = await browser.open("/page/login/start")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
        assert "does not answer" in answer.text
        provider.answers[METADATA] = metadata
        start = await browser.open("/page/login/start")
        for status, code in ((None, 303), (500, 503), (400, 400), (401, 400)):
            provider.status = status
            answer = await browser.open(provider.agree(start.headers["location"]))
            assert answer.status_code == code
            start = await browser.open("/page/login/start")
        assert "gives no token" in answer.text


@pytest.mark.parametrize(
    "changed",
    [
        {"authorization_endpoint": None},
        {"authorization_endpoint": "http://id.example.com/authorize"},
        {"authorization_endpoint": "javascript:x()"},
        {"token_endpoint": "https://id.example.com/token#x"},
        {"token_endpoint": ["https://id.example.com/token"]},
        {"code_challenge_methods_supported": ["plain"]},
        {"code_challenge_methods_supported": "S256"},
        {"token_endpoint_auth_methods_supported": 1},
        {"issuer": "https://other.example.com"},
    ],
)
async def test_a_provider_that_cannot_log_in_browsers_is_said(
    two: Path, provider: PageProvider, changed: dict[str, Any]
) -> None:
    provider.metadata |= changed
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        answer = await browser.open("/page/login/start")
        assert answer.status_code == 503
        assert "log" in answer.text
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "answer", [{"token_type": "DPoP"}, {}, {"token_type": "Bearer", "access_token": None}, {"token_type": 1}]
)
async def test_an_answer_without_a_bearer_token_is_no_login(
    two: Path, provider: PageProvider, answer: dict[str, Any]
) -> None:
    provider.answer = answer
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        told = await browser.log_in_at(provider)
    assert (told.status_code, "gives no bearer token" in told.text) == (400, True)


@pytest.mark.parametrize(
    "claims", [{"aud": "https://other.example.com/mcp"}, {"aud": None}, {"exp": 1}, {"iss": "https://evil.example"}]
)
async def test_a_token_that_clients_could_not_use_opens_no_page(
    two: Path, provider: PageProvider, claims: dict[str, Any]
) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        answer = await browser.log_in_at(provider, **claims)
        assert answer.status_code == 401
        assert "token that is not one for this server" in answer.text
        assert (await browser.open("/")).status_code == 401
    assert [each.reason for each in served.found if each.method == "login"] == ["login_invalid"]


async def test_a_token_of_a_foreign_key_opens_no_page(
    two: Path, provider: PageProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.capabilities.web.visiting.RSA", FOREIGN)
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        assert (await browser.log_in_at(provider)).status_code == 401


async def test_a_token_that_is_refused_soon_after_it_was_given_is_not_renewed(
    two: Path, provider: PageProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        await browser.log_in_at(provider)
        refuse_tokens(monkeypatch)
        # The provider would give another one, and so on.
        soon = await browser.open("/page/skill/one")
        assert (soon.status_code, "Your session has ended" in soon.text) == (401, True)


def refuse_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse all tokens from now on, as if those that were verified had expired."""

    async def verify(*_: object) -> None:
        return None

    monkeypatch.setattr("server.capabilities.login.login.JwtVerifier.verify", verify)
    monkeypatch.setattr("server.capabilities.login.login.JwtVerifier.known", lambda *_: None)


async def test_a_session_of_the_provider_is_renewed_in_place(
    two: Path, provider: PageProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        await browser.log_in_at(provider)
        now = time.time()
        monkeypatch.setattr("server.capabilities.web.visitors.time.time", lambda: now + 400)
        refuse_tokens(monkeypatch)
        assert (await browser.fetch("/page/skill/one")).status_code == 401
        away = await browser.open("/page/skill/one?file=SKILL.md")
        assert away.status_code == 303
        assert away.headers["location"] == f"/page/login/start?{urlencode({'back': '/page/skill/one?file=SKILL.md'})}"
        monkeypatch.undo()
        monkeypatch.setattr("server.capabilities.login.login.Provider", lambda: provider)
        begun = await browser.open(away.headers["location"])
        back = await browser.open(provider.agree(begun.headers["location"]))
        assert back.headers["location"] == "/page/skill/one?file=SKILL.md"
        # After the end of the session as well, the provider knows who it is.
        await browser.send("/page/logout", {"form_token": await browser.form_token()})
        assert (await browser.open("/")).status_code == 401


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil.example", "/page/logout"])
async def test_a_login_at_the_provider_leads_nowhere_else(two: Path, provider: PageProvider, back: str) -> None:
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        assert (await browser.log_in_at(provider, back)).headers["location"] == "/"


async def test_the_page_of_a_public_address_sends_people_there(two: Path, provider: PageProvider) -> None:
    options = {**OPTIONS, "login_audience": "api://skills", "login_resource": "https://skills.example.com/team/mcp"}
    async with serving(two, **options) as served, browsing(served) as browser:
        asked = await browser.open("/")
        assert 'href="https://skills.example.com/page/login/start?back=%2F"' in asked.text
        query = provider.asked_for((await browser.open("/page/login/start")).headers["location"])
    assert query["redirect_uri"] == "https://skills.example.com/page/login/callback"
    assert query["resource"] == "https://skills.example.com/team/mcp"


@pytest.mark.usefixtures("provider")
async def test_without_a_client_of_the_provider_the_page_says_what_is_missing(two: Path) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "web_client_id"}
    async with serving(two, **options) as served, browsing(served) as browser:
        asked = await browser.open("/")
        assert (asked.status_code, "web.client_id" in asked.text) == (401, True)
        assert (await browser.open("/page/login/start")).status_code == 404


@pytest.mark.parametrize("away", [True, False])
async def test_many_logins_at_once_ask_the_provider_once(
    two: Path, provider: PageProvider, monkeypatch: pytest.MonkeyPatch, *, away: bool
) -> None:
    """Anybody can begin logins, and a provider that does not answer keeps each request waiting."""
    answers, begun, begins = list[int](), list[str](), ProviderLogin.begin

    async def counted(self: ProviderLogin, back: str) -> tuple[str, str, str]:
        begun.append(back)
        if len(begun) == MANY and provider.gate is not None:
            provider.gate.set()
        return await begins(self, back)

    monkeypatch.setattr(ProviderLogin, "begin", counted)
    async with serving(two, **OPTIONS) as served, browsing(served) as browser:
        provider.away, provider.gate = away, anyio.Event()
        provider.asked.clear()

        async def begin() -> None:
            answers.append((await browser.open("/page/login/start")).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(MANY):
                tasks.start_soon(begin)
        assert answers == [503 if away else 303] * MANY
    assert len(provider.asked) == len({*provider.asked})


async def test_no_secret_of_a_login_is_logged_or_recorded(
    two: Path, provider: PageProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with serving(two, **OPTIONS, web_client_secret=SECRETS[1]) as served:
        async with browsing(served) as browser:
            start = await browser.open("/page/login/start")
            query = parse_qs(urlsplit(start.headers["location"]).query)
            await browser.open(provider.agree(start.headers["location"]))
            provider.status = 400
            await browser.log_in_at(provider)
            values = [*browser.cookies.values()]
        told = str(served.found) + "".join(
            each.getMessage() for each in caplog.records if each.name.startswith("server.")
        )
    for secret in (*values, query["state"][0], SECRETS[1], "code-0"):
        assert secret not in told
