"""What the trial of a server tells: whether it answers, and otherwise why not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from server.capabilities.connect import trial
from server.capabilities.connect.clients import HttpServer, LocalServer
from server.capabilities.connect.trial import try_server
from tests.conftest import MakeSkill

HERE = Path(__file__).parents[3]
ANSWER = """import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": [{"name": "a\\x1b"}]}}), flush=True)
"""


def program(text: str) -> LocalServer:
    return LocalServer(sys.executable, ("-c", text))


def test_a_server_that_answers_and_ends_works(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    found = try_server(LocalServer(sys.executable, ("-m", "server", "serve", str(skills))), HERE)
    assert found.works
    assert "activate_skill" in found.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "import sys; print('no such folder\\x1b[31m', file=sys.stderr); sys.exit(2)",
            "it ends with code 2 and no answer",
        ),
        ("import sys; print('a\\nb\\nlast\\x1b[31m', file=sys.stderr)", "\n    last\\x1b[31m"),
        ("print('[1]\\nnull\\n' + '[' * 100_000)", "no answer"),
    ],
)
def test_why_a_server_does_not_answer_is_told(text: str, told: str) -> None:
    found = try_server(program(text), HERE)
    assert not found.works
    assert told in found.message
    assert "\x1b" not in found.message


def test_it_starts_in_the_folder_that_is_given(tmp_path: Path) -> None:
    found = try_server(program("import os, sys; print(os.getcwd(), file=sys.stderr)"), tmp_path)
    assert str(tmp_path.resolve()) in found.message


def test_not_answering_and_not_ending_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_SECONDS", 2)
    silent = try_server(program("import time; time.sleep(60)"), HERE)
    assert silent.message.startswith("it does not answer within 2 seconds")
    endless = try_server(program(ANSWER + "time.sleep(60)"), HERE)
    assert endless.message.startswith("it answers, but does not end within 2 seconds after its client has gone")
    assert not endless.works


def test_a_program_that_is_not_there_is_named() -> None:
    assert try_server(LocalServer("/nowhere/skillserve", ()), HERE).message.startswith(
        "/nowhere/skillserve: No such file"
    )


class Handler(BaseHTTPRequestHandler):
    answers: ClassVar[list[tuple[int, str, bytes]]] = []
    headers_seen: ClassVar[list[dict[str, str]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.headers_seen.append(dict(self.headers))
        status, kind, body = self.answers.pop()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


def asked(url: str, status: int, body: bytes, kind: str = "application/json", **headers: str) -> trial.Trial:
    Handler.answers.append((status, kind, body))
    return try_server(HttpServer(url, headers), HERE)


def test_the_address_is_asked_with_the_headers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_TOKEN", "t0ken")
    told: Any = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {"name": "skillserve\x1b"}}}).encode()
    found = asked(address, 200, told, Authorization="Bearer ${CONNECT_TOKEN}")
    assert found == trial.Trial(works=True, message="skillserve\\x1b answers")
    assert Handler.headers_seen[-1]["Authorization"] == "Bearer t0ken"
    assert asked(address, 200, b"event: message\ndata: " + told + b"\n\n", "text/event-stream").works
    monkeypatch.delenv("CONNECT_TOKEN")
    unset = try_server(HttpServer(address, {"Authorization": "Bearer ${CONNECT_TOKEN}"}), HERE)
    assert unset.message == "it was not asked: CONNECT_TOKEN is not set here"


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "it wants a token"),
        (403, "refuses this token"),
        (404, "ends with /mcp"),
        (500, "it answers with HTTP 500"),
    ],
)
def test_a_refusal_says_what_to_do(address: str, status: int, told: str) -> None:
    found = asked(address, status, b"{}")
    assert not found.works
    assert told in found.message


def test_a_token_that_is_not_known_is_told(address: str) -> None:
    found = asked(address, 401, b"{}", Authorization="Bearer x")
    assert found.message == "it does not know this token (HTTP 401)"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"result": {}}', b"[" * 100_000])
def test_what_is_not_an_mcp_server_is_told(address: str, body: bytes) -> None:
    assert asked(address, 200, body) == trial.Trial(works=False, message="what answers there is not an MCP server")


def test_an_address_where_nothing_listens_is_told() -> None:
    found = try_server(HttpServer("http://127.0.0.1:1/mcp", {}), HERE)
    assert not found.works
    assert found.message.endswith("start the server first")
