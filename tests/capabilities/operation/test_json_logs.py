"""With `--log-format json`, every line of stderr is an object, without tokens and without texts of requests."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation, PaginatedRequestParams

from server.access import Principal, PrincipalKind
from server.logs.json_logs import JsonHandler, log_request, log_uncaught
from server.requests import NOTES, Notes, RequestRecord
from server.requests import Client as SendingClient
from skills_core.texts import without_secrets
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run
from tests.server.server_processes import served_by_process
from tests.server.serving import MODERN_META, bearer, modern, modern_headers, serving
from tests.server.sessions import REPOSITORY, server_command, server_environment
from tests.server.transport.test_event_streams import HandshakeClient
from tests.server.transport.test_transports import RawClient

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJl"
STATIC = "sks_0123456789ab_dGhpcyBpcyBhIHNlY3JldA"
OPAQUE = "opaque-3f9a-token-of-a-provider"
TEXT = "xyzzy is a text of the user"

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


def objects(text: str) -> list[dict[str, Any]]:
    """Return the lines as objects; each of them has the common fields."""
    found = [json.loads(line) for line in text.splitlines()]
    for each in found:
        assert {"time", "level", "logger", "message"} <= each.keys(), each
        assert each["level"] in {"debug", "info", "warning", "error", "critical"}
    return found


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the handler writes of all that is logged in this process."""
    handler, root = JsonHandler(), logging.getLogger()
    stream = io.StringIO()
    handler.setStream(stream)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


@posix
@pytest.mark.parametrize("level", ["info", "debug"])
async def test_a_server_over_http_writes_only_objects_and_no_token(
    make_skill: MakeSkill, skills: Path, tmp_path: Path, level: str
) -> None:
    make_skill("one")
    (skills / "broken").mkdir()
    (skills / "broken/SKILL.md").write_text("no frontmatter")
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "SKILLSERVE_LOGIN_TOKENS": "true"}
    token = run("token", "add", "anna", "--role", "reader", **state).stdout.strip()
    async with served_by_process(skills, "--log-format", "json", "--log-level", level, **state) as served:
        await _use(served.url, token)
        await _attack(served.url, token)
        served.process.send_signal(signal.SIGTERM)
        assert await served.end() == -signal.SIGTERM
    found = objects(served.log)
    for secret in (token, JWT, STATIC, OPAQUE, TEXT, "Do the thing", token.split("_", 2)[2]):
        assert secret not in served.log
    (activation,) = [each for each in found if each.get("skill") == "one" and each.get("use") == "activated"]
    assert activation.pop("seconds") > 0
    assert activation.pop("digest").startswith("sha256:")
    assert {activation.pop(name) != "" for name in ("time", "request_id")} == {True}
    assert activation == {
        "level": "info",
        "logger": "server.requests",
        "message": "request",
        "principal": "anna",
        "principal_kind": "token",
        "client": "tester",
        "client_version": "2.1",
        "address": "127.0.0.1",
        "era": "modern",
        "method": "tools/call",
        "target": "one",
        "tool": "activate_skill",
        "skill": "one",
        "use": "activated",
        "decision": "allowed",
    }
    refused = [each for each in found if each.get("method") == "login"]
    assert {(each["decision"], each["reason"], each["target"]) for each in refused} >= {
        ("denied", "login_invalid", "/mcp"),
        ("denied", "login_missing", "/mcp"),
    }
    assert any(each.get("reason") == "unknown_skill" and "target" not in each for each in found)
    assert any("serves" in each["message"] and served.url in each["message"] for each in found)
    assert any("broken" in each["message"] for each in found)
    assert any(each["logger"].startswith("uvicorn") for each in found)


