"""`skillserve reload`: the admin endpoint of a running server, on its socket and over HTTP."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from anyio import create_unix_listener
from anyio.abc import SocketAttribute, SocketStream
from msgspec.structs import asdict

from server.capabilities.operation.settings import AdminSettings
from server.config.files import ConfigurationError
from server.config.settings.layers import load_settings
from server.transport.admin_sockets import admin_socket, sockets_of
from tests.conftest import MakeSkill
from tests.server.cli.test_status import status
from tests.server.sessions import REPOSITORY, http_server, open_session, server_command, server_environment

TOKEN = "0123456789abcdef-not-to-be-told"  # noqa: S105 - for tests

sockets = pytest.mark.skipif(sys.platform == "win32", reason="there are no such sockets")


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder for sockets; the paths of those must be short."""
    folder = Path(tempfile.mkdtemp()).resolve()
    yield folder
    shutil.rmtree(folder)


async def reload(*flags: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    with anyio.fail_after(60):
        return await anyio.run_process(
            [sys.executable, "-m", "server", "reload", *flags],
            cwd=REPOSITORY,
            env=server_environment(**environment),
            check=False,
        )


def port_of(url: str) -> str:
    return str(urlsplit(url).port)


@sockets
async def test_a_reload_by_socket_reports_changes_and_notifies_every_client(
    skills: Path, make_skill: MakeSkill, runtime: Path
) -> None:
    make_skill("goes")
    make_skill("turns")
    where = {"XDG_RUNTIME_DIR": str(runtime)}
    async with http_server(skills, SKILLSERVE_WATCH="off", **where) as url, open_session(url, "modern") as session:
        make_skill("comes")
        make_skill("turns", description="''")
        shutil.rmtree(skills / "goes")
        done = await reload("--port", port_of(url), "--json", **where)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {
            "added": ["comes"],
            "removed": ["goes"],
            "updated": ["turns"],
            "counts": {"added": 1, "removed": 1, "updated": 1},
            "states": {"active": 1, "excluded": 0, "shadowed": 0, "invalid": 1},
        }
        await session.until_told("tools")
        assert await session.enum() == ["comes"]
        make_skill("later")
        done = await reload("--port", port_of(url), **where)
        assert done.stdout.decode().splitlines() == [
            "added    later",
            "3 skills: 2 active, 0 excluded, 0 shadowed, 1 invalid",
        ]
        done = await reload(SKILLSERVE_PORT=port_of(url), **where)
        assert done.stdout.decode().splitlines()[0] == "nothing changed"


@pytest.mark.parametrize("suffix", ["/mcp", "/mcp/", "", "/"])
async def test_a_reload_over_http_needs_the_token(skills: Path, make_skill: MakeSkill, suffix: str) -> None:
    secret = {"SKILLSERVE_ADMIN_TOKEN": TOKEN}
    async with http_server(skills, SKILLSERVE_WATCH="off", **secret) as url:
        make_skill("comes")
        there = url.removesuffix("/mcp") + suffix
        refused = await reload("--url", there, SKILLSERVE_ADMIN_TOKEN=TOKEN[::-1])
        assert (refused.returncode, refused.stdout) == (1, b"")
        assert b"does not accept this token" in refused.stderr
        done = await reload("--url", there, **secret)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, b"added    comes")


