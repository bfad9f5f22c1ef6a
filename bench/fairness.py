"""Measure how long others wait while one principal does its worst within the limits of a server.

One server with a login has two users. One asks for the list of tools every few milliseconds; the other attacks from a
process of its own, each time with another kind of request. Quiet and attacked spans alternate. The figure is the p95 of
the answers under attack, divided by that of the quiet spans around it; the goal is at most 3.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from corpus import write_corpus
from http_link import HttpLink
from processes import HOST, Command, free_port, running
from wire import BenchError, Era, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.synchronize import Event

    from wire import Message

ROOT = Path(__file__).parents[1]
START_SECONDS = 60.0
CALL_SECONDS = 30.0
PAUSE = 0.01
# Between two calls of the user who waits.
SETTLE_SECONDS = 0.5
GOAL = 3.0
CONNECTIONS = 64
HALF_OPEN = 900
SERVE = (sys.executable, "-m", "server", "serve", "{dir}", "--transport", "http", "--port", "{port}")
LOGIN = ("SKILLSERVE_LOGIN_TOKENS", "true")
META = "_meta"


def _call(extra: str, era: Era, name: str = "_meta") -> bytes:
    """Return a call of tools/list with a text of JSON in its `_meta`, or in another parameter."""
    message = request(era, 1, "tools/list", {})
    if name == META:
        message["params"].setdefault(META, {})["x"] = "EXTRA"
    else:
        message["params"][name] = "EXTRA"
    return json.dumps(message).replace('"EXTRA"', extra).encode()


def _objects(count: int) -> str:
    return "[" + ",".join(['{"a":{}}'] * count) + "]"


def _object(names: Iterator[str], value: str = "0") -> str:
    return "{" + ",".join(f'"{name}":{value}' for name in names) + "}"


BODIES: dict[str, Callable[[Era], bytes]] = {
    "plain calls": lambda era: _call("0", era),
    "as many objects as may be": lambda era: _call(_objects(3300), era),
    "as many fields as may be": lambda era: _call(_object(f"{number:x}" for number in range(9900)), era, "arguments"),
    "as many decimals as may be": lambda era: _call("[" + ",".join(["1.234567890123456789e100"] * 4000) + "]", era),
    "a text of 900 KB": lambda era: _call('"' + "x" * 900_000 + '"', era, "arguments"),
    "a text of 450,000 escapes": lambda era: _call('"' + '\\"' * 450_000 + '"', era, "arguments"),
    "150,000 objects": lambda era: _call(_objects(100_000), era),
    "100,000 fields": lambda era: _call(_object(f"{number:x}" for number in range(90_000)), era, "arguments"),
    "one field 90,000 times": lambda era: _call(_object(itertools.repeat("a", 90_000)), era, "arguments"),
    "4 MB": lambda era: _call('"' + "x" * 4_000_000 + '"', era),
    "nested 900 deep": lambda era: _call("[" * 900 + "]" * 900, era),
    "numbers of 4,000 digits": lambda era: _call("[" + ",".join(["9" * 4000] * 20) + "]", era),
    "a batch of 3,000": lambda era: b"[" + b",".join([_call("0", era)] * 3000) + b"]",
}
"""What the attacker sends in a loop, on so many connections."""


def _head(token: str, era: Era, length: int, more: str = "") -> bytes:
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: {HOST}",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Authorization: Bearer {token}",
        f"MCP-Protocol-Version: {era.protocol}",
        "Mcp-Method: tools/list",
        f"Content-Length: {length}",
    ]
    return ("\r\n".join(lines) + "\r\n" + more + "\r\n").encode()


async def _attack(port: int, kind: str, token: str, era: Era, session: str | None) -> None:
    """Send requests of one kind until cancelled."""
    more = "" if session is None else f"Mcp-Session-Id: {session}\r\n"
    match kind:
        case "half-open connections":
            jobs = [_half_open(port, b"") for _ in range(HALF_OPEN)]
        case "slow heads":
            jobs = [_half_open(port, b"POST /mcp HTTP/1.1\r\nHost: ") for _ in range(CONNECTIONS)]
        case "slow bodies":
            jobs = [_half_open(port, _head(token, era, 1_000_000, more)) for _ in range(CONNECTIONS)]
        case "many headers":
            many = "".join(f"X-{number}: {number}\r\n" for number in range(4000))
            body = _call("0", era)
            jobs = [_ask(port, _head(token, era, len(body), more + many) + body) for _ in range(CONNECTIONS)]
        case _:
            body = BODIES[kind](era)
            jobs = [_ask(port, _head(token, era, len(body), more) + body) for _ in range(CONNECTIONS)]
    await asyncio.gather(*jobs)


SHAPES = ("half-open connections", "slow heads", "slow bodies", "many headers")
"""Attacks that are no loop of whole requests."""


async def _ask(port: int, message: bytes) -> None:
    """Send a request again and again, each time when the one before is answered."""
    while True:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                while True:
                    writer.write(message)
                    head = await reader.readuntil(b"\r\n\r\n")
                    found = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                    await reader.readexactly(int(found[0].split(b":")[1]) if found else 0)
            finally:
                writer.close()
        await asyncio.sleep(0.005)


async def _half_open(port: int, begin: bytes) -> None:
    """Connect, send a beginning, and then a byte each second."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(begin)
                while not reader.at_eof():
                    if begin:
                        writer.write(b"x")
                    await asyncio.sleep(1)
            finally:
                writer.close()
        await asyncio.sleep(0.05)


