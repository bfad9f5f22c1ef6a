"""A server over stdio that is killed and goes on: real processes, most of them with a small server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

if sys.platform == "win32":
    pytest.skip("Windows has no fork", allow_module_level=True)

from tests.conftest import MakeSkill
from tests.processes import becomes, is_alive
from tests.server.openings import INITIALIZED, Message, envelope, initialize, line_of, request
from tests.server.sessions import REPOSITORY, server_command, server_environment

pytestmark = pytest.mark.cold_start

# It answers each request with what its method asks for; `seen` are the methods of all messages that it got.
SMALL = r"""
import json, os, signal, sys, time
from server.transport import keep_alive

def serve():
    seen = []
    if os.environ.get("LATE"):
        sys.exit(int(os.environ["LATE"])) if keep_alive.PREVIOUS_END.get() else None
    if os.environ.get("DEAF"):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method", ""), message.get("id")
        seen.append(method)
        if number is None or method in ("silent", "tools/call"):
            continue
        if method == "half":
            os.write(1, b'{"jsonrpc": "2.0", "id"')
        if method in ("half", "die"):
            os.kill(os.getpid(), signal.SIGKILL)
        if method == "exit":
            sys.exit(message["params"]["code"])
        if method == "busy":
            print("busy", file=sys.stderr, flush=True)
            time.sleep(600)
        results = {
            "seen": seen, "pid": os.getpid(), "end": keep_alive.PREVIOUS_END.get(), "group": os.getpgrp(),
            "big": "x" * (message.get("params") or {}).get("size", 0),
            "size": len(line),
        }
        print(json.dumps({"jsonrpc": "2.0", "id": number, "result": results.get(method)}), flush=True)

keep_alive._DELAYS = (0.0, 0.0, 0.0, 0.0)
try:
    keep_alive.keep_alive(serve)
except keep_alive.ServerKeepsEndingError as error:
    print(error, file=sys.stderr)
    sys.exit(error.code)
