"""What HTTP requests get with and without a token, in both eras."""

from __future__ import annotations

import gc
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.client.streamable_http import streamable_http_client

from server.access import Principal, PrincipalKind
from server.capabilities.login.login import Login
from server.capabilities.login.settings import LoginSettings
from server.capabilities.login.static_tokens import TokenFile
from server.capabilities.login.token_claims import login_token
from server.transport.event_streams import OpenResponse
from tests.capabilities.login.conftest import ISSUER, JWKS, RSA, FakeProvider, requiring_login
from tests.capabilities.login.serving import serving

MODES: list[ConnectMode] = ["legacy", "2026-07-28"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch, provider: FakeProvider) -> FakeProvider:
    """Let servers in this process get keys from memory."""
    monkeypatch.setattr("server.capabilities.login.login.Provider", lambda: provider)
    return provider


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


_CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _CLIENT}


async def open_session(client: httpx2.AsyncClient, url: str, token: str) -> dict[str, str]:
    """Open a session of the handshake era, and return the headers of a request for its stream."""
    opened = await client.post(url, json=INITIALIZE, headers={**ACCEPT, **bearer(token)})
    return {"Accept": "text/event-stream", "Mcp-Session-Id": opened.headers["mcp-session-id"], **bearer(token)}


async def tool_names(url: str, mode: ConnectMode, text: str) -> list[str]:
    async with (
        httpx2.AsyncClient(headers=bearer(text)) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_with_a_static_token_is_served(skills: Path, file: TokenFile, mode: ConnectMode) -> None:
    text = file.add("anna", (), None)
    async with serving(skills, login_tokens=True) as url:
        assert "activate_skill" in await tool_names(url, mode, text)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("issuer")
async def test_a_client_with_a_jwt_is_served(skills: Path, mode: ConnectMode) -> None:
    async with serving(skills, login_issuer=ISSUER, login_jwks_url=JWKS) as url:
        assert "activate_skill" in await tool_names(url, mode, RSA.sign(aud=url))


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "OPTIONS"])
@pytest.mark.usefixtures("file")
async def test_every_request_to_the_endpoint_needs_a_token(skills: Path, method: str) -> None:
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient() as client:
        answer = await client.request(method, url, headers=ACCEPT)
        health = await client.get(url.removesuffix("mcp") + "health")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="skillserve"'
    assert health.status_code == 200


@pytest.mark.usefixtures("issuer")
async def test_the_challenge_names_metadata_and_scopes(skills: Path) -> None:
    options = {"login_issuer": ISSUER, "login_jwks_url": JWKS, "login_required_scopes": ("skills", "more")}
    async with serving(skills, **options) as url, httpx2.AsyncClient() as client:
        missing = await client.post(url, json=PING, headers=ACCEPT)
        invalid = await client.post(url, json=PING, headers={**ACCEPT, **bearer(RSA.sign())})
        narrow = await client.post(url, json=PING, headers={**ACCEPT, **bearer(RSA.sign(aud=url, scope="skills"))})
        wide = await client.post(url, json=PING, headers={**ACCEPT, **bearer(RSA.sign(aud=url, scope="more skills"))})
    place = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    common = f'scope="skills more", resource_metadata="{place}"'
    assert missing.status_code == 401
    assert missing.headers["www-authenticate"] == f"Bearer {common}"
    assert invalid.status_code == 401
    assert invalid.headers["www-authenticate"].startswith('Bearer error="invalid_token", error_description=')
    assert invalid.headers["www-authenticate"].endswith(common)
    assert narrow.status_code == 403
    assert narrow.headers["www-authenticate"].startswith('Bearer error="insufficient_scope"')
    assert narrow.headers["www-authenticate"].endswith(common)
    assert wide.status_code not in {401, 403}


@pytest.mark.parametrize("path", ["", "/mcp"])
@pytest.mark.usefixtures("issuer")
async def test_the_metadata_is_where_clients_look(skills: Path, path: str) -> None:
    async with serving(skills, login_issuer=ISSUER) as url, httpx2.AsyncClient() as client:
        place = url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource" + path
        answer = await client.get(place)
    assert answer.json() == {
        "resource": url,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "resource_name": "skillserve",
    }
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.usefixtures("issuer")
async def test_the_login_of_a_profile_is_that_of_the_endpoint(skills: Path) -> None:
    access = {"access_roles": {"editor": ["*"]}, "access_profiles": {"editors": ["editor"]}}
    async with (
        serving(skills, login_issuer=ISSUER, login_jwks_url=JWKS, **access) as url,
        httpx2.AsyncClient(headers=ACCEPT) as client,
    ):
        refused = [await client.post(url + path, json=INITIALIZE) for path in ("", "/editors")]
        root = url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource"
        found = [await client.get(f"{root}/mcp{path}") for path in ("", "/editors", "/other")]
        token = bearer(RSA.sign(aud=url, roles=["editor"]))
        served = [(await client.post(url + path, json=INITIALIZE, headers=token)) for path in ("/editors", "/other")]
    assert [answer.status_code for answer in refused] == [401, 401]
    assert refused[0].headers["www-authenticate"] == refused[1].headers["www-authenticate"]
    assert f'resource_metadata="{root}/mcp"' in refused[1].headers["www-authenticate"]
    assert [answer.status_code for answer in found] == [200, 200, 404]
    assert found[0].json() == found[1].json()
    assert [answer.status_code for answer in served] == [200, 404]


