"""Who uses the session of another principal is answered as if there was none, and leaves a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.capabilities.auditlog.records import AuditEvent
from server.capabilities.login.static_tokens import TokenFile
from server.requests import SESSION_METHOD, Records, RequestDecision, RequestReason, RequestRecord
from server.transport import sessions
from tests.capabilities.auditlog.helpers import audit_record
from tests.capabilities.login.serving import serving
from tests.capabilities.login.test_http_login import ACCEPT, PING, bearer, open_session


@pytest.fixture
def found() -> list[RequestRecord]:
    return []


@pytest.fixture
def records(found: list[RequestRecord]) -> Records:
    records = Records()
    records.add(found.append)
    return records


def of_sessions(found: list[RequestRecord]) -> list[RequestRecord]:
    return [each for each in found if each.method == SESSION_METHOD]


async def opened(client: httpx2.AsyncClient, url: str, token: str) -> dict[str, str]:
    """Open a session that can be notified; return its header."""
    headers = {**await open_session(client, url, token), **ACCEPT}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await client.post(url, json=ready, headers=headers)).status_code == 202
    # A notification is handled after it is answered; this request is handled after the notification.
    assert (await client.post(url, json=PING, headers=headers)).status_code == 200
    return {"Mcp-Session-Id": headers["Mcp-Session-Id"]}


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("path", ["", "/reading"])
@pytest.mark.parametrize("awake_seconds", [0.01, 5.0])
async def test_each_request_with_the_session_of_somebody_else_is_recorded(
    skills: Path,
    file: TokenFile,
    records: Records,
    found: list[RequestRecord],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    awake_seconds: float,
) -> None:
    monkeypatch.setattr(sessions, "AWAKE_SECONDS", awake_seconds)
    anna, bob = file.add("anna", (), None), file.add("bob", (), None)
    access: dict[str, Any] = {"access_roles": {"reader": ["*"]}, "access_profiles": {"reading": ["reader"]}}
    options: dict[str, Any] = {**access, "access_default_roles": ("reader",), "records": records}
    async with serving(skills, login_tokens=True, **options) as url, httpx2.AsyncClient() as client:
        headers = {**ACCEPT, **await opened(client, url, anna), **bearer(bob)}
        body = PING if method == "POST" else None
        answer = await client.request(method, url + path, json=body, headers=headers)
        own = await client.post(url, json=PING, headers={**headers, **bearer(anna)})
    assert (answer.status_code, own.status_code) == (404, 200)
    (record,) = of_sessions(found)
    assert (record.principal.subject, record.decision, record.reason) == (
        "bob",
        RequestDecision.DENIED,
        RequestReason.FOREIGN_SESSION,
    )
    assert (record.address, record.target) == ("127.0.0.1", "/mcp")
    assert headers["Mcp-Session-Id"] not in repr(found)
    kept = audit_record(record)
    assert kept is not None
    assert (kept.event, kept.principal) == (AuditEvent.REQUEST, "bob")


async def test_a_session_that_does_not_exist_is_nobodys(
    skills: Path, file: TokenFile, records: Records, found: list[RequestRecord]
) -> None:
    anna = file.add("anna", (), None)
    async with serving(skills, login_tokens=True, records=records) as url, httpx2.AsyncClient() as client:
        session = {**ACCEPT, **await opened(client, url, anna), **bearer(anna)}
        assert (await client.delete(url, headers=session)).status_code == 200
        for gone in (session, {**session, "Mcp-Session-Id": "0" * 32}):
            assert (await client.post(url, json=PING, headers=gone)).status_code == 404
    assert of_sessions(found) == []