async def test_over_http_the_endpoint_requires_the_token_and_one_of_our_host_names(
    skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    make_skill("broken", description="''")
    async with http_server(skills, SKILLSERVE_ADMIN_TOKEN=TOKEN) as url, httpx2.AsyncClient() as client:
        base = url.removesuffix("/mcp")
        right = {"Authorization": f"Bearer {TOKEN}"}
        told = await client.get(f"{base}/admin/status", headers=right)
        assert told.json() == status(skills)
        chosen = await client.get(f"{base}/admin/status?state=invalid&state=shadowed", headers=right)
        assert [skill["name"] for skill in chosen.json()["skills"]] == ["broken"]
        assert (await client.get(f"{base}/admin/status?state=on", headers=right)).status_code == 400
        assert (await client.get(f"{base}/admin/reload", headers=right)).status_code == 405
        for given in ("", TOKEN, "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer " + "\xe9" * 20):
            headers = {b"Authorization": given.encode("latin-1")}
            for answer in (
                await client.get(f"{base}/admin/status", headers=headers),
                await client.post(f"{base}/admin/reload", headers=headers),
            ):
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        for foreign in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            answer = await client.post(f"{base}/admin/reload", headers={**right, **foreign})
            assert answer.status_code in {403, 421}


async def test_without_a_token_there_is_no_endpoint_over_http(skills: Path) -> None:
    async with http_server(skills) as url, httpx2.AsyncClient() as client:
        base = url.removesuffix("/mcp")
        assert (await client.post(f"{base}/admin/reload")).status_code == 404
        assert (await client.get(f"{base}/admin/status")).status_code == 404
        done = await reload("--url", url, SKILLSERVE_ADMIN_TOKEN=TOKEN)
        assert done.returncode == 1
        assert b"the server has no admin endpoint over HTTP, or a proxy denies it" in done.stderr


@sockets
async def test_a_reload_fails_where_no_server_answers(runtime: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = str(unused.getsockname()[1])
    by_socket = await reload("--port", port, XDG_RUNTIME_DIR=str(runtime))
    over_http = await reload("--url", f"http://127.0.0.1:{port}", SKILLSERVE_ADMIN_TOKEN=TOKEN)
    assert (by_socket.returncode, over_http.returncode) == (1, 1)
    assert port.encode() in by_socket.stderr
    assert b"cannot be reached" in over_http.stderr


@sockets
@pytest.mark.parametrize("over_http", [True, False], ids=["http", "socket"])
async def test_an_answer_of_any_size_is_not_read(runtime: Path, *, over_http: bool) -> None:
    body = b" " * 20 * 1024 * 1024 + b'{"added": [], "removed": [], "updated": [], "counts": {}, "states": {}}'

    async def answer(stream: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError):
            async with stream:
                await stream.receive()
                await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    path = runtime / "skillserve" / "1.sock"
    path.parent.mkdir(mode=0o700)
    listener = await (anyio.create_tcp_listener(local_host="127.0.0.1") if over_http else create_unix_listener(path))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        if over_http:
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's
            done = await reload("--url", f"http://127.0.0.1:{port}", SKILLSERVE_ADMIN_TOKEN=TOKEN)
        else:
            done = await reload("--port", "1", XDG_RUNTIME_DIR=str(runtime))
        tasks.cancel_scope.cancel()
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"exceeds the limit" in done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--url", "http://127.0.0.1:1"),  # no token
        ("--url", "http://127.0.0.1:1", "--port", "1"),
        ("--port", "70000"),
        ("--port", "x"),
        ("somewhere",),
    ],
)
async def test_wrong_use_has_exit_code_two(flags: tuple[str, ...]) -> None:
    assert (await reload(*flags)).returncode == 2


async def test_an_invalid_url_is_wrong_use() -> None:
    assert (await reload("--url", "ftp://example", SKILLSERVE_ADMIN_TOKEN=TOKEN)).returncode == 2


