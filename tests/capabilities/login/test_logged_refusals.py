"""In JSON logs, the lines of one refused login belong together, and claim no principal."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.capabilities.login.login import Login, LoginRefusal
from server.capabilities.login.refusals import RefusalLog, fingerprint
from server.capabilities.login.static_tokens import StaticTokens, TokenFile
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
        (
            f"login refused: token {fingerprint(token)}: it is for another audience than login.audience",
            record,
            "127.0.0.1",
        ),
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


def test_a_refused_static_token_is_named_with_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    file = TokenFile(tmp_path / "tokens.json")
    past = datetime.now(UTC) - timedelta(days=2)
    old, gone, other = file.add("old", (), past), file.add("gone", (), None), file.add("other", (), None)
    tokens = StaticTokens(file)
    assert file.revoke("gone")
    tokens.reload_if_changed()
    invented, hostile = "sks_0123456789ab_invented-text", "sks_\x1b[2J"
    for text in (old, gone, f"{other}x", invented, hostile):
        assert tokens.verify(text) is None
    ids = [text.split("_")[1] for text in (old, gone, other)]
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        f"token {ids[0]} (old): it expired at {past:%Y-%m-%dT%H:%M:%SZ}",
        f"token {ids[1]} (gone): it was revoked",
        f"token {ids[2]} (other): it has the ID of this token and another secret: it was copied in part, or invented",
        "token 0123456789ab: it is unknown; see `skillserve token list`",
        f"token {fingerprint(hostile)}: it is unknown; see `skillserve token list`",
    ]
    for text in (old, gone, other, invented):
        assert text.split("_", 2)[2] not in caplog.text


@pytest.mark.parametrize(
    ("changed", "token", "why"),
    [
        ({}, "sks_0123456789ab_secret", "it is one of `skillserve token`, and login.tokens is off"),
        ({"introspection_url": None}, "opaque", "it is not a JWT, and login.introspection_url is not set"),
        ({"tokens": True, "issuer": None, "introspection_url": None}, "a.b.c", "login.issuer is not set"),
        ({}, "x" * 9000, "it is longer than 8192 characters"),
        ({}, "é", "it is not ASCII"),
    ],
)
async def test_a_token_that_no_verifier_takes_is_logged_too(
    changed: dict[str, Any], token: str, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    login = Login(settings(**changed), tmp_path / "tokens.json", FakeProvider())
    header = (b"authorization", b"Bearer " + token.encode("latin-1"))
    refused = await login.authenticate({"type": "http", "path": "/mcp", "headers": [header]})
    assert refused is LoginRefusal.INVALID
    (message,) = caplog.messages
    assert why in message
    assert fingerprint(token) in message
    assert token not in message


def test_invented_tokens_do_not_fill_the_log_and_hide_no_genuine_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    log = RefusalLog(lambda: now)
    for number in range(1000):
        log.token(f"invented {number}", "it is unknown")
    assert len(caplog.messages) == 20
    log.token("real", "it has expired", genuine=True)
    assert "it has expired (after 980 refusals without a line)" in caplog.messages[-1]
    now = 10.0
    log.token("real", "it has expired", genuine=True)
    assert len(caplog.messages) == 21
    now = 100.0
    log.token("real", "it has expired", genuine=True)
    assert "(after 1 refusal without a line)" in caplog.messages[-1]


def test_a_hostile_name_stays_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    RefusalLog().request("why", sender="a\nINFO all is well\x1b[2J" + "b" * 500)
    (message,) = caplog.messages
    assert message.isprintable()
    assert len(message) < 200