def _attacker(ready: Event, port: int, kind: str, token: str, era: Era, session: str | None) -> None:
    async def attack() -> None:
        ready.set()
        await _attack(port, kind, token, era, session)

    asyncio.run(attack())


class _User:
    """The user who asks for the list of tools, and measures how long that takes."""

    def __init__(self, link: HttpLink, era: Era) -> None:
        self._link = link
        self._era = era
        self._numbers = itertools.count(1)

    def seconds(self, span: float) -> list[float]:
        """Ask for a span of time; return the seconds of each answer."""
        end, found = time.perf_counter() + span, []
        while time.perf_counter() < end:
            answer = self._link.exchange(request(self._era, next(self._numbers), "tools/list", {}), CALL_SECONDS)
            if "result" not in answer.reply:
                raise BenchError(f"{answer.reply}")
            found.append(answer.seconds)
            time.sleep(PAUSE)
        return found


def _p95(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.95)]


def _token(command: Command, name: str) -> str:
    made = subprocess.run(
        [sys.executable, "-m", "server", "token", "add", name],
        cwd=command.cwd,
        env=command.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.strip()


def _under_attack(user: _User, span: float, arguments: tuple[int, str, str, Era, str | None]) -> list[float]:
    spawning = multiprocessing.get_context("spawn")
    ready = spawning.Event()
    attacker = spawning.Process(target=_attacker, args=(ready, *arguments), daemon=True)
    attacker.start()
    try:
        ready.wait(START_SECONDS)
        user.seconds(SETTLE_SECONDS)
        return user.seconds(span)
    finally:
        attacker.terminate()
        attacker.join()
        time.sleep(SETTLE_SECONDS)


def _measure(era: Era, kinds: list[str], count: int, span: float) -> Iterator[tuple[str, list[float], list[float]]]:
    """Yield for each attack the seconds of answers in the quiet spans around it, and of those under it."""
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as name:
        folder, port = Path(name), free_port()
        write_corpus(folder / "skills", count)
        state = ("XDG_STATE_HOME", str(folder / "state"))
        command = Command(SERVE, ROOT, folder, (state, ("SKILLSERVE_ANALYTICS", "false"), LOGIN))
        ben, anna = _token(command, "ben"), _token(command, "anna")
        with running(command, folder / "skills", port, piped=False) as process:
            link = HttpLink(process, port, era, START_SECONDS, ben)
            other = HttpLink(process, port, era, START_SECONDS, anna)
            session = None
            if era is Era.HANDSHAKE:
                _initialize(link)
                session = _initialize(other)
            other.close()
            user = _User(link, era)
            gc.disable()
            user.seconds(span)
            for kind in kinds:
                quiet = user.seconds(span)
                attacked = _under_attack(user, span, (port, kind, anna, era, session))
                quiet += user.seconds(span)
                yield kind, quiet, attacked
            gc.enable()
            link.close()


def _initialize(link: HttpLink) -> str | None:
    params: Message = {
        "protocolVersion": Era.HANDSHAKE.protocol,
        "capabilities": {},
        "clientInfo": {"name": "b", "version": "1"},
    }
    link.exchange(request(Era.HANDSHAKE, 0, "initialize", params), CALL_SECONDS)
    link.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return link.session


def main() -> int:
    """Print a table for each era."""
    every = [*BODIES, *SHAPES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=100, help="generated skills")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each span")
    parser.add_argument("--attacks", nargs="+", choices=every, default=every, help="kinds of attacks")
    parser.add_argument("--era", nargs="+", choices=[each.value for each in Era], default=[each.value for each in Era])
    options = parser.parse_args()
    for era in map(Era, options.era):
        print(f"{era.value:<28}{'p50':>9}{'p95':>9}{'attacked p50':>16}{'p95':>9} ms{'p50 ratio':>12}{'p95 ratio':>12}")
        for kind, quiet, attacked in _measure(era, options.attacks, options.skills, options.seconds):
            medians, tails = [(f(quiet), f(attacked)) for f in (statistics.median, _p95)]
            ratio = tails[1] / tails[0]
            times = "".join(
                f"{seconds * 1000:>{width}.2f}"
                for seconds, width in ((medians[0], 9), (tails[0], 9), (medians[1], 16), (tails[1], 9))
            )
            mark = "  > goal" if ratio > GOAL else ""
            print(f"  {kind:<26}{times}   {medians[1] / medians[0]:>12.2f}{ratio:>12.2f}{mark}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