async def test_a_token_outside_of_the_header_is_no_token(skills: Path, file: TokenFile) -> None:
    text = file.add("anna", (), None)
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient() as client:
        query = await client.post(f"{url}?access_token={text}", json=PING, headers=ACCEPT)
        form = await client.post(url, data={"access_token": text}, headers=ACCEPT)
        cookie = await client.post(url, json=PING, headers={**ACCEPT, "Cookie": f"access_token={text}"})
    assert [query.status_code, form.status_code, cookie.status_code] == [401, 401, 401]


async def test_smuggled_headers_are_refused(skills: Path, file: TokenFile) -> None:
    text = file.add("anna", (), None)
    wrong = [
        [("Authorization", f"Bearer {text}"), ("Authorization", "Bearer other")],
        [("Authorization", "Bearer other"), ("authorization", f"Bearer {text}")],
        [("Authorization", f"Bearer {text}, Bearer other")],
        [("Authorization", f"Bearer {text} other")],
        [("Authorization", f"Basic {text}")],
        [("Authorization", "Bearer")],
        [("Authorization", text)],
    ]
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient() as client:
        answers = [await client.post(url, json=PING, headers=[*ACCEPT.items(), *headers]) for headers in wrong]
        others = [
            await client.post(url, json=PING, headers={**ACCEPT, name: f"Bearer {text}"})
            for name in ("X-Authorization", "Proxy-Authorization", "X-Forwarded-Access-Token", "Authorization_")
        ]
        large = await client.post(url, json=PING, headers={**ACCEPT, **bearer("a." * 10_000 + "a")})
    assert {answer.status_code for answer in answers} == {400}
    assert {answer.status_code for answer in others} == {401}
    assert large.status_code == 401


@pytest.mark.parametrize("around", [(b"\xa0", b""), (b"", b"\xa0"), (b"\x85", b""), (b"", b"\x85")])
async def test_only_spaces_and_tabs_around_a_token_are_no_part_of_it(
    skills: Path, file: TokenFile, around: tuple[bytes, bytes]
) -> None:
    text = file.add("anna", (), None).encode()
    before, after = around
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient(headers=ACCEPT) as client:
        given = [b"Bearer " + before + text + after, b"Bearer  \t" + text]
        answers = [await client.post(url, json=PING, headers={b"Authorization": each}) for each in given]
    assert [answer.status_code == 401 for answer in answers] == [True, False]


async def test_a_provider_that_is_away_is_no_fault_of_the_client(skills: Path, issuer: FakeProvider) -> None:
    issuer.away = True
    async with serving(skills, login_issuer=ISSUER, login_jwks_url=JWKS) as url, httpx2.AsyncClient() as client:
        answer = await client.post(url, json=PING, headers={**ACCEPT, **bearer(RSA.sign(aud=url))})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert "www-authenticate" not in answer.headers


