"""Probes see a server that loads, serves and drains; no client of them can hold up the start."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from server.transport.early_probes import EarlyListener
from server.transport.listening import listen
from server.transport.operation_routes import _RequiredSources
from skills_core.sources import Source
from tests.conftest import MakeSkill
from tests.server.operation.serving import modern, modern_headers, serving, until
from tests.server.sessions import REPOSITORY, address, open_session, server_environment
from tests.server.settings import make_settings


@pytest.fixture
def early() -> Iterator[tuple[EarlyListener, tuple[str, int]]]:
    """A listener of a server that loads, and its address."""
    listener = listen(make_settings(port=0).http)
    early = EarlyListener(listener)
    yield early, listener.getsockname()
    early.close()


def asked(where: tuple[str, int], request: bytes) -> bytes:
    """Return all that the server answers to some bytes."""
    with socket.create_connection(where, timeout=60) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /health HTTP/1.1", 200, {"status": "ok"}),
        (b"GET /health?verbose=1 HTTP/1.1", 200, {"status": "ok"}),
        (b"GET /ready HTTP/1.0", 503, {"status": "starting"}),
    ],
)
def test_a_server_that_loads_is_alive_and_not_ready(
    early: tuple[EarlyListener, tuple[str, int]], request_line: bytes, status: int, body: dict[str, str]
) -> None:
    head, _, content = asked(early[1], request_line + b"\r\nHost: localhost\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert {b"Cache-Control: no-store", b"Content-Length: %d" % len(content)} <= {*head.split(b"\r\n")}
    assert json.loads(content) == body


def test_a_head_request_is_answered_without_a_body(early: tuple[EarlyListener, tuple[str, int]]) -> None:
    assert asked(early[1], b"HEAD /health HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "request_text",
    [
        b"POST /mcp HTTP/1.1\r\n\r\n{}",
        b"POST /health HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n\r\n",
        b"GET /healthy HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: loc",
        b"nonsense\r\n\r\n",
        b"x" * 100_000,
    ],
)
def test_everything_else_waits_unread_for_the_server(
    early: tuple[EarlyListener, tuple[str, int]], request_text: bytes
) -> None:
    with socket.create_connection(early[1], timeout=60) as connection:
        connection.sendall(request_text)
        # Connections are accepted in their order.
        assert asked(early[1], b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        listener, (waiting,) = early[0].take()
        with listener, waiting:
            waiting.settimeout(60)
            received = b""
            while len(received) < len(request_text):
                received += waiting.recv(65536)
        assert received == request_text


async def test_clients_that_send_nothing_or_a_byte_at_a_time_hold_up_neither_probes_nor_the_start(
    early: tuple[EarlyListener, tuple[str, int]],
) -> None:
    taken = threading.Event()

    def drip(connection: socket.socket) -> None:
        try:
            while not taken.wait(0.01):
                connection.send(b"x")
        except OSError:
            return

    opened = [socket.create_connection(early[1]) for _ in range(20)]
    try:
        async with anyio.create_task_group() as tasks:
            for connection in opened[::2]:
                tasks.start_soon(anyio.to_thread.run_sync, drip, connection)
            with anyio.fail_after(60):
                probe = partial(asked, early[1], b"GET /health HTTP/1.1\r\n\r\n")
                assert (await anyio.to_thread.run_sync(probe)).startswith(b"HTTP/1.1 200 ")
                listener, waiting = await anyio.to_thread.run_sync(early[0].take)
            taken.set()
        assert len(waiting) == 20
        for each in (listener, *waiting):
            each.close()
    finally:
        taken.set()
        for connection in opened:
            connection.close()


def test_requests_beyond_the_bound_are_told_to_come_again_and_probes_are_answered(
    early: tuple[EarlyListener, tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.transport.early_probes._MAX_WAITING", 5)
    opened = [socket.create_connection(early[1]) for _ in range(5)]
    for each in opened:
        each.sendall(b"POST /mcp HTTP/1.1\r\n\r\n")
    refused = asked(early[1], b"POST /mcp HTTP/1.1\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1\r\n" in refused
    assert asked(early[1], b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    listener, waiting = early[0].take()
    assert len(waiting) == 5
    for each in (listener, *waiting, *opened):
        each.close()


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="only Linux tells that a client has gone")
def test_clients_that_have_gone_make_room(
    early: tuple[EarlyListener, tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.transport.early_probes._MAX_WAITING", 5)
    for _ in range(50):
        with socket.create_connection(early[1]) as connection:
            connection.sendall(b"POST /mcp HTTP/1.1\r\n\r\n")
        # Connections are judged in their order.
        assert asked(early[1], b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    with socket.create_connection(early[1]) as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\n\r\n")
        assert asked(early[1], b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        listener, waiting = early[0].take()
        assert connection.getsockname() in {each.getpeername() for each in waiting if _is_connected(each)}
        for each in (listener, *waiting):
            each.close()


def _is_connected(connection: socket.socket) -> bool:
    try:
        connection.getpeername()
    except OSError:
        return False
    return True


def test_the_oldest_of_too_many_silent_connections_is_closed(
    early: tuple[EarlyListener, tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.transport.early_probes._MAX_SILENT", 3)
    opened = [socket.create_connection(early[1], timeout=60) for _ in range(10)]
    assert asked(early[1], b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert opened[0].recv(1) == b""
    listener, waiting = early[0].take()
    assert len(waiting) <= 3
    for each in (listener, *waiting, *opened):
        each.close()


@pytest.mark.parametrize("at", range(1, 24))
def test_a_probe_may_come_in_parts(early: tuple[EarlyListener, tuple[str, int]], at: int) -> None:
    request = b"GET /ready HTTP/1.1\r\n\r\n"
    with socket.create_connection(early[1], timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request[:at])
        # The first part is judged by now.
        assert asked(early[1], b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        connection.sendall(request[at:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 503 ")


def test_clients_that_leave_are_forgotten(early: tuple[EarlyListener, tuple[str, int]]) -> None:
    for _ in range(50):
        connection = socket.create_connection(early[1])
        # Closing resets the connection.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        connection.close()
    assert asked(early[1], b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")


async def _listens(port: int) -> bool:
    try:
        await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
    except OSError:
        return False
    return True


async def test_a_process_is_alive_at_once_and_ready_with_its_first_catalog(
    make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.server.operation.slow_start", "serve", str(skills)]
    command += ["--transport", "http", "--port", str(port), "--log-level", "warning"]
    environment = server_environment(GO=str(tmp_path / "go"))
    root = f"http://127.0.0.1:{port}"
    async with (
        await anyio.open_process(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE) as process,
        httpx2.AsyncClient(timeout=60) as client,
    ):
        assert process.stderr is not None
        with anyio.fail_after(60):
            await until(partial(_listens, port))
            health = await client.get(f"{root}/health")
            assert (health.status_code, health.json()) == (200, {"status": "ok"})
            ready = await client.get(f"{root}/ready")
            assert (ready.status_code, ready.json(), ready.headers["retry-after"]) == (503, {"status": "starting"}, "1")
            answers: list[httpx2.Response] = []

            async def ask() -> None:
                message = modern("tools/list")
                answers.append(await client.post(f"{root}/mcp", json=message, headers=modern_headers(message)))

            async with anyio.create_task_group() as tasks:
                # Its answer comes once the server can give it.
                tasks.start_soon(ask)
                (tmp_path / "go").touch()
                url = await address(process.stderr)
            assert "activate_skill" in answers[0].text
            ready = await client.get(f"{root}/ready")
            assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
            assert (await client.get(f"{root}/health")).json() == {"status": "ok", "skills": 1}
            async with open_session(url, "modern") as session:
                assert await session.enum() == ["one"]
        process.terminate()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
async def test_a_hang_up_while_skills_load_reloads_after_the_start(
    make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.server.operation.slow_start", "serve", str(skills)]
    command += ["--transport", "http", "--port", str(port), "--watch", "off"]
    environment = server_environment(GO=str(tmp_path / "go"))
    async with await anyio.open_process(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        with anyio.fail_after(60):
            await until(partial(_listens, port))
            process.send_signal(signal.SIGHUP)
            (tmp_path / "go").touch()
            log = b""
            while b"reload" not in log:
                log += await process.stderr.receive()
        process.terminate()


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_probes_need_no_login_and_no_name_of_the_host(make_skill: MakeSkill, skills: Path, path: str) -> None:
    make_skill("one")
    async with serving(skills, login_tokens=True) as served:
        answer = await served.client.get(served.at(path), headers={"Host": "10.0.0.7"})
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        assert (await served.client.head(served.at(path))).status_code == 200
        assert (await served.client.post(served.at(path))).status_code == 405
        assert served.found == []


async def test_a_server_that_drains_is_alive_and_not_ready(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, drain_notice_seconds=3600) as served:
        served.running.handle_exit(signal.SIGTERM, None)
        ready = await served.client.get(served.at("/ready"))
        assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
        assert (await served.client.get(served.at("/health"))).status_code == 200


async def test_a_server_is_not_ready_while_a_folder_that_it_was_given_is_gone(
    make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one")
    async with serving(skills) as served:
        assert (await served.client.get(served.at("/ready"))).status_code == 200
        skills.rename(tmp_path / "elsewhere")
        answer = await served.client.get(served.at("/ready"))
        assert (answer.status_code, answer.json()) == (503, {"status": "source_gone", "sources": 1})
        assert (await served.client.get(served.at("/health"))).status_code == 200
        skills.write_text("a file in its place")
        assert (await served.client.get(served.at("/ready"))).status_code == 503
        skills.unlink()
        (tmp_path / "elsewhere").rename(skills)
        assert (await served.client.get(served.at("/ready"))).status_code == 200


async def test_a_folder_that_is_no_longer_mounted_is_gone(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    mounted = {skills.resolve()}
    # Only root could mount one.
    monkeypatch.setattr("os.path.ismount", lambda path: path in mounted)
    async with serving(skills) as served:
        assert (await served.client.get(served.at("/ready"))).status_code == 200
        mounted.clear()
        assert (await served.client.get(served.at("/ready"))).json() == {"status": "source_gone", "sources": 1}


async def test_a_folder_that_does_not_answer_is_gone_and_holds_up_one_thread(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    answers, asked = threading.Event(), list[Path]()

    def hang(path: Path) -> bool:
        asked.append(path)
        return bool(asked[1:]) and answers.wait(60)

    monkeypatch.setattr("os.path.ismount", hang)
    monkeypatch.setattr("server.transport.operation_routes._SOURCE_SECONDS", 0.05)
    async with serving(skills) as served:
        for _ in range(3):
            assert (await served.client.get(served.at("/ready"))).json() == {"status": "source_gone", "sources": 1}
        assert len(asked) == 2
        answers.set()
        monkeypatch.setattr("server.transport.operation_routes._SOURCE_SECONDS", 60)

        async def is_ready() -> bool:
            return (await served.client.get(served.at("/ready"))).status_code == 200

        await until(is_ready)


def test_folders_of_a_project_and_standard_folders_are_not_required(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    sources = [Source(gone, optional=True), Source(gone, project=tmp_path)]
    assert anyio.run(_RequiredSources(sources).gone) == 0
    assert anyio.run(_RequiredSources([*sources, Source(gone)]).gone) == 1
