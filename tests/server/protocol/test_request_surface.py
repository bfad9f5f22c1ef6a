"""Requests as nobody should send them: any JSON as parameters, and lines that are no messages.

The rule: each request is answered, with a result or with an error whose code says that the request was wrong, never
with an internal error; nothing is logged as a fault of the server; and the next good request gets its right answer.
One process serves all examples of a test.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.shared.inbound import encode_header_value
from mcp_types import jsonrpc

from server.wire.paging import Pager
from tests.conftest import MakeSkill
from tests.server.sessions import REPOSITORY, Era, server_command, server_environment
from tests.thoroughness import EVERY_CASE, examples

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
CODES_OF_BAD_REQUESTS = {
    jsonrpc.PARSE_ERROR,
    jsonrpc.INVALID_REQUEST,
    jsonrpc.METHOD_NOT_FOUND,
    jsonrpc.INVALID_PARAMS,
    jsonrpc.HEADER_MISMATCH,
    jsonrpc.MISSING_REQUIRED_CLIENT_CAPABILITY,
    jsonrpc.UNSUPPORTED_PROTOCOL_VERSION,
}


def call(tool: str, **arguments: object) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": tool, "arguments": arguments}


def complete(ref: dict[str, str], name: str, **skill: str) -> tuple[str, dict[str, Any]]:
    params = {"ref": ref, "argument": {"name": name, "value": ""}, "context": {"arguments": skill}}
    return "completion/complete", params


def first_page_of(what: str) -> dict[str, Any]:
    return Pager(lambda _: [("a", 1), ("one\0notes.md", 2)], 1, what, str, {}).page(None)


TEMPLATE = {"type": "ref/resource", "uri": "skill://{+skill}/{+path}"}
NOTES = "skill://one/notes.md"
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    *[(method, {"cursor": None}) for method in ("tools/list", "prompts/list", "resources/templates/list")],
    *[(method, {"uri": NOTES}) for method in ("resources/read", "resources/subscribe", "resources/unsubscribe")],
    call("activate_skill", name="one", arguments={"a": "b"}, message="m"),
    call("read_skill_file", skill="one", path="notes.md"),
    call("find_skills", query="thing", tags=["t"], limit=3),
    ("resources/list", {"cursor": first_page_of("resources")["nextCursor"]}),
    ("resources/directory/read", {"uri": "skill://one", "cursor": None}),
    call("skill_context", message="/one thing"),
    ("prompts/get", {"name": "one", "arguments": {"a": "b", "arguments": "c"}}),
    ("prompts/get", {"name": "with_skills", "arguments": {"message": "thing"}}),
    complete({"type": "ref/prompt", "name": "with_skills"}, "message"),
    complete({"type": "ref/prompt", "name": "one"}, "a"),
    complete(TEMPLATE, "skill"),
    complete(TEMPLATE, "path", skill="one"),
    ("skills/list", {"cursor": first_page_of("skills")["nextCursor"]}),
    ("skills/get", {"uri": "skill://one/SKILL.md"}),
    ("logging/setLevel", {"level": "debug"}),
    *[(method, {}) for method in ("ping", "roots/list", "tasks/get", "no/such/method", "")],
]
NOTIFICATIONS: list[tuple[str, dict[str, Any]]] = [
    ("notifications/cancelled", {"requestId": 1, "reason": "x"}),
    ("notifications/progress", {"progressToken": 1, "progress": 0.5}),
    *[(f"notifications/{name}", {}) for name in ("initialized", "roots/list_changed", "nothing")],
]

TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
DEEP = "nested so many levels: "
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, False, 0, -1, 1.5, 10**18, 10**400, float("nan"), float("inf"), -0.0, 1e308),
        *("", "one", NOTES, "skill://one", "\0", "\ud800", "\U0010ffff", "\x1b[2J", "../..", "=?base64?"),
        *("x" * 3_000, "x" * 100_000, "é" * 10_000, "%" * 5_000, "a/" * 5_000, "{{a}}" * 2_000, "\\" * 3_000),
        *(f"{DEEP}{levels}" for levels in (50, 190, 250, 600, 3_000, 100_000)),
        *([], {}, [[]], {"": ""}, {"_meta": {}}, {"name": {}}, {"uri": []}, ["one"] * 5_000),
    ]
)
JSON = st.recursive(
    ODD | TEXTS | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """Return a JSON value with some of its parts replaced, removed or added."""
    if not isinstance(value, dict) or draw(st.integers(0, 9)) == 0:
        return draw(JSON)
    result = dict(value)
    for key in draw(st.lists(st.sampled_from(sorted(value)), unique=True, max_size=2)) if value else ():
        if draw(st.booleans()):
            result[key] = draw(mutated(value[key]))
        else:
            del result[key]
    return {**result, **draw(st.dictionaries(TEXTS, JSON, max_size=1))}


def messages(known: list[tuple[str, dict[str, Any]]]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.sampled_from(known).flatmap(lambda pair: st.tuples(st.just(pair[0]), mutated(pair[1])))


STRANGE = st.tuples(TEXTS, JSON)
CALLS = st.integers(0, 9).flatmap(lambda die: messages(REQUESTS) if die else STRANGE)


def encoded(message: object) -> bytes:
    """Return a message as JSON, with nesting that no encoder would write itself."""
    parts = json.dumps(message).split(f'"{DEEP}')
    nested = [part.split('"', 1) for part in parts[1:]]
    return (parts[0] + "".join(f"{'[' * int(n)}{']' * int(n)}{rest}" for n, rest in nested)).encode()


def asking(method: str, params: object, number: object, era: Era) -> dict[str, Any]:
    """Return a request; in the modern era its parameters carry the envelope, where they can carry anything."""
    if era == "modern" and isinstance(params, dict):
        params = {"_meta": ENVELOPE, **params}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class Process:
    """A server process, and what it logged so far."""

    def __init__(self, skills: Path, *flags: str) -> None:
        self._process = subprocess.Popen(
            server_command(skills, *flags),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=REPOSITORY,
            env=server_environment(),
        )
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.logged: queue.Queue[bytes] = queue.Queue()
        for stream, target in ((self._process.stdout, self.lines), (self._process.stderr, self.logged)):
            threading.Thread(target=self._forward, args=(stream, target), daemon=True).start()

    @staticmethod
    def _forward(stream: Any, target: queue.Queue[bytes]) -> None:
        for line in stream:
            target.put(line)
        target.put(b"")

    def write(self, raw: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(raw)
        self._process.stdin.flush()

    def end(self) -> str:
        """End the process, and return all that it logged."""
        self._process.terminate()
        self._process.wait(timeout=20)
        log = b"".join(iter(lambda: self.logged.get(timeout=20), b""))
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        return log.decode("utf-8", "replace")


class Pipe:
    """Lines over stdio, for both eras on one connection."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.ask(asking("initialize", INITIALIZE, "start", "handshake"), "handshake")
        self.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def tell(self, raw: bytes) -> None:
        self._process.write(raw + b"\n")

    def receive(self, within: float = 20) -> Any:
        line = self._process.lines.get(timeout=within)
        assert line, "the server has ended"
        return json.loads(line)

    def ask(self, message: dict[str, Any], era: Era) -> Any:
        """Return the answer to a message; to one that is nested too deep to be read it has no id."""
        assert era
        self.tell(encoded(message))
        return self.answer_to(message["id"], *([None] if DEEP in str(message) else []))

    def answer_to(self, *numbers: object) -> Any:
        while (answer := self.receive()).get("id") not in numbers or "method" in answer:
            pass
        return answer