async def test_a_session_belongs_to_the_one_who_opened_it(skills: Path, file: TokenFile) -> None:
    anna, bob = file.add("anna", (), None), file.add("bob", (), None)
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient() as client:
        opened = await client.post(url, json=opening, headers={**ACCEPT, **bearer(anna)})
        session = {**ACCEPT, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        own = await client.post(url, json=PING, headers={**session, **bearer(anna)})
        foreign = await client.post(url, json=PING, headers={**session, **bearer(bob)})
        unknown = await client.post(url, json=PING, headers={**session, "Mcp-Session-Id": "0" * 32, **bearer(bob)})
        stolen = await client.post(url, json=PING, headers=session)
    assert own.status_code == 200
    assert (foreign.status_code, foreign.content) == (unknown.status_code, unknown.content) == (404, unknown.content)
    assert stolen.status_code == 401


@pytest.mark.usefixtures("issuer")
async def test_a_session_ends_with_the_roles_that_opened_it(skills: Path) -> None:
    options = {"login_issuer": ISSUER, "login_jwks_url": JWKS, "login_roles_claim": "groups"}
    async with serving(skills, **options) as url, httpx2.AsyncClient(timeout=30) as client:
        session = await open_session(client, url, RSA.sign(aud=url, groups=["a", "b"]))
        session["Accept"] = ACCEPT["Accept"]
        same, fewer = (bearer(RSA.sign(aud=url, groups=each)) for each in (["b", "a"], ["a"]))
        asked = [await client.post(url, json=PING, headers={**session, **each}) for each in (same, fewer)]
        stream = await client.get(url, headers={**session, **fewer})
    assert [each.status_code for each in asked] == [200, 404]
    assert stream.status_code == 404


@pytest.mark.usefixtures("issuer")
async def test_a_stream_ends_when_its_token_expires(skills: Path) -> None:
    options = {"login_issuer": ISSUER, "login_jwks_url": JWKS, "login_leeway_seconds": 1}
    async with serving(skills, **options) as url, httpx2.AsyncClient(timeout=30) as client:
        session = await open_session(client, url, RSA.sign(aud=url, exp=int(time.time()) + 1))
        answer = await client.get(url, headers=session)
    assert answer.status_code == 200


async def test_the_streams_of_a_revoked_token_end_and_no_others(skills: Path, file: TokenFile) -> None:
    anna, bob = file.add("anna", (), None), file.add("bob", (), None)
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient(timeout=30) as client:
        sessions = [await open_session(client, url, text) for text in (anna, bob)]
        async with (
            client.stream("GET", url, headers=sessions[0]) as annas,
            client.stream("GET", url, headers=sessions[1]) as bobs,
        ):
            file.revoke("anna")
            async for _ in annas.aiter_bytes():
                pass
            assert not bobs.is_closed
            refused = await client.post(url, json=PING, headers={**sessions[0], **ACCEPT})
            served = await client.post(url, json=PING, headers={**sessions[1], **ACCEPT})
    assert (refused.status_code, served.status_code) == (401, 200)


async def test_the_admin_routes_need_the_role_or_the_admin_token(skills: Path, file: TokenFile) -> None:
    user, admin = file.add("anna", ("editor",), None), file.add("root", ("admin",), None)
    late = file.add("late", ("admin",), datetime.now(UTC) - timedelta(seconds=5))
    async with serving(skills, login_tokens=True, admin_token="x" * 32) as url, httpx2.AsyncClient() as client:
        place = url.removesuffix("mcp") + "admin/status"
        codes = {
            name: (await client.get(place, headers=bearer(text) if text else {})).status_code
            for name, text in {"none": "", "user": user, "admin": admin, "late": late, "token": "x" * 32}.items()
        }
        on_endpoint = await client.post(url, json=PING, headers={**ACCEPT, **bearer("x" * 32)})
    assert codes == {"none": 401, "user": 403, "admin": 200, "late": 401, "token": 200}
    assert on_endpoint.status_code == 401


@pytest.mark.parametrize(
    ("roles", "admitted"),
    [(("admin",), {"admin"}), (("boss", "ops"), {"boss"}), (("metrics",), {"metrics"})],
)
async def test_the_settings_name_the_roles_that_administer(
    roles: tuple[str, ...], admitted: set[str], skills: Path, file: TokenFile
) -> None:
    tokens = {role: file.add(f"of-{role}", (role,), None) for role in ("admin", "boss", "metrics", "editor")}
    options = {"login_tokens": True, "login_admin_roles": roles, "metrics": True}
    async with serving(skills, **options) as url, httpx2.AsyncClient() as client:
        at = url.removesuffix("mcp")
        answers = {
            path: {
                role
                for role, token in tokens.items()
                if (await client.get(at + path, headers=bearer(token))).status_code == 200
            }
            for path in ("admin/status", "metrics")
        }
    assert answers == {"admin/status": admitted, "metrics": admitted | {"metrics"}}


async def test_no_token_is_in_logs_and_answers(skills: Path, file: TokenFile, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    text = file.add("anna", (), None)
    secrets = [text.split("_", 2)[2], "sks_0123_wrongsecret", "aaaa.bbbbbb.wrongjwt"]
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient() as client:
        answers = [
            (await client.post(url, json=PING, headers={**ACCEPT, **bearer(each)})).text
            for each in (text, *secrets[1:], f"{text} {text}")
        ]
    written = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith(("http", "hpack"))
    )
    for secret in secrets:
        assert secret not in written
        assert all(secret not in answer for answer in answers)


async def test_clients_are_told_to_request_the_advertised_scopes(skills: Path) -> None:
    options = {"login_issuer": ISSUER, "login_jwks_url": JWKS, "login_required_scopes": ("use",)}
    async with (
        serving(skills, login_advertised_scopes=("api://skills/use",), **options) as url,
        httpx2.AsyncClient() as client,
    ):
        refused = await client.post(url, json=PING, headers=ACCEPT)
        assert 'scope="api://skills/use"' in refused.headers["www-authenticate"]
        metadata = await client.get(url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"))
        assert metadata.json()["scopes_supported"] == ["api://skills/use"]


@pytest.mark.parametrize("path", ["/mcp/", "/mcp/?x=1", "/mcp//", "/health/", "//mcp"])
async def test_a_slash_too_many_leads_to_no_other_server(skills: Path, file: TokenFile, path: str) -> None:
    token = file.add("anna", (), None)
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient() as client:
        headers = {**bearer(token), "Host": "localhost:1"}
        answer = await client.post(url.removesuffix("/mcp") + path, json=PING, headers=headers)
    location = "/mcp" if path.partition("?")[0] == "/mcp/" else None
    assert (answer.status_code, answer.headers.get("location")) == (308 if location else 404, location)


async def test_a_role_that_is_missing_is_no_reason_to_log_in_again(skills: Path, file: TokenFile) -> None:
    token = file.add("anna", ("reader",), None)
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient() as client:
        answer = await client.get(url.replace("/mcp", "/admin/status"), headers=bearer(token))
    assert (answer.status_code, answer.json()["error"]) == (403, "access_denied")
    assert "www-authenticate" not in answer.headers


async def test_repeated_headers_do_not_pass_the_gate_of_administrators(skills: Path, file: TokenFile) -> None:
    admin = "0123456789abcdef-for-administrators"
    async with serving(skills, login_tokens=True, admin_token=admin) as url, httpx2.AsyncClient() as client:
        status = url.replace("/mcp", "/admin/status")
        assert (await client.get(status, headers=bearer(admin))).status_code == 200
        twice = [("Authorization", f"Bearer {admin}"), ("Authorization", f"Bearer {file.add('anna', (), None)}")]
        assert (await client.get(status, headers=twice)).status_code == 400


async def test_a_request_whose_token_is_revoked_meanwhile_is_refused_as_invalid(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.login.static_tokens._POLL_SECONDS", 0.01)
    token = file.add("anna", (), None)
    login = Login(LoginSettings(tokens=True), file.path)
    begun = anyio.Event()

    async def app(*_: object) -> None:
        begun.set()
        await anyio.sleep_forever()

    transport = httpx2.ASGITransport(requiring_login(app, login))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(login.run)

        async def revoke() -> None:
            await begun.wait()
            file.revoke("anna")

        tasks.start_soon(revoke)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            with anyio.fail_after(60):
                answer = await client.post("/mcp", json=PING, headers=bearer(token))
        tasks.cancel_scope.cancel()
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")


def test_a_static_token_has_no_leeway(file: TokenFile) -> None:
    text = file.add("anna", (), datetime.now(UTC) + timedelta(hours=1))
    login = Login(LoginSettings(tokens=True, leeway_seconds=300), file.path)
    assert login._static is not None
    token = login._static.verify(text)
    assert token is not None
    assert 3590 < login._seconds_left(token) <= 3600


def test_a_token_of_a_provider_has_its_leeway_once(file: TokenFile) -> None:
    login = Login(LoginSettings(tokens=True, leeway_seconds=300), file.path)
    expires = int(time.time()) - 200
    principal = Principal("anna", PrincipalKind.JWT, frozenset(), frozenset(), None, expires)
    assert 90 < login._seconds_left(login_token(principal, ISSUER)) <= 100


async def test_a_token_that_is_added_while_the_server_runs_works_at_once(skills: Path, file: TokenFile) -> None:
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient(timeout=60) as client:
        for name in ("anna", "bob", "carl"):
            text = file.add(name, (), None)
            assert (await client.post(url, json=PING, headers=bearer(text))).status_code != 401
        assert file.revoke("bob")
        assert (await client.post(url, json=PING, headers=bearer(f"sks_{'0' * 12}_x"))).status_code == 401


async def test_nothing_of_a_request_waits_for_the_garbage_collector(skills: Path, file: TokenFile) -> None:
    text = file.add("anna", (), None)
    async with serving(skills, login_tokens=True) as url, httpx2.AsyncClient(timeout=60) as client:
        gc.disable()
        try:
            for _ in range(20):
                await client.post(url, headers={**ACCEPT, **bearer(text)}, json=PING)
            left = sum(isinstance(each, OpenResponse) for each in gc.get_objects())
        finally:
            gc.enable()
    # The connection keeps its last one.
    assert left <= 2
