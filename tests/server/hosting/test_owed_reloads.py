"""Reloads that were cut short or met faults of the system: what they owe to clients comes all the same."""

from __future__ import annotations

import errno
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

from server.config.machine import Machine
from server.hosting.host import Host
from server.hosting.verified_reader import VerifiedReader
from server.hosting.views import COMMON_VIEW
from server.limits.pacing import Backoff
from skills_core import Change, Environment, Library, Source, State, explicit_sources
from skills_core.disk.sources import Places
from skills_core.errors import FileUnavailableError
from skills_core.live.watch_options import WatchMode
from tests.conftest import MakeSkill
from tests.core.test_system_faults import Faults
from tests.server.sessions import REPOSITORY, address, open_session, server_command, server_environment
from tests.server.settings import make_settings

EVERYTHING = [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]
QUICK = Backoff(0.001, 0.01)


def hosted(skills: Path, backoff: Backoff = QUICK) -> Host:
    library = Library(explicit_sources([skills]), lambda: Environment(os="linux", has_bin=lambda _: True))
    return Host(library, make_settings(watch=WatchMode.OFF), backoff=backoff)


class Told:
    """What is published on a host's bus."""

    def __init__(self, host: Host) -> None:
        self.events: list[Any] = []
        self.news = anyio.Event()
        host.feed(COMMON_VIEW).subscribe(self.hear)

    def hear(self, event: Any) -> None:
        self.events.append(event)
        self.news.set()
        self.news = anyio.Event()

    async def until(self, *events: Any) -> None:
        with anyio.fail_after(60):
            while not all(event in self.events for event in events):
                await self.news.wait()


