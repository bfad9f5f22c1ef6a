"""Deliveries to a command and to a webhook."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.capabilities.schedules import firing as delivery
from server.capabilities.schedules.binding import ScheduledRun
from server.capabilities.schedules.firing import deliver
from server.capabilities.schedules.settings import ScheduleSettings
from server.config.files import ConfigurationError
from tests.capabilities.schedules.conftest import START
from tests.server.settings import make_settings


class Receiver:
    """A webhook on loopback that answers with these statuses; the last one is repeated."""

    def __init__(self) -> None:
        self.statuses = [204]
        self.bodies: list[Any] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                left = receiver.statuses
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=secret"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(delivery, "PAUSES", (0.0, 0.0))
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()
    thread.join()


RUN = ScheduledRun(
    id="0" * 32,
    fired_at=START,
    started_at=START,
    ended_at=START + timedelta(seconds=1),
    status="completed",
    trigger="schedule: hello",
)


async def delivered_to(url: str) -> str:
    settings = make_settings(schedule_webhook=url, schedule_delivery_seconds=5).section(ScheduleSettings)
    return await deliver(settings, "hello-00000000", RUN, {"output": "hi"})


async def test_a_result_is_posted_as_json(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    assert await delivered_to(receiver.url) == ""
    (body,) = receiver.bodies
    assert (body["schedule"], body["output"], body["status"]) == ("hello-00000000", "hi", "completed")
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("statuses", "posts", "fault"),
    [([503, 200], 2, ""), ([503], 3, "503"), ([404], 1, "404"), ([302], 1, "302")],
)
async def test_only_a_failure_that_may_pass_is_repeated_and_redirects_are_not_followed(
    receiver: Receiver, statuses: list[int], posts: int, fault: str
) -> None:
    receiver.statuses = statuses
    assert fault in await delivered_to(receiver.url)
    assert len(receiver.bodies) == posts


async def test_an_address_without_a_server_is_told_without_its_secrets(receiver: Receiver) -> None:
    url = receiver.url.replace("/hook", "").replace(str(receiver.server.server_port), "1")
    told = await delivered_to(url)
    assert "cannot be reached" in told
    assert "secret" not in told


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
async def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    # Each process holds the writing end until it is killed; only then the reading end ends.
    script = f"exec 3>{fifo}; sleep 600 & sleep 600"
    settings = make_settings(schedule_command=("sh", "-c", script), schedule_delivery_seconds=1).section(
        ScheduleSettings
    )
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        told = await deliver(settings, "hello-00000000", RUN, {"output": "x" * 1_000_000})
        with anyio.fail_after(60):
            await anyio.wait_readable(reader)
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)
    assert "longer than 1 seconds" in told


async def test_a_command_may_print_much_and_need_not_read() -> None:
    program = "import sys; sys.stdout.write('x' * 10_000_000); sys.exit(3)"
    settings = make_settings(schedule_command=(sys.executable, "-c", program)).section(ScheduleSettings)
    assert "exit code 3" in await deliver(settings, "hello-00000000", RUN, {"output": "x" * 1_000_000})


@pytest.mark.parametrize("url", ["http://example.com/x", "file:///etc/passwd", "https://", "nonsense", "http://[::1"])
def test_a_webhook_is_an_encrypted_or_local_address(url: str) -> None:
    with pytest.raises((ConfigurationError, ValueError), match="expected an https"):
        make_settings(schedule_webhook=url)