"""


class Kept:
    """A process that keeps a server alive, as its client sees it."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._log = process.stderr

    async def send(self, *messages: Message) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(b"".join(line_of(message) + b"\n" for message in messages))

    async def receive(self) -> Message:
        with anyio.fail_after(60):
            message: Message = json.loads(await self._lines.receive_until(b"\n", 1 << 26))
            return message

    async def answer(self, number: int | str) -> Message:
        """Return the answer to a request; what comes before it is passed over."""
        while (message := await self.receive()).get("id") != number or "method" in message:
            pass
        return message

    async def ask(self, number: int, method: str, **params: Any) -> Any:
        await self.send(request(number, method, params))
        return (await self.answer(number))["result"]

    def worker(self) -> psutil.Process:
        """Return the process that serves."""
        (found,) = psutil.Process(self.process.pid).children()
        return found

    async def kill(self) -> None:
        worker = self.worker()
        worker.kill()
        assert await becomes(lambda: not is_alive(worker.pid))

    async def logs(self, text: str) -> None:
        """Wait until a text is logged."""
        log = b""
        with anyio.fail_after(60):
            while text.encode() not in log:
                log += await self._log.receive()

    async def hang_up(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def end(self) -> tuple[int, str]:
        """Wait for the end of the process; return its exit code and its log."""
        log = b""
        with anyio.fail_after(60):
            try:
                while True:
                    log += await self._log.receive()
            except anyio.EndOfStream:
                return await self.process.wait(), log.decode()


@asynccontextmanager
async def kept(words: Sequence[str] = (sys.executable, "-c", SMALL), **environment: str) -> AsyncGenerator[Kept]:
    async with await anyio.open_process(
        words, cwd=REPOSITORY, env=server_environment(**environment), stderr=subprocess.PIPE
    ) as process:
        try:
            yield Kept(process)
        finally:
            if process.returncode is None:
                process.kill()


def idle(processes: Sequence[psutil.Process]) -> Callable[[], bool]:
    """Return what tells whether processes have used no processor time at its last ten calls."""
    times: list[list[float]] = []

    def is_idle() -> bool:
        times.append([sum(each.cpu_times()[:2]) for each in processes])
        return len(times) > 10 and all(each == times[-1] for each in times[-10:])

    return is_idle


CALL = request(5, "tools/call", {"name": "activate_skill", "arguments": {"name": "one"}})


async def test_a_client_goes_on_after_its_server_was_killed_twice(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with kept([*server_command(skills), "--keep-alive"]) as server:
        await server.send(initialize("anyone", "2025-11-25", {}), INITIALIZED, CALL)
        assert not (await server.answer(5))["result"]["isError"]
        for count in range(2):
            await server.kill()
            make_skill(f"new-{count}")
            told = [(await server.receive())["method"] for _ in range(3)]
            assert told == [f"notifications/{each}/list_changed" for each in ("tools", "prompts", "resources")]
            await server.send(CALL)
            assert not (await server.answer(5))["result"]["isError"]
        # It hears of changes as before.
        make_skill("last")
        assert (await server.receive())["method"] == "notifications/tools/list_changed"
        await server.hang_up()
        code, log = await server.end()
        assert code == 0
        assert log.count("the server before this one ended with signal 9 (SIGKILL)") == 2


async def test_a_modern_client_goes_on_and_its_stream_too(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    meta = {"_meta": envelope("anyone", {})}
    async with kept([*server_command(skills), "--keep-alive"]) as server:
        await server.send(
            request("events", "subscriptions/listen", {**meta, "notifications": {"toolsListChanged": True}}),
            request(1, "tools/list", meta),
        )
        await server.answer(1)
        await server.kill()
        assert (await server.receive())["method"] == "notifications/tools/list_changed"
        make_skill("two")
        assert (await server.receive())["method"] == "notifications/tools/list_changed"
        await server.send(request(2, "tools/list", meta))
        assert "two" in json.dumps(await server.answer(2))


async def test_over_http_the_flag_is_refused(skills: Path) -> None:
    async with kept([*server_command(skills), "--keep-alive", "--transport", "http"]) as server:
        code, log = await server.end()
        assert code == 2
        assert "--keep-alive is for stdio" in log


async def test_a_call_that_is_open_when_the_server_is_killed_is_answered_with_an_error() -> None:
    async with kept() as server:
        await server.send(request(1, "tools/call"), request(2, "silent"))
        first = await server.ask(3, "pid")
        await server.kill()
        assert "started again" in (await server.answer(1))["error"]["message"]
        # The other request goes to the next server.
        assert await server.ask(4, "seen") == ["silent", "seen"]
        assert await server.ask(5, "pid") != first


async def test_half_a_message_of_a_killed_server_does_not_reach_the_client() -> None:
    async with kept() as server:
        await server.send(request(1, "half"))
        # The next server gets it too, and after that it counts as what ends them.
        assert "started again" in (await server.receive())["error"]["message"]
        assert await server.ask(2, "end") == "signal 9 (SIGKILL)"


async def test_lines_of_any_length_pass_in_both_directions() -> None:
    async with kept() as server:
        text = "y" * 5_000_000
        assert await server.ask(1, "size", text=text) > len(text)
        assert len(await server.ask(2, "big", size=5_000_000)) == 5_000_000


async def test_answers_wait_in_the_server_for_a_client_that_reads_late() -> None:
    async with kept() as server:
        count, size = 60, 1_000_000
        assert await server.ask(count, "pid")
        await server.send(*(request(number, "big", {"size": size}) for number in range(count)))
        assert await becomes(idle([psutil.Process(server.process.pid), server.worker()]))
        answers = [await server.receive() for _ in range(count)]
        assert [(each["id"], len(each["result"])) for each in answers] == [(number, size) for number in range(count)]
        if sys.platform == "linux":
            status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
            (peak,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
            assert peak < 40_000  # KiB


async def test_a_server_that_keeps_ending_is_given_up() -> None:
    async with kept() as server:
        # Each of these ends the server that it is for, and the one after that.
        for number in (1, 2):
            await server.send(request(number, "exit", {"code": 1}))
            assert "started again" in (await server.answer(number))["error"]["message"]
        await server.send(request(3, "exit", {"code": 3}))
        code, log = await server.end()
        assert code == 3
        assert "the server ended 5 times within 60 seconds, at last with exit code 3" in log


async def test_a_start_that_fails_again_and_again_is_given_up_in_the_format_of_the_log(skills: Path) -> None:
    words = [*server_command(skills), "--keep-alive", "--log-format", "json"]
    program = "import sys; sys.modules['mcp_types'] = None; from server.__main__ import main; main()"
    async with kept([sys.executable, "-c", program, *words[3:]]) as server:
        code, log = await server.end()
        assert code == 1
        last = json.loads(log.splitlines()[-1])
        assert "it is not started again" in last["message"]


async def test_a_server_that_cannot_start_is_not_started_again() -> None:
    async with kept() as server:
        await server.send(request(1, "exit", {"code": 2}))
        assert (await server.end())[0] == 2


async def test_a_server_that_cannot_start_any_more_ends() -> None:
    async with kept(LATE="2") as server:
        await server.send(request(1, "die"))
        assert (await server.end())[0] == 2


async def test_the_server_ends_with_its_client() -> None:
    async with kept() as server:
        pid = await server.ask(1, "pid")
        await server.send(request(2, "pid"))
        await server.hang_up()
        # What it was asked before is answered.
        assert (await server.answer(2))["result"] == pid
        assert (await server.end())[0] == 0
        assert not is_alive(pid)


async def test_a_server_that_is_killed_after_its_client_left_stays_away() -> None:
    async with kept() as server:
        await server.send(request(1, "busy"))
        await server.hang_up()
        await server.logs("busy")
        server.worker().kill()
        assert (await server.end())[0] == 128 + signal.SIGKILL


async def test_no_server_outlives_the_process_that_keeps_it() -> None:
    async with kept() as server:
        pid = await server.ask(1, "pid")
        server.process.kill()
        assert await becomes(lambda: not is_alive(pid))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_is_the_servers(number: signal.Signals) -> None:
    async with kept(DEAF="1") as server:
        pid = await server.ask(1, "pid")
        server.process.send_signal(number)
        if number == signal.SIGHUP:
            # It ends the small server, whose client is still there.
            assert await server.ask(2, "end") == "signal 1 (SIGHUP)"
            return
        # It takes SIGTERM for a wish, and SIGINT as every Python does.
        assert (await server.end())[0] == (7 if number == signal.SIGTERM else 128 + number)
        assert not is_alive(pid)


async def test_keys_of_a_terminal_reach_the_server_once() -> None:
    async with kept() as server:
        assert await server.ask(1, "group") == await server.ask(2, "pid") != os.getpgid(server.process.pid)


async def test_without_pipes_there_is_one_process(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(line_of(request(1, "pid")) + b"\n")
    with (tmp_path / "in").open("rb") as source:
        process = await anyio.open_process([sys.executable, "-c", SMALL], cwd=REPOSITORY, stdin=source)
        async with process:
            assert process.stdout is not None
            assert json.loads(await process.stdout.receive())["result"] == process.pid