class Http:
    """POSTs to a server process: one session of the handshake era, and requests of the modern one."""

    def __init__(self, url: str, client: httpx2.Client) -> None:
        self._url, self._client = url, client
        self._accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        opened = self.post(asking("initialize", INITIALIZE, 0, "handshake"))
        self._session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        self.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def post(self, message: object, headers: dict[str, str] | None = None) -> httpx2.Response:
        raw = message if isinstance(message, bytes) else encoded(message)
        return self._client.post(self._url, content=raw, headers=self._accept | (headers or {}))

    def tell(self, raw: bytes) -> None:
        assert self.post(raw, self._session).status_code < 500

    def ask(self, message: dict[str, Any], era: Era) -> Any:
        response = self.post(message, self._session if era == "handshake" else _modern_headers(message))
        assert response.status_code < 500
        return json.loads(response.content)


def _modern_headers(message: dict[str, Any]) -> dict[str, str]:
    """Return the headers that mirror a request, without those for which there is no spelling."""
    params = message["params"] if isinstance(message["params"], dict) else {}
    key = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(message["method"], "")
    mirrored = {"Mcp-Method": message["method"], "Mcp-Name": params.get(key)}
    headers = {"MCP-Protocol-Version": "2026-07-28"}
    for name, value in mirrored.items():
        if isinstance(value, str) and len(value) < 5_000 and value.isprintable():
            headers[name] = encode_header_value(value)
    return headers


