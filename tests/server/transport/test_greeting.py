"""People who open the address of a server learn how to connect to it, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from server.protocol.server import SkillServer
from server.transport.http import build_app
from tests.conftest import MakeSkill
from tests.server.serving import modern, modern_headers, serving

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
CURL = {"Accept": "*/*"}
ROLES: dict[str, Any] = {"access_roles": {"all": ["*"]}, "access_profiles": {"small": ["all"]}}


@pytest.fixture
def library(make_skill: MakeSkill, skills: Path) -> Path:
    make_skill("quokka", description="Where the wombat lives.")
    return skills


@pytest.mark.parametrize("accept", [BROWSER, CURL])
@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/mcp", 406), ("/mcp/small", 406)])
async def test_the_text_names_the_address_and_no_skill(
    library: Path, accept: dict[str, str], path: str, status: int
) -> None:
    async with serving(library, **ROLES, web_enabled=False) as served:
        answer = await served.client.get(served.at(path), headers=accept)
        head = await served.client.head(served.at(path), headers=accept)
    assert (answer.status_code, head.status_code, head.content) == (status, status, b"")
    address = served.at("/mcp/small" if path == "/mcp/small" else "/mcp")
    for line in (
        address,
        f"claude mcp add --transport http skills {address}",
        f"skillserve connect --http {address}",
        f"npx skills add {served.at('/mcp/small' if path == '/mcp/small' else '')}",
    ):
        assert f"  {line}\n" in answer.text
    assert "log in" not in answer.text
    assert "TOKEN" not in answer.text
    assert not {"quokka", "wombat", str(library)} & {*answer.text.split()}
    assert {**answer.headers, "date": ""} == {
        "date": "",
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(answer.content)),
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'",
        "x-content-type-options": "nosniff",
    }


async def test_the_text_is_the_same_whatever_skills_there_are(library: Path, tmp_path: Path) -> None:
    texts = []
    (tmp_path / "empty").mkdir()
    for folder in (library, tmp_path / "empty"):
        async with serving(folder) as served:
            answer = await served.client.get(served.at("/"))
            texts.append(answer.text.replace(served.at(""), ""))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("path", ["/", "/mcp"])
async def test_where_a_login_is_required_the_text_says_so_and_the_challenge_stays(library: Path, path: str) -> None:
    async with serving(library, login_tokens=True, web_enabled=False) as served:
        answer = await served.client.get(served.at(path), headers=BROWSER)
        client = await served.client.get(served.at("/mcp"), headers={"Accept": "application/json, text/event-stream"})
    assert answer.status_code == (200 if path == "/" else 401)
    assert ("www-authenticate" in answer.headers) == (path == "/mcp")
    assert "Clients have to log in." in answer.text
    assert f'skills {served.url} --header "Authorization: Bearer TOKEN"' in answer.text
    assert "npx" not in answer.text
    assert answer.headers["content-length"] == str(len(answer.content))
    assert (client.status_code, client.json()["error"]) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {"Accept": "text/event-stream"}),
        ("GET", {"Accept": "application/json"}),
        ("GET", {"Accept": "application/json, text/plain, */*"}),
        ("GET", {"Accept": "text/html, text/event-stream"}),
        ("GET", {"Accept": "*/*", "Mcp-Session-Id": "x"}),
        ("DELETE", {"Accept": "*/*"}),
        ("POST", {"Accept": "*/*", "Content-Type": "application/json"}),
    ],
)
async def test_clients_of_the_protocol_get_its_errors(library: Path, method: str, headers: dict[str, str]) -> None:
    async with serving(library) as served:
        answer = await served.client.request(method, served.url, headers=headers)
    assert "jsonrpc" in answer.json()


@pytest.mark.parametrize("path", ["/", "/mcp"])
@pytest.mark.parametrize(
    ("host", "origin", "status"), [("evil.test", "", 421), ("127.0.0.1", "https://evil.test", 403), ("", "", 421)]
)
async def test_foreign_names_get_no_text(library: Path, path: str, host: str, origin: str, status: int) -> None:
    async with serving(library) as served:
        headers = {**BROWSER, "Host": host, **({"Origin": origin} if origin else {})}
        answer = await served.client.get(served.at(path), headers=headers)
    assert answer.status_code == status
    assert "claude" not in answer.text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("skills.example.com", "http://skills.example.com/mcp"),
        ("skills.example.com:8443", "http://skills.example.com:8443/mcp"),
        ("skills.example.com:80;rm -rf", None),
        ("skills.example.com:$(id)", None),
        ("localhost:1234567", None),
        ("evil.test", None),
        ("[::1]:9000", "http://[::1]:9000/mcp"),
    ],
)
@pytest.mark.parametrize("login", [False, True])
async def test_only_a_name_that_was_checked_is_repeated(
    library: Path, given: str, shown: str | None, *, login: bool
) -> None:
    async with serving(library, allowed_hosts=("skills.example.com",), login_tokens=login) as served:
        answer = await served.client.get(served.url, headers={**BROWSER, "Host": given})
    is_refused = given == "evil.test" and not login
    assert answer.status_code == (421 if is_refused else 401 if login else 406)
    assert is_refused or f"  {shown or served.url}\n" in answer.text
    assert shown is not None or given not in answer.text


async def test_behind_a_proxy_with_tls_the_address_has_https(library: Path) -> None:
    async with serving(library, allowed_hosts=("skills.example.com",)) as served:
        headers = {"Host": "skills.example.com", "X-Forwarded-Proto": "https"}
        answer = await served.client.get(served.at("/"), headers=headers)
    assert "  https://skills.example.com/mcp\n" in answer.text


async def test_an_endpoint_at_the_root_is_the_endpoint(library: Path) -> None:
    async with serving(library, path="/") as served:
        root = served.url.removesuffix("mcp")
        page = await served.client.get(root, headers=BROWSER)
        message = modern("tools/list")
        answer = await served.client.post(root, json=message, headers=modern_headers(message))
    assert (page.status_code, answer.status_code) == (406, 200)
    assert f"  {root}\n" in page.text


async def test_a_page_of_a_capability_replaces_the_text(library: Path) -> None:
    async with serving(library) as served:
        page = Route("/", PlainTextResponse("the page"))
        app = build_app(SkillServer(served.host, local=False), served.host, routes=[page])
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"accept", b"text/html")]
    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    assert sent[1]["body"] == b"the page"
