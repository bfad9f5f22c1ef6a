"""Measure how a server tells many clients over HTTP of an edit, and what it costs those that work beside them.

The clients, half of each protocol era, listen to everything from this process. Another process activates a skill again
and again. A skill is edited several times; given are the time until the last client was told, the processor time of the
server for each notification, and the time of the activations meanwhile. Beside them, sessions are opened and left: what
a session and a subscriber cost in memory.

Beside the server stands a floor that uses what the SDK has (`fanout_floor.py`). Several servers (`--server`, folders of
this repository) are measured in turns, so that a busy machine slows all alike.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from corpus import skill_name, write_corpus
from http_link import HttpLink
from processes import Command, free_port, running
from soak import _allow_open_files, _resident
from soak_clients import ALL_LISTS, open_session
from soak_http import ask, send
from wire import BenchError, Era, request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

    from processes import Process
    from soak_http import Answer

ROOT = Path(__file__).parents[1]
SERVE = (sys.executable, "-m", "server", "serve", "{dir}", "--transport", "http", "--port", "{port}")
MAIN = f"{skill_name(0)}/SKILL.md"
FLOOR = (sys.executable, str(Path(__file__).with_name("fanout_floor.py")), f"{{dir}}/{MAIN}", "URI", "{port}")
URI = f"skill://{MAIN}"
SKILLS = 50
KINDS = 4
# Notifications of an edit of a description, for a client that listens to everything.
T = TypeVar("T")
START_SECONDS = 60.0
TOLD_SECONDS = 30.0
PAUSE = 0.002
# Between two activations.
AT_ONCE = 20
# Clients that connect at the same time.
_MARK = b'"method":"notifications/'
_ACKNOWLEDGED = b"acknowledged"


@dataclass
class _Subscriber:
    """A client that listens: how many notifications it has, and when the last one came."""

    stream: Answer
    received: int = 0
    at: float = 0.0
    more: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Count notifications until the stream ends; messages are not decoded, since this process has a thousand."""
        rest = b""
        async for chunk in self.stream.chunks():
            text = rest + chunk
            whole, end, rest = text.rpartition(b"\n")
            found = (whole + end).count(_MARK) - (whole + end).count(_ACKNOWLEDGED)
            if found:
                self.received += found
                self.at = time.perf_counter()
                self.more.set()


@dataclass
class _Measured:
    """What was measured of one server."""

    last: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    quiet: list[float] = field(default_factory=list)
    subscriber_kb: float = 0.0
    session_kb: float = 0.0
    open_ms: float = 0.0


@dataclass
class _Server:
    """A running server, its skills, and the clients that listen."""

    process: Process
    port: int
    skills: Path
    found: _Measured = field(default_factory=_Measured)
    subscribers: list[_Subscriber] = field(default_factory=list)
    readers: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all threads of the server."""
        threads = Path(f"/proc/{self.process.pid}/task")
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads.iterdir()) / 1e9

    @property
    def resident(self) -> float:
        """Memory of the server in KB."""
        return float(_resident(self.process.pid) or 0)

    async def open(self, count: int, left: int) -> None:
        """Open sessions that are left alone, and then the subscribers."""
        await _all(lambda _: open_session(self.port), AT_ONCE)
        before = self.resident
        await _all(lambda _: open_session(self.port), left)
        self.found.session_kb = (self.resident - before) / left if left else 0.0
        before, cpu = self.resident, self.cpu_seconds
        self.subscribers = await _all(self._subscriber, count)
        self.found.subscriber_kb = (self.resident - before) / count
        self.found.open_ms = (self.cpu_seconds - cpu) / count * 1000
        self.readers = [asyncio.create_task(each.read()) for each in self.subscribers]

    async def _subscriber(self, number: int) -> _Subscriber:
        if number % 2:
            session = await open_session(self.port)
            stream = await send(self.port, "GET", session=session)
            await ask(self.port, request(Era.HANDSHAKE, 2, "resources/subscribe", {"uri": URI}), session)
        else:
            wanted = {"notifications": {**ALL_LISTS, "resourceSubscriptions": [URI]}}
            stream = await send(self.port, "POST", request(Era.MODERN, 1, "subscriptions/listen", wanted))
        if stream.status != 200:  # noqa: PLR2004 - HTTP's own number
            raise BenchError(f"no stream: HTTP {stream.status}")
        return _Subscriber(stream)

    async def edit(self, number: int) -> None:
        """Edit a skill, and wait until everyone is told."""
        path = self.skills / skill_name(0) / "SKILL.md"
        draft = self.skills.parent / "draft.md"
        text = path.read_text(encoding="utf-8")
        draft.write_text(text.replace('description: "', f'description: "Edit {number}. ', 1), encoding="utf-8")
        wanted = [each.received + KINDS for each in self.subscribers]
        cpu, edited = self.cpu_seconds, time.perf_counter()
        draft.replace(path)
        async with asyncio.timeout(TOLD_SECONDS):
            for each, enough in zip(self.subscribers, wanted, strict=True):
                while each.received < enough:
                    each.more.clear()
                    await each.more.wait()
        self.found.last.append(max(each.at for each in self.subscribers) - edited)
        self.found.cpu.append((self.cpu_seconds - cpu) / (KINDS * len(self.subscribers)))


async def _all(make: Callable[[int], Awaitable[T]], count: int) -> list[T]:
    """Return what `make` returns for each number, a few at a time."""
    numbers, made = iter(range(count)), list[T]()

    async def some() -> None:
        for number in numbers:
            made.append(await make(number))

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return made


def _activate(port: int, name: str, go: Event, results: Connection) -> None:
    """Activate a skill again and again, and send the seconds of each activation for each span in which `go` is set.

    An empty list comes first, when it can begin.
    """
    link = HttpLink(_Alive(), port, Era.MODERN, START_SECONDS)  # type: ignore[arg-type] # it is only asked if it runs
    numbers = itertools.count(1)
    results.send([])
    while True:
        go.wait()
        found: list[float] = []
        while go.is_set():
            call = {"name": "activate_skill", "arguments": {"name": name}}
            answer = link.exchange(request(Era.MODERN, next(numbers), "tools/call", call), TOLD_SECONDS)
            if "result" not in answer.reply:
                raise BenchError(json.dumps(answer.reply))
            found.append(answer.seconds)
            time.sleep(PAUSE)
        results.send(found)


class _Alive:
    """The server's process, as seen by another process than its parent: it runs."""

    def poll(self) -> None:
        """Return no exit code."""