async def _use(url: str, token: str) -> None:
    async with httpx2.AsyncClient(headers=bearer(token)) as http:
        transport: Any = streamable_http_client(url, http_client=http)
        name = Implementation(name="tester", version="2.1")
        async with Client(transport, mode="2026-07-28", client_info=name, cache=None) as client:
            await client.call_tool("activate_skill", {"name": "one", "message": TEXT})
            await client.call_tool("find_skills", {"query": TEXT})


async def _attack(url: str, token: str) -> None:
    """Send tokens wherever a client can."""
    async with httpx2.AsyncClient(timeout=60) as http:
        for wrong in (JWT, STATIC, OPAQUE, token + "x"):
            await http.post(url, json=modern("tools/list"), headers=bearer(wrong))
        for query in (f"?access_token={OPAQUE}", f"?token={token}", f"?x={JWT}#{OPAQUE}"):
            await http.post(url + query, json=modern("tools/list"), headers=bearer(token))
            await http.get(url + query)
            await http.get(f"{url}/{OPAQUE}{query}")
        await http.get(url.replace("/mcp", f"/admin/status?name={OPAQUE}"), headers=bearer(token))
        await http.get(url.replace("/mcp", f"/{OPAQUE}"))
        for name in (token, OPAQUE, TEXT, JWT):
            for message in (
                modern("tools/call", {"name": "activate_skill", "arguments": {"name": name, "message": TEXT}}),
                modern("tools/call", {"name": name, "arguments": {"name": name}}),
                modern("tools/call", {"name": "find_skills", "arguments": {"query": name, "tags": name}}),
                modern("prompts/get", {"name": name}),
                modern("resources/read", {"uri": f"skill://{name}/SKILL.md"}),
                modern("resources/read", {"uri": f"skill://one/{name}"}),
                modern("completion/complete", {"ref": {"type": "ref/prompt", "name": name}, "argument": {}}),
                modern("tools/call", {"name": "activate_skill", "arguments": [name], "requestState": name}),
                modern(name.replace(" ", "/")),
            ):
                headers = modern_headers(message, **bearer(token), **{"User-Agent": name})
                await http.post(url, json=message, headers=headers)
            headers = {**bearer(token), "Mcp-Session-Id": name, "traceparent": name, "Cookie": f"token={name}"}
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            await http.post(url, json=body, headers={**headers, "Accept": "application/json, text/event-stream"})
            await http.post(url, content=f"{{{name}", headers={**headers, "Content-Type": "application/json"})
    host, _, port = url.removeprefix("http://").removesuffix("/mcp").partition(":")
    for raw in (f"GET /{OPAQUE} HTTP/9.9\r\n\r\n", f"{OPAQUE}\r\n\r\n", f"GET / HTTP/1.1\r\n{OPAQUE}\r\n\r\n"):
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(raw.encode())
            with anyio.fail_after(60):
                await stream.receive()


