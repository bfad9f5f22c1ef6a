"""Compare throughput and processor time over HTTP with the floor, for several numbers of clients at once.

    .venv/bin/python bench/http_load.py [--skills N] [--clients 1,16,128] [--seconds S] [--rounds N] [--only NAME ...]

Each client keeps one connection and sends its next request when the last one is answered. Spans with the floor and with
our server alternate. The processor time of a server a request is the steadier figure: other load on the machine slows
the answers of both, and adds nothing to it. With `--token`, our server requires a login, and each client is a user of
its own: requests of one user take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from client import Client
from corpus import write_corpus
from http_link import MIRRORED, HttpLink
from processes import HOST, Command, free_port, running
from record import operations, record
from scale_measures import settle
from wire import BenchError, Era, encode, request

from server.capabilities.login.static_tokens import TokenFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from processes import Process
    from record import Walk
    from wire import Message

HERE = Path(__file__).resolve().parent
START_SECONDS = 60.0
WITH_LOGIN = (
    ("SKILLSERVE_LOGIN_TOKENS", "true"),
    ("SKILLSERVE_LIMITS_REQUESTS_PER_SECOND", "100000"),
    ("SKILLSERVE_LIMITS_BURST", "100000"),
)
"""Settings of our server with a login: its limits of one user are far above what a client sends here."""

TICKS = os.sysconf("SC_CLK_TCK")
TIMED = {
    "tools/list": "tools/list",
    "prompts/list": "prompts/list",
    "skills/list": "skills/list, all pages",
    "activate": "activate_skill",
    "skills/get": "skills/get",
    "read": "read SKILL.md",
}
"""The operations of `record` by their names in the table."""


class Server(NamedTuple):
    """A running server."""

    process: Process
    port: int
    tokens: tuple[str, ...] = ()

    def cpu(self) -> float:
        """Return the seconds of the processor that the server has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def messages(self, walks: list[Walk], client: int) -> list[bytes]:
        """Return the requests of an operation as a client sends them; each client begins with another one."""
        at = client % len(walks)
        return [self._message(client, number, *walk[0]) for number, walk in enumerate(walks[at:] + walks[:at], 1)]

    def _message(self, client: int, number: int, method: str, params: Message) -> bytes:
        body = encode(request(Era.MODERN, number, method, params))
        lines = [
            "POST /mcp HTTP/1.1",
            f"Host: {HOST}:{self.port}",
            f"Content-Length: {len(body)}",
            "Accept: application/json, text/event-stream",
            "Content-Type: application/json",
            f"MCP-Protocol-Version: {Era.MODERN.protocol}",
            f"Mcp-Method: {method}",
        ]
        if key := MIRRORED.get(method):
            lines.append(f"Mcp-Name: {params[key]}")
        if self.tokens:
            lines.append(f"Authorization: Bearer {self.tokens[client]}")
        return "\r\n".join((*lines, "", "")).encode() + body


class _Client(asyncio.Protocol):
    """One connection, which sends the next request when one is answered."""

    def __init__(self, coming: Iterator[bytes], seconds: list[float], failed: list[bytes]) -> None:
        self._coming, self._seconds, self._failed = coming, seconds, failed
        self._received = bytearray()
        self._missing = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment] # a stream's transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._missing < 0:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._received[:end]).lower()
            if not head.startswith(b"http/1.1 200"):
                self._failed.append(bytes(self._received))
            found = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._missing = end + 4 + int(found or 0)
        if len(self._received) >= self._missing:
            self._seconds.append(time.perf_counter() - self._begin)
            self._received.clear()
            self._missing = -1
            self._send()

    def _send(self) -> None:
        self._begin = time.perf_counter()
        self._transport.write(next(self._coming))


async def _load(server: Server, messages: list[list[bytes]], seconds: float) -> tuple[list[float], float]:
    """Send the requests of each client again and again for a time.

    Return how long each answer took, and the server's seconds of the processor.
    """
    loop, taken, failed = asyncio.get_running_loop(), list[float](), list[bytes]()
    transports = []
    before = server.cpu()
    for each in messages:
        made = await loop.create_connection(partial(_Client, itertools.cycle(each), taken, failed), HOST, server.port)
        transports.append(made[0])
    await asyncio.sleep(seconds)
    spent = server.cpu() - before
    for transport in transports:
        transport.abort()
    if failed:
        raise BenchError(f"{len(failed)} requests failed, such as {failed[0][:500]!r}")
    return taken, spent