@asynccontextmanager
async def server_at(port: int, skills: Path, runtime: Path) -> AsyncGenerator[anyio.abc.Process]:
    """Run a server process at a port until it is ended within the context."""
    command = server_command(skills, "--transport", "http", "--port", str(port))
    environment = server_environment(XDG_RUNTIME_DIR=str(runtime))
    async with await anyio.open_process(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            with anyio.fail_after(30):
                text = b""
                while b"stop  " not in text:
                    text += await process.stderr.receive()
            yield process
        finally:
            if process.returncode is None:
                process.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


@sockets
@pytest.mark.parametrize("ending", ["SIGTERM", "SIGINT"])
async def test_a_socket_is_private_and_removed_with_the_server(skills: Path, runtime: Path, ending: str) -> None:
    port = free_port()
    path = runtime / "skillserve" / f"{port}.sock"
    async with server_at(port, skills, runtime) as process:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        process.send_signal(getattr(signal, ending))
        with anyio.fail_after(20):
            await process.wait()
    assert list(path.parent.iterdir()) == []


@sockets
async def test_the_socket_of_a_dead_server_is_replaced(skills: Path, runtime: Path) -> None:
    port = free_port()
    path = runtime / "skillserve" / f"{port}.sock"
    async with server_at(port, skills, runtime) as process:
        process.kill()
        await process.wait()
    assert path.is_socket()
    assert (await reload("--port", str(port), XDG_RUNTIME_DIR=str(runtime))).returncode == 1
    async with server_at(port, skills, runtime):
        assert (await reload("--port", str(port), XDG_RUNTIME_DIR=str(runtime))).returncode == 0


@sockets
async def test_a_server_without_a_socket_logs_a_warning_and_serves(
    skills: Path, make_skill: MakeSkill, runtime: Path
) -> None:
    make_skill("one")
    nowhere = {"XDG_RUNTIME_DIR": str(runtime / "absent"), "TMPDIR": str(runtime / "absent too")}
    async with http_server(skills, **nowhere) as url, open_session(url, "modern") as session:
        assert await session.enum() == ["one"]
        assert (await reload("--port", port_of(url), **nowhere)).returncode == 1


@sockets
def test_a_socket_is_created_in_the_first_usable_folder(runtime: Path, caplog: pytest.LogCaptureFixture) -> None:
    (runtime / "a-file").write_text("")
    (runtime / "open").mkdir(mode=0o755)
    (runtime / "a-link").symlink_to(runtime / "private")
    (runtime / "private").mkdir(mode=0o700)
    (runtime / "private" / "2.sock").write_text("not a socket")
    folders = [runtime / name for name in ("a-file", "open", "a-link", "x" * 100, "private", "other")]
    with admin_socket(folders, 1) as opened:
        assert opened is not None
        assert sockets_of(folders[:-1], 1)[-1] == Path(opened.getsockname()) == runtime / "private" / "1.sock"
        with admin_socket(folders[:-1], 1) as second:
            assert second is None
        assert "another server listens there" in caplog.text
    with admin_socket(folders, 2) as opened:
        assert opened is not None
        assert Path(opened.getsockname()).parent.name == "other"
    assert sorted(path.name for path in (runtime / "private").iterdir()) == ["2.sock"]
    assert not any(sockets_of(folders[:3], 1))


@sockets
def test_a_socket_that_another_server_has_replaced_stays(runtime: Path) -> None:
    with admin_socket([runtime / "s"], 1) as opened:
        assert opened is not None
        path = Path(opened.getsockname())
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
    assert path.is_socket()


@pytest.mark.parametrize("token", ["short", "x" * 15, "x" * 1025, "with space in it and long", "é" * 20])
def test_a_weak_or_unusable_token_is_refused_and_never_shown(token: str, tmp_path: Path) -> None:
    for environment, text in (({"SKILLSERVE_ADMIN_TOKEN": token}, ""), ({}, f'admin.token = "{token}"')):
        own = tmp_path / "config" / "skillserve" / "skillserve.toml"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match="16 to 1024") as caught:
            load_settings({}, environment, tmp_path / "config")
        assert token not in str(caught.value)


def test_no_text_of_the_settings_contains_the_token(tmp_path: Path) -> None:
    settings = load_settings({}, {"SKILLSERVE_ADMIN_TOKEN": TOKEN}, tmp_path / "config")
    assert settings.section(AdminSettings).token is not None
    admin = settings.section(AdminSettings)
    assert TOKEN not in f"{settings!r} {settings} {asdict(admin)} {admin.token}"