@posix
async def test_a_session_of_another_user_is_refused_without_its_id_in_the_log(
    make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one")
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "SKILLSERVE_LOGIN_TOKENS": "true"}
    anna, bob = (run("token", "add", name, **state).stdout.strip() for name in ("anna", "bob"))
    async with (
        served_by_process(skills, "--log-format", "json", **state) as served,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        client = HandshakeClient(http, served.url)
        client.headers |= bearer(anna)
        await client.open()
        session = client.headers["Mcp-Session-Id"]
        client.headers |= bearer(bob)
        assert (await client.post("ping")).status_code == 404
        await served.logs("credential does not match")
        served.process.send_signal(signal.SIGTERM)
        await served.end()
    assert session not in served.log


async def test_a_server_over_stdio_writes_only_objects_and_no_texts(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    command = [*server_command(skills), "--log-format", "json", "--log-level", "info"]
    async with await anyio.open_process(command, cwd=REPOSITORY, env=server_environment()) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        pipe = RawClient(process)
        arguments = {"name": "one", "message": TEXT}
        await pipe.ask("tools/call", {"name": "activate_skill", "arguments": arguments, "_meta": MODERN_META}, 1)
        await pipe.ask("tools/call", {"name": "activate_skill", "arguments": {"name": OPAQUE}, "_meta": MODERN_META}, 2)
        await pipe.write(f"{TEXT}\n".encode())
        await pipe.receive()
        await process.stdin.aclose()
        with anyio.fail_after(60):
            log = b"".join([chunk async for chunk in process.stderr]).decode()
        assert await process.wait() == 0
    found = objects(log)
    assert TEXT not in log
    assert OPAQUE not in log
    requests = [each for each in found if each["logger"] == "server.requests" and each.get("tool") == "activate_skill"]
    assert [(each["principal"], each.get("skill"), each["decision"], each.get("reason")) for each in requests] == [
        ("local", "one", "allowed", None),
        ("local", None, "invalid", "unknown_skill"),
    ]
    assert any("not a message" in each["message"] for each in found)


def test_a_server_that_cannot_start_says_so_in_an_object(skills: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("serve", skills, "--transport", "http", "--port", port, "--log-format", "json")
    (line,) = objects(done.stderr)
    assert (done.returncode, line["level"], "cannot listen on" in line["message"]) == (2, "critical", True)


JSON_FLAG = ("--log-format", "json")
WRONG_STARTS: dict[str, tuple[str, tuple[str, ...], dict[str, str], str]] = {
    "an unknown section, and the flag": ("[htp]\nport = 1", JSON_FLAG, {}, "htp"),
    "an unknown section, and the variable": ("[htp]\n", (), {"SKILLSERVE_LOG_FORMAT": "json"}, "htp"),
    "an unknown section, and the file": ("[htp]\n[logging]\nformat = 'json'", (), {}, "htp"),
    "a broken file": ("[http", JSON_FLAG, {}, "skillserve.toml"),
    "a wrong variable": ("", JSON_FLAG, {"SKILLSERVE_PORT": "zz"}, "SKILLSERVE_PORT"),
    "a port that there cannot be": ("", (*JSON_FLAG, "--port", "99999"), {}, "--port"),
    "a port that is no number": ("", ("--port", "zz", "--log-format=json"), {}, "--port"),
    "an unknown flag": ("", ("--odd", *JSON_FLAG), {}, "--odd"),
    "a wrong format, and the variable": ("", ("--log-format", "xml"), {"SKILLSERVE_LOG_FORMAT": "json"}, "xml"),
    "a flag without a value": ("", ("--port",), {"SKILLSERVE_LOG_FORMAT": "json"}, "--port"),
}


@pytest.mark.parametrize("case", WRONG_STARTS)
def test_a_server_whose_settings_or_flags_are_wrong_says_so_in_an_object(
    case: str, skills: Path, tmp_path: Path
) -> None:
    text, flags, variables, said = WRONG_STARTS[case]
    file = tmp_path / "skillserve/skillserve.toml"
    file.parent.mkdir()
    file.write_text(text)
    done = run("serve", skills, *flags, XDG_CONFIG_HOME=str(tmp_path), **variables)
    (line,) = objects(done.stderr)
    assert (done.returncode, done.stdout, line["level"]) == (2, "", "critical")
    assert said in line["message"]


@pytest.mark.parametrize(
    ("flags", "variables"),
    [((), {}), (("--log-format", "text"), {"SKILLSERVE_LOG_FORMAT": "json"}), (("--", "--log-format", "json"), {})],
)
def test_a_wrong_start_is_told_in_text_where_no_object_is_asked_for(
    flags: tuple[str, ...], variables: dict[str, str], skills: Path
) -> None:
    done = run("serve", skills, *flags, SKILLSERVE_PORT="zz", **variables)
    assert (done.returncode, done.stderr.startswith("skillserve: ")) == (2, True)


async def test_an_error_in_a_handler_is_logged_with_its_request_and_places_and_without_its_text(
    make_skill: MakeSkill, skills: Path, written: io.StringIO
) -> None:
    make_skill("one")

    async def fail(*_: object) -> dict[str, Any]:
        try:
            int(f"{TEXT} {OPAQUE}")
        except ValueError as error:
            raise RuntimeError(f"{JWT} {TEXT}") from error
        raise AssertionError

    async with serving(skills) as served:
        served.server.records.add(log_request)
        served.server.add_request_handler("prompts/list", PaginatedRequestParams, fail)
        answer = await served.ask("prompts/list")
    assert answer.json()["error"]["message"] == "Internal server error"
    found = objects(written.getvalue())
    (failed,) = [each for each in found if "error" in each]
    (line,) = [each for each in found if each.get("method") == "prompts/list"]
    assert (failed["error"], failed["message"]) == ("RuntimeError", "the handler of prompts/list failed")
    assert any("test_json_logs.py" in frame and "fail" in frame for frame in failed["frames"])
    assert failed["request_id"] == line["request_id"]
    assert (line["decision"], line["reason"]) == ("failed", "internal")
    assert all(secret not in written.getvalue() for secret in (TEXT, OPAQUE, JWT))


async def test_warnings_and_errors_of_tasks_are_single_objects_without_values(written: io.StringIO) -> None:
    logging.captureWarnings(capture=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(f"a library warns:\n  input={TEXT}", UserWarning, stacklevel=1)
    finally:
        logging.captureWarnings(capture=False)
    loop = asyncio.get_running_loop()
    loop.default_exception_handler({"message": "a task failed", "exception": ValueError(TEXT), "future": TEXT})
    warned, failed = objects(written.getvalue())
    assert "UserWarning: a library warns:" in warned["message"]
    assert (failed["message"], failed["error"]) == ("a task failed", "ValueError")
    assert TEXT not in written.getvalue()


def test_messages_of_libraries_below_warnings_are_left_out(written: io.StringIO) -> None:
    logging.getLogger("mcp.server").debug("Received message: %s", TEXT)
    logging.getLogger("httpx2").info("GET https://id.example/?token=%s", OPAQUE)
    logging.getLogger("server.x").debug("ours")
    assert [each["message"] for each in objects(written.getvalue())] == ["ours"]


def test_errors_that_end_a_process_or_a_thread_are_objects(
    written: io.StringIO, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for module, name in ((sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    log_uncaught()

    def fail() -> None:
        raise ValueError(TEXT)

    class Unraisable:
        def __del__(self) -> None:
            raise KeyError(TEXT)

    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    Unraisable()
    try:
        fail()
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    found = objects(written.getvalue())
    assert [(each["level"], each["error"]) for each in found] == [
        ("error", "ValueError"),
        ("error", "KeyError"),
        ("critical", "ValueError"),
    ]
    assert all("fail" in each["frames"][-1] or "__del__" in each["frames"][-1] for each in found)
    assert TEXT not in written.getvalue()
    assert capfd.readouterr().err == ""


def test_a_line_belongs_to_the_request_of_its_task(written: io.StringIO) -> None:
    notes = Notes("r-1", "t-1", Principal("anna", PrincipalKind.JWT), tool="activate_skill", skill="one", digest="d")
    token = NOTES.set(notes)
    try:
        logging.getLogger("server").info("inside")
    finally:
        NOTES.reset(token)
    logging.getLogger("server").info("outside")
    inside, outside = objects(written.getvalue())
    expected = {"request_id": "r-1", "trace_id": "t-1", "principal": "anna", "principal_kind": "jwt"}
    assert expected.items() <= inside.items()
    assert "request_id" not in outside


@given(st.text(st.characters(), max_size=50), st.text(st.characters(), max_size=50))
def test_any_text_makes_one_line_of_ascii_that_is_an_object(message: str, name: str) -> None:
    handler, stream = JsonHandler(), io.StringIO()
    handler.setStream(stream)
    record = logging.LogRecord("server", logging.INFO, "", 1, "%s", (message,), None)
    handler.handle(record)
    fields = RequestRecord(method="m", request_id="1", client=SendingClient(name, "1"))
    requests = logging.getLogger("server.requests")
    requests.addHandler(handler)
    level, requests.level = requests.level, logging.INFO
    try:
        log_request(fields)
    finally:
        requests.removeHandler(handler)
        requests.level = level
    text = stream.getvalue()
    assert text.isascii()
    assert [line.isprintable() for line in text.split("\n")] == [True, True, True]
    assert len(objects(text)) == 2
    text.encode()


@pytest.mark.parametrize(("arguments", "message"), [((1, 2), "%s of a message"), ((), "%s"), ((3,), "no place")])
def test_a_message_that_does_not_fit_its_arguments_is_still_a_line(
    capfd: pytest.CaptureFixture[str], arguments: tuple[Any, ...], message: str
) -> None:
    handler, stream = JsonHandler(), io.StringIO()
    handler.setStream(stream)
    handler.handle(logging.LogRecord("server", logging.WARNING, "", 1, message, arguments, None))
    assert objects(stream.getvalue())[0]["message"] == message
    assert capfd.readouterr().err == ""


def test_a_log_that_cannot_be_written_is_lost_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    handler, stream = JsonHandler(), io.StringIO()
    handler.setStream(stream)
    stream.close()
    handler.handle(logging.LogRecord("server", 30, "", 1, TEXT, (), None))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"a {STATIC} b", "a [token] b"),
        (f"a {JWT}, b", "a [token], b"),
        (f"Authorization: Bearer {OPAQUE}", "Authorization: [token]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: [token]"),
        (f"https://x/?a=1&access_token={OPAQUE}&b=2", "https://x/?a=1&access_token=[token]&b=2"),
        ("https://user:secret@host:1/path", "https://[token]@host:1/path"),
        ("a key=value, and basic facts", "a key=value, and [token]"),
        (f"{'x' * 10_000}{STATIC}", f"{'x' * 10_000}[token]"),
    ],
)
def test_what_looks_like_a_token_is_replaced(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


SECRETS = (
    "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
    "sk-ant-api03-abcdefghijklmnop",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-123456789012-abcdefghijklmnopqrstuvwx",
    "glpat-abcdefghij0123456789",
    "password=hunter2-hunter2",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEabcdefghij\n",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("text", ["{}", "app/{}", "clïent {}", '"{}"'])
def test_no_field_that_others_choose_shows_a_secret(secret: str, text: str, written: io.StringIO) -> None:
    chosen = text.format(secret)
    principal = Principal(chosen, PrincipalKind.TOKEN)
    names: dict[str, Any] = dict.fromkeys(
        ("era", "address", "target", "tool", "skill", "digest", "reason", "trace_id"), chosen
    )
    log_request(
        RequestRecord(method=chosen, request_id="1", principal=principal, client=SendingClient(chosen, chosen), **names)
    )
    notes = Notes("1", chosen, principal, chosen, chosen, skill=chosen, digest=chosen)
    token = NOTES.set(notes)
    try:
        logging.getLogger("server").warning("a server at %s failed", chosen)
        logging.getLogger("uvicorn").error("a client sent %s", chosen)
    finally:
        NOTES.reset(token)
    log = written.getvalue()
    assert log.count("[token]") >= 24
    assert not any(part in log for part in (secret[-12:].strip(), secret[4:14]))


def test_a_token_that_the_bound_would_cut_is_replaced_whole(written: io.StringIO) -> None:
    logging.getLogger("server").warning("%s%s", "x" * 3990, STATIC)
    (line,) = objects(written.getvalue())
    assert "sks_" not in line["message"]


def test_lines_are_bounded(written: io.StringIO) -> None:
    logging.getLogger("server").warning("x" * 1_000_000)
    assert len(written.getvalue()) < 5000