async def test_a_caller_that_is_cancelled_while_files_are_read_takes_no_notification_with_it(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosted(skills)
    told = Told(host)
    started, go_on = threading.Event(), threading.Event()
    reload = host.library.reload

    def slow(changed: Any = None, *_: object) -> Change:
        started.set()
        assert go_on.wait(60)
        return reload(changed)

    monkeypatch.setattr(host.library, "reload", slow)
    make_skill("one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.reload)
        assert await anyio.to_thread.run_sync(started.wait, 60)
        tasks.cancel_scope.cancel()
        go_on.set()
    assert set(EVERYTHING) <= set(told.events)


async def test_a_caller_that_is_cancelled_while_it_publishes_takes_no_notification_with_it(
    make_skill: MakeSkill, skills: Path
) -> None:
    host = hosted(skills)
    told = Told(host)
    make_skill("one")
    with anyio.CancelScope() as scope:
        host.feed(COMMON_VIEW).subscribe(lambda _: scope.cancel())
        await host.reload()
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert set(EVERYTHING) <= set(told.events)


async def test_what_could_not_be_announced_is_announced_with_the_next_reload(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosted(skills)
    told = Told(host)
    make_skill("one")

    async def broken(_: object) -> None:
        raise ConnectionError("the bus is away")

    with monkeypatch.context() as patch:
        patch.setattr(host.feed(COMMON_VIEW), "publish", broken)
        assert await host.try_reload() is None
    assert [skill.key for skill in host.everything.active] == ["one"]
    await host.reload([])
    assert set(EVERYTHING) <= set(told.events)


async def test_a_reload_that_failed_is_tried_again_although_nothing_more_changes(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosted(skills)
    told = Told(host)
    attempts: list[Any] = []
    reload = host.library.reload

    def fails_thrice(changed: Any = None, *_: object) -> Change:
        attempts.append(changed)
        if len(attempts) <= 3:
            raise MemoryError
        return reload(changed)

    monkeypatch.setattr(host.library, "reload", fails_thrice)
    folder = make_skill("one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.follow)
        assert await host.try_reload([folder / "SKILL.md"]) is None
        await told.until(*EVERYTHING)
        tasks.cancel_scope.cancel()
    assert attempts == [[folder / "SKILL.md"], None, None, None]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ESTALE])
async def test_an_edit_that_could_not_be_read_reaches_clients_when_the_fault_has_passed(
    number: int, make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    host = hosted(skills)
    told = Told(host)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.follow)
        make_skill("one", description="Does another thing.")
        faults = Faults(number, count=25)
        with faults.striking():
            await host.reload([skills / "one" / "SKILL.md"])
            assert told.events == []
            assert [skill.key for skill in host.everything.active] == ["one"]
            # The fault lasts for several attempts, and then passes.
            await told.until(*EVERYTHING)
        tasks.cancel_scope.cancel()


def test_pauses_grow_up_to_a_limit() -> None:
    pauses = list(islice(Backoff(0.5, 60), 12))
    assert pauses[0] == 0.5
    assert all(later == min(2 * earlier, 60) for earlier, later in pairwise(pauses))
    assert pauses[-1] == 60


async def test_a_file_that_cannot_be_read_now_is_no_unknown_resource(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    host = hosted(skills)
    reader = VerifiedReader(host.library.sources, host.reload)
    with Faults(errno.EMFILE).striking(), pytest.raises(FileUnavailableError, match="too many open files"):
        await reader.read("skill://one/SKILL.md", lambda: host.everything)
    skill, _, raw = await reader.read("skill://one/SKILL.md", lambda: host.everything)
    assert (skill.key, raw) == ("one", (skills / "one" / "SKILL.md").read_bytes())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("call", ["stat", "open", "fstat", "read"])
@pytest.mark.parametrize("unread", ["trusted.json", "skills.json", "config.json"])
def test_what_decides_on_skills_and_cannot_be_read_now_decides_as_before(
    unread: str, call: str, number: int, make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one")
    make_skill("two")
    make_skill("three", fields="when:\n  requires:\n    config: {switches.three: true}\n")
    home = tmp_path / "home"
    (home / ".jdai").mkdir(parents=True)
    entries = {"skills": {"entries": {"two": {"enabled": False}}}}
    (home / ".jdai" / "skills.json").write_text(json.dumps(entries), encoding="utf-8")
    (home / ".jdai" / "config.json").write_text('{"switches": {"three": true}}', encoding="utf-8")
    machine = Machine(Places(home, home, home / ".config"))
    machine.trust.add(skills)
    (source,) = explicit_sources([skills])
    library = Library([_in_project(source, skills)], machine.environment)
    states = {"one": State.ACTIVE, "two": State.EXCLUDED, "three": State.ACTIVE}
    assert {skill.name: skill.state for skill in library.catalog.skills} == states
    with _fault_of(unread, call, number) as faults:
        library.reload([])
        assert faults
        assert {skill.name: skill.state for skill in library.catalog.skills} == states
        assert is_stale(library)
        assert any("cannot be read" in problem.message for problem in library.catalog.problems)
    library.reload([])
    assert not is_stale(library)
    assert library.catalog.problems == ()


@contextmanager
def _fault_of(name: str, call: str, number: int) -> Iterator[list[str]]:
    """Let a call to the system fail for each file of that name; yields what failed."""
    opened: set[int] = set()
    faults: list[str] = []
    real = {each: getattr(os, each) for each in ("stat", "open", "fstat", "read", "close")}

    def failing(each: str, target: Any, *arguments: Any, **named: Any) -> Any:
        is_meant = target in opened if isinstance(target, int) else Path(os.fsdecode(target)).name == name
        if is_meant and each == call:
            faults.append(each)
            raise OSError(number, os.strerror(number))
        result = real[each](target, *arguments, **named)
        if each == "open" and is_meant:
            opened.add(result)
        if each == "close":
            opened.discard(target)
        return result

    with pytest.MonkeyPatch.context() as patch:
        for each in real:
            patch.setattr(os, each, partial(failing, each))
        yield faults


def is_stale(library: Library) -> bool:
    return library.is_stale


def _in_project(source: Source, project: Path) -> Source:
    return replace(source, project=project.resolve())


async def _growing(file: Path) -> AsyncIterator[bytes]:
    """Yield what is appended to a file; a pipe would have to be read to the end."""
    with file.open("rb") as opened:
        while True:
            yield opened.read()
            await anyio.sleep(0.05)


LIMIT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such limit")
async def test_a_server_whose_descriptors_are_used_up_serves_its_skills_and_then_the_edit(
    make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one", description="The old words.")
    make_skill("two")
    _, *arguments = server_command(skills, "--transport", "http", "--port", "0")
    command = [sys.executable, "-c", LIMIT, *arguments]
    said = tmp_path / "stderr"
    with said.open("wb") as stderr:
        process = await anyio.open_process(
            command, cwd=REPOSITORY, env=server_environment(), stdout=subprocess.DEVNULL, stderr=stderr
        )
    async with process:
        try:
            with anyio.fail_after(120):
                url = await address(_growing(said))
            port = int(url.rpartition(":")[2].partition("/")[0])

            def served(connection: http.client.HTTPConnection) -> int:
                connection.request("GET", "/health")
                return int(json.load(connection.getresponse())["skills"])

            before = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            assert await anyio.to_thread.run_sync(served, before) == 2
            with ExitStack() as stack:
                for _ in range(60):
                    stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                for number in range(3):
                    make_skill("one", description=f"The new words, {number}.")
                    for _ in range(10):
                        assert await anyio.to_thread.run_sync(served, before) == 2
                        await anyio.sleep(0.05)
            before.close()
            with anyio.fail_after(60):
                async with open_session(url, "modern") as session:

                    async def is_served() -> bool:
                        return "The new words, 2." in (await session.client.list_tools()).tools[0].description

                    while not await is_served():  # noqa: ASYNC110 - it may be served before anyone listens
                        await anyio.sleep(0.1)
                    assert await session.enum() == ["one", "two"]
        finally:
            process.terminate()
    lines = said.read_text(encoding="utf-8").splitlines()
    assert sum("cannot accept connections (too many open files)" in line for line in lines) == 1
    assert any("cannot read" in line for line in lines)