class Cell(NamedTuple):
    """One operation with a number of clients: floor and ours."""

    throughput: tuple[float, float]
    cpu_ms: tuple[float, float]
    p50_ms: tuple[float, float]

    def line(self, operation: str, clients: int) -> str:
        """Return the line of the table."""
        return (
            f"{operation:<14}{clients:>8}{self.throughput[0]:>10.0f}{self.throughput[1]:>10.0f}"
            f"{self.throughput[1] / self.throughput[0]:>9.2f}"
            f"{self.cpu_ms[0]:>8.3f}{self.cpu_ms[1]:>8.3f}{self.p50_ms[0]:>8.2f}{self.p50_ms[1]:>8.2f}"
            f"{self.p50_ms[1] / self.p50_ms[0]:>7.2f}"
        )


def _measure(pair: tuple[Server, Server], walks: list[Walk], clients: int, seconds: float, rounds: int) -> Cell:
    found: tuple[list[float], list[float]] = ([], [])
    cpu, count = [0.0, 0.0], [0, 0]
    requests = [[server.messages(walks, client) for client in range(clients)] for server in pair]
    for turn in range(rounds + 1):
        order = (0, 1) if turn % 2 else (1, 0)
        for index in order:
            # The first turn warms up.
            length = seconds if turn else seconds / 4
            taken, spent = asyncio.run(_load(pair[index], requests[index], length))
            if turn:
                found[index].extend(taken)
                cpu[index] += spent
                count[index] += len(taken)
    return Cell(
        (count[0] / seconds / rounds, count[1] / seconds / rounds),
        (cpu[0] / count[0] * 1000, cpu[1] / count[1] * 1000),
        (statistics.median(found[0]) * 1000, statistics.median(found[1]) * 1000),
    )


def _started(stack: ExitStack, command: Command, folder: Path, tokens: tuple[str, ...] = ()) -> Server:
    port = free_port()
    return Server(stack.enter_context(running(command, folder, port, piped=False)), port, tokens)


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=1000)
    parser.add_argument("--clients", default="1,16,128")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each span")
    parser.add_argument("--rounds", type=int, default=3, help="spans of each server")
    parser.add_argument("--only", nargs="+", choices=list(TIMED), default=list(TIMED))
    parser.add_argument("--token", action="store_true", help="with a login, and a static token for each client")
    parser.add_argument("--settings", nargs="*", default=[], metavar="NAME=VALUE", help="variables of our server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as name, ExitStack() as stack:
        folder, answers = Path(name) / "skills", Path(name) / "answers.json"
        write_corpus(folder, options.skills)
        given = tuple(tuple(each.split("=", 1)) for each in options.settings)
        settings = (("XDG_STATE_HOME", f"{name}/state"), *given)
        clients = [int(each) for each in options.clients.split(",")]
        tokens: tuple[str, ...] = ()
        if options.token:
            file = TokenFile(Path(name) / "state/skillserve/tokens.json")
            tokens = tuple(file.add(f"user-{number}", (), None) for number in range(max(clients)))
            settings = (*WITH_LOGIN, *settings)
        serve = (sys.executable, "-m", "server", "serve", "{dir}", "--transport", "http", "--port", "{port}")
        ours = Command(serve, HERE.parent, Path(name), settings)
        served = _started(stack, ours, folder, tokens)
        link = HttpLink(served.process, served.port, Era.MODERN, START_SECONDS, *tokens[:1])
        # While skills are loading, the list of tools has no names of them.
        settle(served.process.pid)
        names, recorded = record(Client(link, Era.MODERN, served.process.spawned, served.process.pid))
        link.close()
        answers.write_text(json.dumps(recorded), encoding="utf-8")
        words = (sys.executable, "-m", "floor", "{dir}", "--answers", str(answers), "--port", "{port}")
        floor = _started(stack, Command(words, HERE, Path(name)), folder)
        HttpLink(floor.process, floor.port, Era.MODERN, START_SECONDS).close()
        # After the first list of tools, skills are compared and texts are prepared.
        settle(served.process.pid)
        wanted = operations(Era.MODERN, names, recorded["pages"])
        print(
            f"{'':<14}{'clients':>8}{'floor/s':>10}{'ours/s':>10}{'x floor':>9}{'CPU ms':>16}{'p50 ms':>16}{'p50':>7}"
        )
        for count in clients:
            for shown in options.only:
                walks = [[walk[0]] for walk in wanted[TIMED[shown]]]
                cell = _measure((floor, served), walks, count, options.seconds, options.rounds)
                print(cell.line(shown, count), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
