"""Several processes keep time for the same schedules, and one of them is killed in the middle of a firing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from server.schedules.creation import NewSchedule, create
from server.schedules.rights import Rights
from server.schedules.store import ScheduleStore
from skills_core.schedules.policies import MissedPolicy
from skills_core.schedules.when import Every
from tests.core.run.durable.conftest import cluster
from tests.core.run.durable.postgres import PrivateCluster
from tests.server.sessions import REPOSITORY

__all__ = ["cluster"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")

SCHEDULES, FIRINGS = 20, 10


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


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.server.schedules.firing_program", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
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
def test_each_of_200_firings_runs_once_though_a_process_is_killed(tmp_path: Path) -> None:
    check_firings(tmp_path / "state", str(tmp_path / "runs.sqlite"), tmp_path / "notes")


@pytest.mark.skipif("CI" not in os.environ, reason="takes a while; SQLite shows the same")
def test_each_of_200_firings_runs_once_with_postgresql(tmp_path: Path, cluster: PrivateCluster) -> None:
    check_firings(tmp_path / "state", cluster.new_database(), tmp_path / "notes")
