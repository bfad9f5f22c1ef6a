"""Soak test: 200 clients, 20 of them hostile, use a server for a minute while a skill is edited each second.

Beside them, 200 pages are open in browsers.

Requirements: each well-behaved client receives one notification of each kind for each edit, before the next edit, and
each page an event; clients that list, search, activate and read get right answers only; the server logs no error,
including at its stop; and its memory stays within three percent of that after a settling time. The exit code is 1 if a
requirement is not met.

SOAK_SECONDS sets the duration, 60 by default and at most 900. With SOAK_ROLES=50, clients log in with tokens of that
many roles, of which each one sees other skills.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from corpus import skill_name, write_corpus
from processes import Command, Process, free_port, running
from soak_clients import (
    OF_PAGES,
    Inbox,
    abandoning_sessions,
    described,
    handshake_client,
    looping_subscriptions,
    mixed_requests,
    modern_client,
    never_reading,
    open_page,
    sdk_client,
)
from soak_http import send
from soak_roles import Team
from wire import BenchError, Era

if TYPE_CHECKING:
    from collections.abc import Coroutine

REPOSITORY = Path(__file__).resolve().parents[1]
CLIENTS, HOSTILE, SDK_CLIENTS = 200, 20, 8
PAGES, LOOKING_PAGES = 200, 20
# Without a login, as many people have the page open beside the clients; some of them look at it at each edit.

SKILLS = 50
MIXING = 10
MIN_SETTLING_SECONDS, SETTLING_PART = 10.0, 1 / 6
MAX_GROWTH = 1.03
MAX_SECONDS = 900.0
MAX_ROLES = 1000
CONNECTING_SECONDS = 60.0
STOPPING_SECONDS = 10.0
BESIDE_SECONDS = 110.0
# For start, connections and stop.

EDIT_SECONDS = 1.0
LOST_SECONDS = 20.0
# A notification that is later than this counts as lost; the bound allows for a busy machine.

IDLE_SECONDS = 3
# Abandoned sessions expire after this, so that their number is constant from then on.

SHOWN_LINES = 80
# Of the log after its first error: enough for the traceback of a handler.

_UNAUTHORIZED = 401
ERROR = re.compile(r" (?:ERROR|CRITICAL) |^Traceback ")


@dataclass
class Findings:
    """The measurements, and the requirements that are not met."""

    seconds: float
    edits: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    delays: list[float] = field(default_factory=list)
    notifications: int = 0
    memory: list[tuple[float, int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def settling(self) -> float:
        """Seconds after which the memory should not grow."""
        return max(MIN_SETTLING_SECONDS, self.seconds * SETTLING_PART)

    def judge_memory(self) -> tuple[int, int]:
        """Return the memory until the settling time and the highest later, in KB; record growth as a fault."""
        settled = max((kilobytes for at, kilobytes in self.memory if at <= self.settling), default=0)
        later = max((kilobytes for at, kilobytes in self.memory if at > self.settling), default=0)
        if settled and later > settled * MAX_GROWTH:
            self.faults.append(f"memory grew from {settled // 1024} MB to {later // 1024} MB")
        return settled, later


def main() -> int:
    """Run the soak test and print the results; return 1 if a requirement is not met."""
    seconds = float(os.environ.get("SOAK_SECONDS", "60"))
    roles = int(os.environ.get("SOAK_ROLES", "0"))
    if not MIN_SETTLING_SECONDS < seconds <= MAX_SECONDS:
        expected = f"expected more than {MIN_SETTLING_SECONDS:g} and at most {MAX_SECONDS:g}"
        print(f"SOAK_SECONDS: {expected}", file=sys.stderr)
        return 2
    if not 0 <= roles <= MAX_ROLES:
        print(f"SOAK_ROLES: expected 0 to {MAX_ROLES}", file=sys.stderr)
        return 2
    _allow_open_files()
    # The SDK's clients log errors when the server stops, which is intended.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    findings = Findings(seconds)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="skillserve-soak-") as folder:
        log = Path(folder) / "log"
        try:
            _soak(Path(folder), log, Team.found(Path(folder), roles), findings)
        except Exception as error:  # noqa: BLE001 - any error fails the test
            findings.faults.append(f"the soak test was interrupted: {_words(error)}")
        logged = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    errors = [line for line in logged.splitlines() if ERROR.search(line)]
    if errors:
        findings.faults.append(f"{len(errors)} errors in the log, first: {errors[0]}")
    settled, later = findings.judge_memory()
    warned = sum(" WARNING " in line for line in logged.splitlines())
    delays = sorted(findings.delays) or [0.0]
    who = f"{CLIENTS} clients of {roles or 'no'} roles, {HOSTILE} of them hostile, {0 if roles else PAGES} pages"
    print(f"{who}; {seconds:g} s, {time.monotonic() - started:.0f} s in all")
    print(f"edits                      {findings.edits}")
    print(f"notifications              {findings.notifications}")
    print(f"answers to mixed requests  {findings.answered.total()}")
    print(f"edit to notification       {statistics.median(delays):.2f} s median, {delays[-1]:.2f} s at most")
    print(f"memory until {findings.settling:g} s, then    {settled / 1024:.1f} MB, {later / 1024:.1f} MB at most")
    print(f"log                        {len(errors)} errors, {warned} warnings")
    for fault in findings.faults:
        print(f"FAILED: {fault}")
    if errors:
        print(f"the log from there on:\n{_from_first_error(logged)}")
    return 1 if findings.faults else 0


def _from_first_error(logged: str) -> str:
    """Return the lines of a log from its first error on, which include its traceback."""
    lines = logged.splitlines()
    first = next(at for at, line in enumerate(lines) if ERROR.search(line))
    return "\n".join(lines[first : first + SHOWN_LINES])


def _soak(folder: Path, log: Path, team: Team, findings: Findings) -> None:
    root = folder / "skills"
    write_corpus(root, max(SKILLS, len(team.tokens) + 1))
    port = free_port()
    settings = f"import os, sys; os.environ['SKILLSERVE_SESSION_IDLE_SECONDS'] = '{IDLE_SECONDS}'"
    begin = f"{settings}; sys.stderr = open({str(log)!r}, 'w', buffering=1); from server.__main__ import main; main()"
    words = (sys.executable, "-c", begin, "serve", "{dir}", "--transport", "http", "--port", "{port}")
    command = Command((*words, "--log-level", "warning"), REPOSITORY, folder)
    with running(command, root, port, piped=False) as process:
        asyncio.run(_bounded(process, root, port, team, findings))


async def _bounded(process: Process, root: Path, port: int, team: Team, findings: Findings) -> None:
    async with asyncio.timeout(findings.seconds + BESIDE_SECONDS):
        await _until_listening(process, port)
        if team.tokens and (await send(port, "GET")).status != _UNAUTHORIZED:
            raise BenchError("a request without a token was served")
        clients = [Inbox(f"client {number}") for number in range(CLIENTS - HOSTILE)]
        pages = [Inbox(f"page {number}", OF_PAGES) for number in range(0 if team.tokens else PAGES)]
        inboxes = [*clients, *pages]
        ready = [asyncio.Event() for _ in inboxes]
        uri = f"skill://{skill_name(0)}/SKILL.md"
        good = [
            asyncio.create_task(_good(port, uri, each, is_ready, i, team))
            for i, (each, is_ready) in _pairs(clients, ready[: len(clients)])
        ]
        good += [
            asyncio.create_task(_page(port, each, is_ready, i))
            for i, (each, is_ready) in _pairs(pages, ready[len(clients) :])
        ]
        async with asyncio.timeout(CONNECTING_SECONDS):
            await asyncio.gather(*(event.wait() for event in ready))
        bad = [asyncio.create_task(_hostile(port, i, team)) for i in range(HOSTILE)]
        mixing = [asyncio.create_task(_mixing(port, i, team, findings)) for i in range(MIXING)]
        measuring = asyncio.create_task(_measure(process, findings))
        try:
            team.log_in(0)
            await _edit(root, port, inboxes, findings)
        finally:
            for task in (measuring, *mixing):
                task.cancel()
            await asyncio.gather(*mixing, return_exceptions=True)
        # Stop with all streams open, because the stop must not log errors either.
        process.terminate()
        async with asyncio.timeout(STOPPING_SECONDS):
            while process.poll() is None:  # noqa: ASYNC110 - Popen has no event to wait for
                await asyncio.sleep(0.05)
        for task in (*good, *bad):
            task.cancel()
        await asyncio.gather(*good, *bad, measuring, return_exceptions=True)


def _pairs(inboxes: list[Inbox], ready: list[asyncio.Event]) -> enumerate[tuple[Inbox, asyncio.Event]]:
    return enumerate(zip(inboxes, ready, strict=True))


async def _hostile(port: int, number: int, team: Team) -> None:
    team.log_in(number)
    await (never_reading, abandoning_sessions, looping_subscriptions)[number % 3](port, number)


async def _mixing(port: int, number: int, team: Team, findings: Findings) -> None:
    """Run a client that asks for many things; its failure is a fault of the server."""
    team.log_in(number)
    era = Era.MODERN if number % 2 else Era.HANDSHAKE
    try:
        await mixed_requests(port, era, team.skill_of(number), team.hidden_from(number), findings.answered)
    except Exception as error:  # noqa: BLE001 - any error fails the test
        findings.faults.append(f"mixed requests: {_words(error)}")


async def _good(port: int, uri: str, inbox: Inbox, ready: asyncio.Event, number: int, team: Team) -> None:
    """Run a well-behaved client of either era; attribute its failure to the server."""
    team.log_in(number)
    era = Era.MODERN if number % 2 else Era.HANDSHAKE
    client: Coroutine[None, None, None]
    if number < SDK_CLIENTS:
        client = sdk_client(port, uri, inbox, ready, era)
    else:
        client = (modern_client if era is Era.MODERN else handshake_client)(port, uri, inbox, ready)
    try:
        await client
        inbox.fault = "its stream ended"
    except Exception as error:  # noqa: BLE001 - any error fails the test
        inbox.fault = _words(error)
    # After a failure, do not keep the caller waiting for this client.
    ready.set()


async def _page(port: int, inbox: Inbox, ready: asyncio.Event, number: int) -> None:
    """Keep a page open; attribute its failure to the server."""
    try:
        await open_page(port, inbox, ready, looks=number < LOOKING_PAGES)
        inbox.fault = "its stream ended"
    except Exception as error:  # noqa: BLE001 - any error fails the test
        inbox.fault = _words(error)
    ready.set()


async def _edit(root: Path, port: int, inboxes: list[Inbox], findings: Findings) -> None:
    """Edit the first skill each second; each client must receive all notifications before the next edit."""
    loop = asyncio.get_running_loop()
    end = loop.time() + findings.seconds
    path, draft = root / skill_name(0) / "SKILL.md", root.parent / "draft.md"
    original = path.read_bytes()
    while (began := loop.time()) < end:
        if failed := [each for each in inboxes if each.fault]:
            findings.faults += [f"{each.name}: {each.fault}" for each in failed[:5]]
            return
        for each in inboxes:
            each.clear()
        findings.edits += 1
        mark = f"Edit {findings.edits}."
        draft.write_bytes(original.replace(b'description: "', f'description: "{mark} '.encode(), 1))
        edited = loop.time()
        draft.replace(path)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOST_SECONDS):
                await asyncio.gather(*(each.complete.wait() for each in inboxes))
        lost = [each for each in inboxes if not each.complete.is_set()]
        told = [each for each in inboxes if each.complete.is_set()]
        findings.delays += [each.at - edited for each in told]
        findings.notifications += sum(each.expected.total() for each in told)
        if lost:
            missing = lost[0].expected - lost[0].received
            message = f"{mark} {len(lost)} of them were not notified within {LOST_SECONDS:g} s; {lost[0].name} lacks"
            findings.faults.append(f"{message} {', '.join(missing)} {lost[0].fault}")
            return
        era = Era.MODERN if findings.edits % 2 else Era.HANDSHAKE
        if mark not in await described(port, era):
            findings.faults.append(f"{mark} a request after the notification still returned the old description")
        await asyncio.sleep(max(began + EDIT_SECONDS - loop.time(), 0))
    if repeated := sum((each.received - each.expected).total() for each in inboxes):
        findings.faults.append(f"{repeated} notifications of the last edit were repeated")


async def _measure(process: Process, findings: Findings) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (kilobytes := await asyncio.to_thread(_resident, process.pid)) is not None:
        findings.memory.append((loop.time() - began, kilobytes))
        await asyncio.sleep(0.5)


def _resident(pid: int) -> int | None:
    """Return the memory of a process in KB; None if the process has ended or the system cannot report it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        pass
    else:
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) if found else None
    if os.name == "nt":
        return None
    done = subprocess.run(["/bin/ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.stdout.strip() else None


async def _until_listening(process: Process, port: int) -> None:
    async with asyncio.timeout(CONNECTING_SECONDS):
        while process.poll() is None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)
    raise BenchError("the server ended during its start")


def _allow_open_files() -> None:
    """Raise the limit of open files: each client uses one or two descriptors, and as many in the server."""
    if os.name == "nt":
        return
    import resource  # noqa: PLC0415 - Windows has none

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if most == resource.RLIM_INFINITY else min(most, 8192)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        kinds = Counter(_words(each) for each in error.exceptions)
        return "; ".join(kinds)
    return f"{type(error).__name__}: {error}".rstrip(": ")


if __name__ == "__main__":
    sys.exit(main())
