"""In logs as text, what libraries write of clients is one bounded line without tokens, and does not fill the log."""

from __future__ import annotations

import io
import logging
import re
import signal
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.logs.json_logs import JsonHandler
from server.logs.text_logs import RareWarnings, TextHandler
from tests.capabilities.operation.test_json_logs import JWT, STATIC, objects
from tests.conftest import MakeSkill
from tests.server.server_processes import served_by_process

SECURITY = "mcp.server.transport_security"
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(params=[TextHandler, JsonHandler])
def handler(request: pytest.FixtureRequest, stream: io.StringIO) -> logging.StreamHandler[io.StringIO]:
    made: logging.StreamHandler[io.StringIO] = request.param()
    made.setStream(stream)
    return made


def record(name: str, message: str, level: int = logging.WARNING, line: int = 1) -> logging.LogRecord:
    return logging.LogRecord(name, level, "library.py", line, message, (), None)


@posix
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("header", ["Host", "Origin"])
async def test_a_name_that_a_stranger_sends_in_a_header_is_not_in_the_log(
    header: str, form: str, make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    hostile = ["http://\x9b31mX", f"http://{STATIC}", "http://" + "long" * 1500, "http://evil.example", "a\tb: c"]
    async with served_by_process(skills, "--log-format", form) as served:
        for value in hostile:
            await post(served.url, header, value.encode("latin-1"))
        await served.logs(f"Invalid {header} header: http.allowed_{header.lower()}s does not name it")
        served.process.send_signal(signal.SIGTERM)
        await served.end()
    written = b"".join(served.chunks).decode("utf-8")
    assert all(line.isprintable() and len(line) < 500 for line in written.split("\n"))
    assert written.count(f"Invalid {header} header") == len(hostile)
    for secret in ("31mX", "sks_", "longlong", "evil", "b: c"):
        assert secret not in written


async def post(url: str, header: str, value: bytes) -> None:
    """Send a request with any bytes in a header, and wait for the answer."""
    host, _, port = url.removeprefix("http://").removesuffix("/mcp").partition(":")
    headers = {b"Host": f"{host}:{port}".encode(), b"Content-Type": b"application/json", b"Content-Length": b"2"}
    headers |= {b"Accept": b"application/json, text/event-stream", b"Connection": b"close", header.encode(): value}
    async with await anyio.connect_tcp(host, int(port)) as connection:
        lines = (name + b": " + text for name, text in headers.items())
        await connection.send(b"POST /mcp HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n{}")
        with anyio.fail_after(60):
            answer = b"".join([chunk async for chunk in connection])
    assert answer.split(b" ")[1] in {b"403", b"421"}, answer


@given(st.text(st.characters(), max_size=80), st.sampled_from(["mcp.server.runner", "uvicorn.error", "asyncio"]))
def test_whatever_a_library_logs_is_one_line_of_printable_characters(message: str, name: str) -> None:
    handler, stream = TextHandler(), io.StringIO()
    handler.setStream(stream)
    handler.handle(record(name, message.replace("%", "")))
    (line, rest) = stream.getvalue().split("\n")
    assert line.isprintable()
    assert rest == ""
    line.encode()


def test_messages_of_libraries_are_bounded_and_have_no_tokens_and_no_ids_of_sessions(stream: io.StringIO) -> None:
    handler = TextHandler()
    handler.setStream(stream)
    for name in ("mcp.server.streamable_http_manager", "uvicorn.error", "httpx2"):
        handler.handle(record(name, f"{STATIC} {JWT} {'0123456789abcdef' * 2} {'x' * 1_000_000} {STATIC}"))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    for line in lines:
        assert len(line) < 1200
        assert line.count("[token]") == 3
        assert "sks_" not in line
        assert "eyJ" not in line
        assert "0123456789abcdef" not in line


def fail(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("name", ["uvicorn.error", "server.protocol"])
def test_a_traceback_shows_no_token_no_control_character_and_no_forged_line(stream: io.StringIO, name: str) -> None:
    handler = TextHandler()
    handler.setStream(stream)
    with pytest.raises(ValueError, match="all is well") as failed:
        fail(f"\x9b31m {STATIC}\n2026-01-01 00:00:00,000 INFO server: all is well {'x' * 100_000}")
    error = failed.type, failed.value, failed.tb
    handler.handle(logging.LogRecord(name, logging.ERROR, "library.py", 1, "it failed", (), error))
    first, *lines = stream.getvalue().splitlines()
    assert first.endswith("it failed")
    assert lines[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() and len(line) < 600 for line in lines)
    assert "sks_" not in stream.getvalue()
    assert any("ValueError" in line and "[token]" in line for line in lines)


def test_messages_of_this_server_are_written_as_they_are(stream: io.StringIO) -> None:
    handler = TextHandler()
    handler.setStream(stream)
    handler.handle(record("server.config", "first\nsecond", logging.INFO))
    assert stream.getvalue().endswith(" INFO server.config: first\nsecond\n")


@pytest.mark.parametrize("environment", [{"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_at_a_terminal_a_line_has_the_time_and_the_message_and_trouble_a_colour_unless_refused(
    environment: dict[str, str], stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.logs.text_logs.os.environ", environment)
    handler = TextHandler()
    handler.write_for_terminal()
    handler.setStream(stream)
    handler.handle(record("server.hosting", "standup changed: description", logging.INFO))
    handler.handle(record("server.hosting", "standup is broken", logging.WARNING))
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d standup changed: description", first)
    coloured = environment == {"TERM": "xterm"} and sys.platform != "win32"
    message = "\x1b[33mstandup is broken\x1b[0m" if coloured else "standup is broken"
    assert re.fullmatch(rf"\d\d:\d\d:\d\d {re.escape(message)}", second)


def test_a_message_that_does_not_fit_its_arguments_is_still_a_line(stream: io.StringIO) -> None:
    handler = TextHandler()
    handler.setStream(stream)
    handler.handle(logging.LogRecord("uvicorn.error", logging.WARNING, "", 1, "%s of a message", (1, 2), None))
    assert stream.getvalue().endswith(": %s of a message\n")


def test_warnings_that_clients_cause_are_logged_ten_times_a_minute_with_the_number_of_the_others(
    handler: logging.StreamHandler[io.StringIO], stream: io.StringIO
) -> None:
    now = 0.0
    handler.filters[-1] = RareWarnings(lambda: now)
    for number in range(1000):
        handler.handle(record(SECURITY, f"Invalid Origin header: http://{number}", line=91))
    handler.handle(record(SECURITY, "Missing Host header in request", line=53))
    first = stream.getvalue().splitlines()
    assert len(first) == 11
    assert "more of these are left out for up to a minute" in first[9]
    assert "Missing Host header" in first[10]
    now = 60.0
    handler.handle(record(SECURITY, "Invalid Origin header: http://x", line=91))
    handler.handle(record(SECURITY, "Invalid Origin header: http://x", line=91))
    after = stream.getvalue().splitlines()[11:]
    assert ["990 more of these were left out" in line for line in after] == [True, False]


@pytest.mark.parametrize(
    ("name", "level"),
    [("server.capabilities.runs", logging.WARNING), ("uvicorn.error", logging.ERROR), ("py.warnings", logging.WARNING)],
)
def test_own_warnings_and_all_errors_are_logged_each_time(
    name: str, level: int, handler: logging.StreamHandler[io.StringIO], stream: io.StringIO
) -> None:
    for number in range(30):
        handler.handle(record(name, f"warning {number}", level))
    assert len(stream.getvalue().splitlines()) == 30


def test_json_lines_of_refused_names_have_advice_instead_of_the_name(stream: io.StringIO) -> None:
    handler = JsonHandler()
    handler.setStream(stream)
    handler.handle(record(SECURITY, "Invalid Host header: evil.example:8000"))
    (line,) = objects(stream.getvalue())
    assert line["message"] == "Invalid Host header: http.allowed_hosts does not name it"


@pytest.mark.parametrize("logger", ["server.capabilities.schedules.keeper", "skills_core.remote", "uvicorn.error"])
def test_warnings_show_no_secret_that_they_quote(
    handler: logging.StreamHandler[io.StringIO], stream: io.StringIO, logger: str
) -> None:
    handler.handle(record(logger, "a server answered: password=hunter2, glpat-abcdefghij0123456789"))
    assert "a server answered: password=[token], [token]" in stream.getvalue()
