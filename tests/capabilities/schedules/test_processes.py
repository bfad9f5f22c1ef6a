"""Several processes keep time for the same schedules, and one of them is killed in the middle of a firing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from server.capabilities.schedules.creation import NewSchedule, create
from server.capabilities.schedules.rights import Rights
from server.capabilities.schedules.store import ScheduleStore
from skills_core.schedules.policies import MissedPolicy
from skills_core.schedules.when import Every
from tests.core.runs.durable.conftest import cluster
from tests.core.runs.durable.postgres import PrivateCluster
from tests.server.sessions import REPOSITORY
from tests.thoroughness import EVERY_CASE

__all__ = ["cluster"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")

SCHEDULES, FIRINGS = 20 if EVERY_CASE else 6, 10

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def make_schedules(store: ScheduleStore) -> None:
    """Make schedules of which each has ten firings that were missed, and no other within the test."""
    now = datetime.now(UTC)
    then = now - timedelta(hours=FIRINGS, minutes=30)
    for number in range(SCHEDULES):
        wanted = NewSchedule(
            short=f"s{number}",
            when=Every(timedelta(hours=1), then),
            zone="UTC",
            task="Note it.",
            rights=Rights(),
            creator="test",
            missed=MissedPolicy.ALL,
        )
        create(store, wanted, then)


def start(*arguments: object, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.capabilities.schedules.firing_program", *map(str, arguments)]
    environment = {**os.environ, **variables}
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def check_firings(state: Path, runs: str, notes: Path) -> None:
    store = ScheduleStore(state)
    make_schedules(store)
    with start(state, runs, notes, 10) as killed, start(state, runs, notes) as other:
        try:
            wait_for_firings(store, killed, other)
        finally:
            other.kill()
            killed.kill()
    noted = Counter(notes.read_text().splitlines())
    assert (len(noted), set(noted.values())) == (SCHEDULES * FIRINGS, {1})
    for name in store.names():
        times = [run.fired_at for run in store.read(name).runs]
        assert times == sorted(set(times))


def wait_for_firings(store: ScheduleStore, killed: subprocess.Popen[str], other: subprocess.Popen[str]) -> None:
    assert killed.wait(120) == -signal.SIGKILL
    end = time.monotonic() + 120
    while sum(len(store.read(name).runs) for name in store.names()) < SCHEDULES * FIRINGS:
        assert time.monotonic() < end
        assert other.poll() is None
        time.sleep(0.05)


@pytest.mark.slow
def test_each_firing_runs_once_though_a_process_is_killed(tmp_path: Path) -> None:
    check_firings(tmp_path / "state", str(tmp_path / "runs.sqlite"), tmp_path / "notes")


@pytest.mark.skipif("CI" not in os.environ, reason="takes a while; SQLite shows the same")
def test_each_firing_runs_once_with_postgresql(tmp_path: Path, cluster: PrivateCluster) -> None:
    check_firings(tmp_path / "state", cluster.new_database(), tmp_path / "notes")


def test_processes_share_the_budget_of_a_day(tmp_path: Path) -> None:
    """Two of them find many firings at once, for each of which they may begin a run."""
    state, notes, settings = tmp_path / "state", tmp_path / "notes", json.dumps({"schedule_runs_per_day": 7})
    store = ScheduleStore(state)
    make_schedules(store)
    given = (state, tmp_path / "runs.sqlite", notes)
    with start(*given, FIRING_SETTINGS=settings) as one, start(*given, FIRING_SETTINGS=settings) as other:
        try:
            end = time.monotonic() + 120
            while any((binding := store.read(name)).running or binding.waiting for name in store.names()) or not any(
                store.read(name).skipped for name in store.names()
            ):
                assert time.monotonic() < end
                time.sleep(0.05)
        finally:
            one.kill()
            other.kill()
    noted = Counter(notes.read_text().splitlines())
    assert (len(noted), set(noted.values())) == (7, {1})
    assert sum(len(store.read(name).runs) for name in store.names()) == 7
    (day,) = json.loads((store.root.parent / "spending.json").read_text())["days"].values()
    assert sum(each["runs"] for each in day.values()) == 7


def set_clock(file: Path, offset: str) -> None:
    # The process reads the file all the time, and must not find it empty.
    new = file.with_suffix(".new")
    new.write_text(offset)
    new.replace(file)


@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not installed")
def test_the_clock_of_a_process_may_jump_ahead_and_back(tmp_path: Path) -> None:
    """The clock of the system itself, as the process reads it, is ten years ahead for some firings."""
    store, notes, offset = ScheduleStore(tmp_path / "state"), tmp_path / "notes", tmp_path / "offset"
    set_clock(offset, "+0")
    notes.touch()
    now = datetime.now(UTC)
    every = Every(timedelta(seconds=1), now)
    wanted = NewSchedule(short="s", when=every, zone="UTC", task="x", rights=Rights(), creator="test")
    name = create(store, wanted, now)
    fake = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1"}
    fake |= {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}

    def wait_for(year: int, more: int) -> None:
        begun, end = notes.read_text().count(f" at {year}"), time.monotonic() + 120
        while notes.read_text().count(f" at {year}") < begun + more:
            assert time.monotonic() < end
            time.sleep(0.05)

    with start(store.root.parents[1], tmp_path / "runs.sqlite", notes, **fake) as keeper:
        try:
            wait_for(now.year, 2)
            set_clock(offset, "+3650d")
            wait_for((now + timedelta(days=3650)).year, 2)
            set_clock(offset, "+0")
            wait_for(now.year, 3)
        finally:
            keeper.kill()
    noted = Counter(notes.read_text().splitlines())
    assert set(noted.values()) == {1}
    assert {run.status for run in store.read(name).runs} == {"completed"}