@pytest.fixture
def process(skills: Path, make_skill: MakeSkill) -> Iterator[Callable[..., Process]]:
    """Start server processes for a skill `one`; in the end none of them may have logged an exception."""
    make_skill("one", body="Do {{a}}.", fields='argument-hint: "[x|y]"', files={"notes.md": b"notes"})
    started: list[Process] = []

    def start(*flags: str) -> Process:
        started.append(Process(skills, "--tool", "skill_context", *flags))
        return started[-1]

    yield start
    logs = [each.end() for each in started]
    assert [log for log in logs if "Traceback" in log] == []


@pytest.fixture
def pipe(process: Callable[..., Process]) -> Pipe:
    return Pipe(process())


@pytest.fixture
def http(process: Callable[..., Process]) -> Iterator[Http]:
    server = process("--transport", "http", "--port", "0")
    while not (line := server.logged.get(timeout=20)).strip().startswith(b"address"):
        assert line, "the server has ended"
    with httpx2.Client(timeout=20) as client:
        yield Http(line.split()[-1].decode(), client)


def check_answer(answer: Any) -> None:
    assert ("result" in answer) != ("error" in answer)
    if "error" in answer:
        assert answer["error"]["code"] in CODES_OF_BAD_REQUESTS, answer


def check_alive(wire: Pipe | Http, era: Era) -> None:
    answer = wire.ask(asking(*call("read_skill_file", skill="one", path="notes.md"), "good", era), era)
    assert answer["result"]["content"] == [{"type": "text", "text": "notes"}]


@pytest.mark.parametrize("transport", ["pipe", "http"])
def test_no_parameters_are_worse_than_a_bad_request(transport: str, era: Era, request: pytest.FixtureRequest) -> None:
    wire: Pipe | Http = request.getfixturevalue(transport)
    numbers = iter(range(1, 10**9))

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(asked=CALLS, notification=st.none() | messages(NOTIFICATIONS))
    def check(asked: tuple[str, Any], notification: tuple[str, Any] | None) -> None:
        if notification is not None:
            wire.tell(encoded({"jsonrpc": "2.0", "method": notification[0], "params": notification[1]}))
        check_answer(wire.ask(asking(*asked, next(numbers), era), era))
        check_alive(wire, era)

    check()


@pytest.mark.parametrize("transport", ["pipe", "http"])
def test_a_notification_that_nests_too_deep_is_no_failure(
    transport: str, era: Era, request: pytest.FixtureRequest
) -> None:
    wire: Pipe | Http = request.getfixturevalue(transport)
    for method, params in NOTIFICATIONS:
        for levels in (101, 190):
            wire.tell(encoded({"jsonrpc": "2.0", "method": method, "params": params | {"a": f"{DEEP}{levels}"}}))
    check_alive(wire, era)


def deepest(http: Http) -> int:
    """Return how many levels of nesting the server's parser takes."""
    low, high = 1, 1_000_000
    while high - low > 1:
        middle = (low + high) // 2
        answer = http.ask(asking("ping", {"a": f"{DEEP}{middle}"}, 1, "modern"), "modern")
        refused = answer.get("error", {}).get("code") in {jsonrpc.PARSE_ERROR, jsonrpc.INVALID_REQUEST}
        low, high = (low, middle) if refused else (middle, high)
    return low


def test_arguments_nested_as_deep_as_the_parser_takes_are_a_bad_request(http: Http) -> None:
    levels = deepest(http)
    assert 30 < levels < 1_000
    for less in range(30):
        asked = call("activate_skill", name="one", arguments={"a": f"{DEEP}{levels - less}"})
        check_answer(http.ask(asking(*asked, 1, "modern"), "modern"))


HALF = "cut \ud83d"
REPEATING: list[tuple[str, dict[str, Any]]] = [
    call("activate_skill", name="one", message=HALF),
    call("activate_skill", name="one", arguments={"a": HALF}),
    call("read_skill_file", skill="one", path=f"skill://one/{HALF}"),
    call("skill_context", message=f"/one {HALF}"),
    ("prompts/get", {"name": "one", "arguments": {"arguments": HALF}}),
    ("prompts/get", {"name": "with_skills", "arguments": {"message": f"/one {HALF}"}}),
    ("skills/get", {"uri": f"skill://{HALF}"}),
]


