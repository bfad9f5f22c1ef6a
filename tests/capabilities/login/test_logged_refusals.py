"""In JSON logs, the lines of one refused login belong together, and claim no principal."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.capabilities.login.login import Login, LoginRefusal
from server.logs.json_logs import JsonHandler, log_request
from server.requests import NOTES, Records, RequestRecord
from tests.capabilities.login.conftest import ISSUER, JWKS, RSA, FakeProvider, settings
from tests.capabilities.login.serving import serving, write_skill
from tests.capabilities.operation.test_json_logs import objects

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is written of all that the server logs."""
    handler, logger = JsonHandler(), logging.getLogger("server")
    stream = io.StringIO()
    handler.setStream(stream)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch, provider: FakeProvider) -> FakeProvider:
    monkeypatch.setattr("server.capabilities.login.login.Provider", lambda: provider)
    return provider


async def refused(skills: Path, token: str, path: str = "") -> tuple[int, set[str]]:
    """Send a request with a token; return the status, and the ids of the records."""
    records, found = Records(), list[str]()
    records.add(log_request)
    records.add(lambda record: found.append(record.request_id))
    options: dict[str, Any] = {"login_issuer": ISSUER, "login_jwks_url": JWKS, "records": records}
    async with serving(skills, **options) as url, httpx2.AsyncClient(timeout=60) as client:
        address = url.replace("/mcp", path) if path else url
        method = "GET" if path else "POST"
        answer = await client.request(method, address, json=PING, headers={"Authorization": f"Bearer {token}"})
    return answer.status_code, {*found}


@pytest.mark.parametrize("path", ["", "/admin/status"])
async def test_all_lines_of_a_refused_login_have_the_id_of_its_record_and_the_address(
    path: str, tmp_path: Path, issuer: FakeProvider, written: io.StringIO
) -> None:
    token = RSA.sign(aud="https://other.example.com")
    status, (record,) = await refused(write_skill(tmp_path / "skills"), token, path)
    assert status == 401
    lines = [each for each in objects(written.getvalue()) if each.get("request_id")]
    assert [(each["message"], each["request_id"], each["address"]) for each in lines] == [
        ("a token is refused: it is for another audience than login.audience", record, "127.0.0.1"),
        ("login refused: invalid", record, "127.0.0.1"),
        ("request", record, "127.0.0.1"),
    ]
    assert issuer.answers


async def test_lines_of_a_refused_login_name_no_principal(
    tmp_path: Path, issuer: FakeProvider, written: io.StringIO
) -> None:
    await refused(write_skill(tmp_path / "skills"), RSA.sign(exp=1))
    lines = objects(written.getvalue())
    assert any(each.get("method") == "login" for each in lines)
    assert [each for each in lines if "principal" in each or "principal_kind" in each] == []
    assert issuer.answers


async def test_what_comes_after_a_login_has_not_its_id(tmp_path: Path, provider: FakeProvider) -> None:
    records, found = Records(), list[RequestRecord]()
    records.add(found.append)
    login = Login(settings(), tmp_path / "tokens.json", provider, records)
    assert await login.authenticate({"type": "http", "path": "/mcp", "headers": []}) is LoginRefusal.MISSING
    assert len(found) == 1
    assert NOTES.get() is None