async def _measured(server: _Server, edits: int, number: int) -> None:
    """Edit a few times while skills are activated, and once more without, for the processor time."""
    spawning = multiprocessing.get_context("spawn")
    go = spawning.Event()
    results, sender = spawning.Pipe(duplex=False)
    arguments = (server.port, skill_name(1), go, sender)
    worker = spawning.Process(target=_activate, args=arguments, daemon=True)
    worker.start()
    try:
        await asyncio.to_thread(results.recv)
        for seconds in (server.found.quiet, server.found.beside):
            go.set()
            await asyncio.sleep(1)
            if seconds is server.found.beside:
                for each in range(edits):
                    await server.edit(number * 100 + each)
                    await asyncio.sleep(0.3)
            go.clear()
            seconds.extend(await asyncio.to_thread(results.recv))
    finally:
        worker.terminate()
        worker.join()
    server.found.cpu.clear()
    for each in range(edits):
        await server.edit(number * 100 + 50 + each)


def main() -> int:
    """Print what was measured of each server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, nargs="+", default=[ROOT], help="folders of servers")
    parser.add_argument("--clients", type=int, default=1000, help="subscribers, half of each era")
    parser.add_argument("--left", type=int, default=300, help="sessions that are opened and left")
    parser.add_argument("--edits", type=int, default=4, help="edits in each round")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    _allow_open_files()
    columns = ("told last, ms", "at most", "CPU each, ms", "activation p50", "p99", "p99 quiet", "subscriber, KB")
    print("".join(f"{each:>16}" for each in (*columns, "opened, ms", "session, KB")), flush=True)
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as name, ExitStack() as stack:
        servers: list[_Server] = []
        for number, root in enumerate([*options.server, None]):
            home, port = Path(name) / str(number), free_port()
            write_corpus(home / "skills", SKILLS)
            settings = (("SKILLSERVE_ANALYTICS", "false"), ("PYTHONPATH", str(root or ROOT)))
            words = SERVE if root else tuple(URI if word == "URI" else word for word in FLOOR)
            command = Command(words, root or ROOT, home, settings)
            process = stack.enter_context(running(command, home / "skills", port, piped=False))
            servers.append(_Server(process, port, home / "skills"))
        asyncio.run(_all_measured(servers, options))
        for title, server in zip([*(root.resolve().name for root in options.server), "floor"], servers, strict=True):
            _print(title, server.found)
    return 0


async def _all_measured(servers: list[_Server], options: argparse.Namespace) -> None:
    for server in servers:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with suppress(OSError):
                    (await send(server.port, "GET")).close()
                    break
                await asyncio.sleep(0.1)
        await server.open(options.clients, options.left)
    for number in range(options.rounds):
        for server in servers:
            await _measured(server, options.edits, number)
    for server in servers:
        for task in server.readers:
            task.cancel()
        for each in server.subscribers:
            each.stream.close()


def _print(title: str, found: _Measured) -> None:
    beside, quiet = sorted(found.beside), sorted(found.quiet)
    milliseconds = (
        statistics.median(found.last),
        max(found.last),
        statistics.mean(found.cpu),
        statistics.median(beside),
        beside[int(len(beside) * 0.99)],
        quiet[int(len(quiet) * 0.99)],
    )
    shown = [f"{1000 * each:.{3 if number == 2 else 1}f}" for number, each in enumerate(milliseconds)]  # noqa: PLR2004 - CPU
    rest = (found.subscriber_kb, found.open_ms, found.session_kb)
    print("".join(f"{each:>16}" for each in (*shown, *(f"{each:.1f}" for each in rest))), title, flush=True)


if __name__ == "__main__":
    sys.exit(main())