def test_half_a_character_that_a_client_sent_does_not_make_an_answer_unreadable(http: Http) -> None:
    for method, params in REPEATING:
        answer = http.ask(asking(method, params, 1, "modern"), "modern")
        json.dumps(answer, ensure_ascii=False).encode("utf-8")


def message(number: str, method: str = "ping", params: str = "{}") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{params}}}'.encode()


LINES: dict[str, bytes] = {
    "five million letters": b"x" * 5_000_000,
    "five million brackets": b"[" * 5_000_000,
    "a message of five million bytes": message("1", params='{"a":"' + "x" * 5_000_000 + '"}'),
    "half a message": message("1")[:-5],
    "a batch": b"[" + message("1") + b"," + message("2") + b"]",
    "an empty batch": b"[]",
    "bytes that are no UTF-8": b"\xff\xfe\x00\x80",
    "bytes that are no UTF-8 in a message": message("1", params='{"a":"#"}').replace(b"#", b"\xc3\x28"),
    "overlong UTF-8 in a message": message("1", params='{"a":"#"}').replace(b"#", b"\xc0\xaf"),
    "UTF-16": message("1").decode().encode("utf-16-le"),
    "NUL in a message": message("1").replace(b"ping", b"pi\0ng"),
    "a byte order mark twice": b"\xef\xbb\xbf\xef\xbb\xbf" + message("1"),
    "a message that ends in a carriage return": message("1") + b"\r",
    "another version": message("1").replace(b'"2.0"', b'"1.0"'),
    "no method": b'{"jsonrpc":"2.0","id":1}',
    "a number as method": b'{"jsonrpc":"2.0","id":1,"method":7}',
    "a list of parameters": message("1", params="[1]"),
    "an answer to nothing": b'{"jsonrpc":"2.0","id":99,"result":{}}',
    "an id of four thousand digits": message("9" * 4_000),
    "an id of five thousand digits": message("9" * 5_000),
    "an empty id": message('""'),
    "an id of half a character": message('"\\ud800"'),
    "an id as long as a book": message('"' + "x" * 1_000_000 + '"'),
    "a cancellation of nothing": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    "a cancellation without a name": b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
    "a greeting of the wrong shape": message("1", "initialize", '{"protocolVersion":{},"capabilities":[]}'),
    "a progress without end": message("1", params='{"_meta":{"progressToken":1e400}}'),
}


def test_no_line_whatsoever_ends_the_connection(pipe: Pipe, era: Era) -> None:
    for line in LINES.values():
        pipe.tell(line)
        check_alive(pipe, era)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(line=st.binary(max_size=200).map(lambda raw: raw.replace(b"\n", b"")) | JSON.map(encoded))
def test_no_bytes_end_the_connection(line: bytes, pipe: Pipe) -> None:
    pipe.tell(line)
    check_alive(pipe, "modern")


def test_a_request_whose_id_is_none_is_refused_rather_than_left_without_an_answer(pipe: Pipe) -> None:
    for number in ("1.5", "true", "null", "{}", "[1]", "NaN"):
        pipe.tell(message(number))
        pipe.tell(message('"next"'))
        answer = pipe.answer_to(None, "next")
        assert (answer["id"], answer.get("error", {}).get("code")) == (None, jsonrpc.INVALID_REQUEST)
        assert "result" in pipe.answer_to("next")


def test_requests_that_are_cancelled_by_an_id_of_the_other_type_never_use_up_the_connection(pipe: Pipe) -> None:
    search = json.dumps(call("find_skills", query="thing")[1])
    for number in range(1000, 1200):
        cancel = f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{number}"}}}}'
        pipe.tell(message(str(number), "tools/call", search) + b"\n" + cancel.encode())
    pipe.tell(message('"next"'))
    while pipe.receive(within=5).get("id") != "next":
        pass


def test_no_body_ends_the_server(http: Http) -> None:
    of_requests: tuple[dict[str, str], ...] = (
        {},
        {"MCP-Protocol-Version": "2026-07-28"},
        {"Mcp-Session-Id": "nobody's"},
    )
    for body in (b"", *LINES.values()):
        # The server reads on for a second behind a body that is too large.
        for headers in of_requests if EVERY_CASE or len(body) < 1_000_000 else of_requests[:1]:
            assert 200 <= http.post(body, headers).status_code < 500
        check_alive(http, "modern")
        check_alive(http, "handshake")
