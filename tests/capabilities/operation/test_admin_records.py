"""Refused logins and requests to the admin routes are recorded, whoever sent them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx2
import pytest

from server.access import ADMIN_ROLE, LOCAL, PrincipalKind
from server.capabilities.login.static_tokens import TokenFile
from server.capabilities.operation.routes import open_routes
from server.config.machine import tokens_file
from server.requests import ADMIN_METHOD, LOGIN_METHOD, RequestDecision
from server.transport.admin_sockets import admin_socket
from server.transport.http import serve_locally
from tests.conftest import MakeSkill
from tests.server.serving import Served, bearer, serving

TOKEN = "0123456789abcdef-not-to-be-told"  # noqa: S105 - for tests


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return TokenFile(tokens_file())


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder for sockets; the paths of those must be short."""
    folder = Path(tempfile.mkdtemp()).resolve()
    yield folder
    shutil.rmtree(folder)


def outcomes(served: Served, method: str) -> list[tuple[str, str, RequestDecision, str]]:
    return [
        (each.principal.subject, each.target, each.decision, each.reason)
        for each in served.found
        if each.method == method
    ]


@pytest.mark.parametrize("path", ["/mcp", "/admin/status"])
async def test_each_refused_login_is_recorded_with_its_reason(
    make_skill: MakeSkill, skills: Path, file: TokenFile, path: str
) -> None:
    make_skill("one")
    token = file.add("anna", (), None)
    wrong = ["", "sks_0123456789ab_wrong", f"{token}, {token}"]
    async with serving(skills, login_tokens=True) as served:
        for each in wrong:
            headers = bearer(each) if each else {}
            answer = await served.client.request("POST" if path == "/mcp" else "GET", served.at(path), headers=headers)
            assert answer.status_code in {400, 401}
        assert outcomes(served, LOGIN_METHOD) == [
            ("", path, RequestDecision.DENIED, f"login_{reason}") for reason in ("missing", "invalid", "malformed")
        ]
        assert {each.address for each in served.found} == {"127.0.0.1"}
        assert len({each.request_id for each in served.found}) == 3
        # Nothing was asked for by anybody.
        assert outcomes(served, ADMIN_METHOD) == []
    assert not any(secret in repr(served.found) for secret in (token, "sks_"))


async def test_admin_requests_are_recorded_with_who_sent_them(
    make_skill: MakeSkill, skills: Path, file: TokenFile
) -> None:
    make_skill("one")
    anna, admin = file.add("anna", ("reader",), None), file.add("carol", (ADMIN_ROLE,), None)
    async with serving(skills, login_tokens=True, admin_token=TOKEN) as served:
        status, reload = served.at("/admin/status"), served.at("/admin/reload")
        assert (await served.client.get(status, headers=bearer(admin))).status_code == 200
        assert (await served.client.post(reload, headers=bearer(TOKEN))).status_code == 200
        assert (await served.client.get(f"{status}?state=none", headers=bearer(TOKEN))).status_code == 400
        assert (await served.client.post(reload, headers=bearer(anna))).status_code == 403
    assert outcomes(served, ADMIN_METHOD) == [
        ("carol", "/admin/status", RequestDecision.ALLOWED, ""),
        ("admin token", "/admin/reload", RequestDecision.ALLOWED, ""),
        ("admin token", "/admin/status", RequestDecision.INVALID, "invalid_request"),
        ("anna", "/admin/reload", RequestDecision.DENIED, "role"),
    ]
    assert {each.principal.kind for each in served.found} == {PrincipalKind.TOKEN}
    assert all(each.seconds > 0 for each in served.found if each.decision is RequestDecision.ALLOWED)


async def test_a_wrong_admin_token_is_recorded_as_denied(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, admin_token=TOKEN) as served:
        for given in ({}, bearer("wrong"), {"Authorization": f"Basic {TOKEN}"}):
            assert (await served.client.post(served.at("/admin/reload"), headers=given)).status_code == 401
    assert outcomes(served, ADMIN_METHOD) == [("local", "/admin/reload", RequestDecision.DENIED, "role")] * 3
    assert TOKEN not in repr(served.found)


async def test_an_admin_request_that_fails_is_recorded_as_failed(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")

    def fail(*_: object) -> None:
        raise OSError("no disk")

    monkeypatch.setattr("server.capabilities.operation.routes.log_reload", fail)
    monkeypatch.setattr("server.capabilities.operation.routes.read_status", fail)
    async with serving(skills, admin_token=TOKEN) as served:
        for method, path in (("POST", "/admin/reload"), ("GET", "/admin/status")):
            answer = await served.client.request(method, served.at(path), headers=bearer(TOKEN))
            assert answer.status_code == 500
    assert [each.decision for each in served.found] == [RequestDecision.FAILED] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such sockets")
async def test_admin_requests_on_the_socket_are_those_of_the_local_user(
    make_skill: MakeSkill, skills: Path, runtime: Path
) -> None:
    make_skill("one")
    async with serving(skills) as served:
        with admin_socket([runtime], 8000) as listener:
            assert listener is not None
            transport = httpx2.AsyncHTTPTransport(uds=listener.getsockname())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_locally, served.host, listener, open_routes(served.host))
                async with httpx2.AsyncClient(transport=transport, timeout=60) as client:
                    assert (await client.post("http://localhost/admin/reload")).status_code == 200
                tasks.cancel_scope.cancel()
    (record,) = served.found
    assert (record.method, record.principal, record.target, record.decision) == (
        ADMIN_METHOD,
        LOCAL,
        "/admin/reload",
        RequestDecision.ALLOWED,
    )


async def test_pages_of_other_sites_are_refused_before_anything_is_asked(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, admin_token=TOKEN) as served:
        headers = {**bearer(TOKEN), "Origin": "http://evil.example"}
        assert (await served.client.post(served.at("/admin/reload"), headers=headers)).status_code == 403
    assert [(each.method, each.reason) for each in served.found] == [("http", "foreign_origin")]


async def test_reading_metrics_is_no_action_and_makes_no_record(
    make_skill: MakeSkill, skills: Path, file: TokenFile
) -> None:
    make_skill("one")
    admin = file.add("carol", (ADMIN_ROLE,), None)
    async with serving(skills, login_tokens=True, metrics=True) as served:
        assert (await served.client.get(served.at("/metrics"), headers=bearer(admin))).status_code == 200
    assert served.found == []
