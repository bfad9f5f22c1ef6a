"""Probes see a server that serves and drains; clients that connect while it loads wait."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from server.capabilities.operation.routes import _RequiredSources
from skills_core.disk.sources import Source
from tests.conftest import MakeSkill
from tests.server.serving import serving, until
from tests.server.sessions import REPOSITORY, server_environment


async def _listens(port: int) -> bool:
    try:
        await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
    except OSError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
async def test_clients_wait_while_skills_load_and_a_hang_up_meanwhile_reloads_after_the_start(
    make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.capabilities.operation.slow_start", "serve", str(skills)]
    command += ["--transport", "http", "--port", str(port), "--watch", "off"]
    environment = server_environment(GO=str(tmp_path / "go"))
    async with (
        await anyio.open_process(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE) as process,
        httpx2.AsyncClient(timeout=60) as client,
    ):
        assert process.stderr is not None
        with anyio.fail_after(60):
            await until(partial(_listens, port))
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    answer = await client.get(f"http://127.0.0.1:{port}/ready")
                    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})

                tasks.start_soon(ask)
                process.send_signal(signal.SIGHUP)
                (tmp_path / "go").touch()
                log = b""
                while b"reloaded on request" not in log:
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
    monkeypatch.setattr("server.capabilities.operation.routes._SOURCE_SECONDS", 0.05)
    async with serving(skills) as served:
        for _ in range(3):
            assert (await served.client.get(served.at("/ready"))).json() == {"status": "source_gone", "sources": 1}
        assert len(asked) == 2
        answers.set()
        monkeypatch.setattr("server.capabilities.operation.routes._SOURCE_SECONDS", 60)

        async def is_ready() -> bool:
            return (await served.client.get(served.at("/ready"))).status_code == 200

        await until(is_ready)


def test_folders_of_a_project_and_standard_folders_are_not_required(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    sources = [Source(gone, optional=True), Source(gone, project=tmp_path)]
    assert anyio.run(_RequiredSources(sources).gone) == 0
    assert anyio.run(_RequiredSources([*sources, Source(gone)]).gone) == 1
