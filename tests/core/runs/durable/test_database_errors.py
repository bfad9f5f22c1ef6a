from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import RunNotDoneError, RunState, WorkerConfig
from skills_core.runs.durable.store import store_of
from tests.core.runs.durable.conftest import QUICK, StartWorker
from tests.core.runs.durable.jobs import (
    KINDS,
    assert_every_effect_is_there,
    assert_no_finished_step_ran_again,
    lines,
    outcome_of,
)
from tests.core.runs.durable.postgres import PrivateCluster
from tests.thoroughness import EVERY_CASE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]

KILLS = int(os.environ.get("DURABLE_KILLS", "3"))
"""How often processes are killed in each row of them."""
SEEDS = [1] if KILLS < 10 else [1, 2]
PATIENCE = 180.0
SILENCE = QUICK["grace_seconds"] * 2
HELD = 5
"""The step at which jobs wait for the test."""


def given(folder: Path, seed: int, **more: Any) -> dict[str, Any]:
    return {"folder": str(folder), "seed": seed, **more}


def chains(folder: Path, prefix: str, count: int, **more: Any) -> list[Any]:
    """Return the orders to start so many chains here."""
    return [["chain", f"{prefix}{number}", given(folder, number, **more), True] for number in range(count)]


def wait_until(condition: Any, seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def by(process: subprocess.Popen[str], folder: Path) -> list[tuple[str, int, int]]:
    return [line for line in lines(folder) if line[2] == process.pid]


def reached(process: subprocess.Popen[str], folder: Path) -> int:
    """Return how many runs wait for the test in this process."""
    return len([step for _, step, _ in by(process, folder) if step == HELD])


def outcomes(process: subprocess.Popen[str]) -> dict[str, Any]:
    printed, _ = process.communicate(timeout=PATIENCE)
    result: dict[str, Any] = json.loads(printed)
    return result


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_run_whose_process_is_killed_at_any_point_completes_without_repeating_finished_steps(
    kind: str, seed: int, request: pytest.FixtureRequest, sqlite_url: str, effects: Path, start_worker: StartWorker
) -> None:
    url = sqlite_url if kind == "sqlite" else request.getfixturevalue("cluster").new_database()
    chance = random.Random(seed)  # noqa: S311 - no secret
    terms = {"recoveries": 1000, "at_once": 8}
    for number in range(KILLS):
        before = len(lines(effects))
        worker = start_worker(url, terms=terms, start=[["chain", f"run{number}", given(effects, number), True]])
        # Some live long enough to take over what the earlier ones left, and are killed in the middle of that.
        target = before + chance.randint(1, 20 if number % 3 else 60)
        wait_until(lambda target=target: len(lines(effects)) >= target, seconds=2)
        time.sleep(chance.random() * 0.03)
        worker.kill()
        worker.wait()
    names = [f"run{number}" for number in range(KILLS)]
    done = outcomes(start_worker(url, terms=terms, wait=names))
    assert done == {f"run{number}": {"value": outcome_of(number)} for number in range(KILLS)}
    assert_every_effect_is_there(effects, names)
    assert_no_finished_step_ran_again(effects)


def test_a_worker_takes_over_runs_of_a_killed_worker_but_not_of_a_live_one(
    cluster: PrivateCluster, effects: Path, start_worker: StartWorker
) -> None:
    url = cluster.new_database()
    terms = {"at_once": 6, "grace_seconds": 4.0}
    killed = start_worker(url, terms=terms, start=chains(effects, "killed", 3, hold_at=HELD))
    live = start_worker(url, terms=terms, start=chains(effects, "live", 3, hold_at=HELD))
    start_worker(url, terms=terms)
    assert wait_until(lambda: reached(killed, effects) == 3 and reached(live, effects) == 3)
    killed.kill()
    assert wait_until(lambda: len([line for line in lines(effects) if line[1] == HELD]) == 9)
    (effects / "go").touch()
    names = [f"{prefix}{number}" for prefix in ("killed", "live") for number in range(3)]
    assert len(outcomes(start_worker(url, wait=names))) == 6
    assert {line[2] for line in lines(effects) if line[0].startswith("live")} == {live.pid}
    assert_every_effect_is_there(effects, names)
    assert_no_finished_step_ran_again(effects)


def test_a_worker_suspended_beyond_its_grace_time_stops_work_on_runs_that_were_taken_over(
    cluster: PrivateCluster, effects: Path, start_worker: StartWorker
) -> None:
    url = cluster.new_database()
    stopped = start_worker(url, start=chains(effects, "run", 3, hold_at=HELD))
    assert wait_until(lambda: reached(stopped, effects) == 3)
    stopped.send_signal(signal.SIGSTOP)
    before = len(by(stopped, effects))
    other = start_worker(url)
    assert wait_until(lambda: reached(other, effects) == 3)
    (effects / "go").touch()
    stopped.send_signal(signal.SIGCONT)
    names = [f"run{number}" for number in range(3)]
    assert outcomes(start_worker(url, wait=names)) == {f"run{n}": {"value": outcome_of(n)} for n in range(3)}
    assert len(by(stopped, effects)) == before
    assert_every_effect_is_there(effects, names)
    assert_no_finished_step_ran_again(effects)
    # It is a worker like any other again, and ends in order.
    other.kill()
    assert stopped.poll() is None
    stopped.communicate("", timeout=PATIENCE)
    assert stopped.returncode == 0


# A fast restart tells the workers that it begins; an immediate one does not.
@pytest.mark.parametrize("mode", ["fast", "immediate"] if EVERY_CASE else ["immediate"])
def test_runs_continue_after_a_restart_of_the_database(
    cluster: PrivateCluster, effects: Path, start_worker: StartWorker, mode: str
) -> None:
    url = cluster.new_database()
    terms = {"recoveries": 50, "at_once": 10}
    for prefix in ("a", "b"):
        start_worker(url, terms=terms, start=chains(effects, prefix, 4, pause=0.1))
    assert wait_until(lambda: len(lines(effects)) > 24)
    cluster.stop(mode)
    cluster.start()
    names = [f"{prefix}{number}" for prefix in ("a", "b") for number in range(4)]
    done = outcomes(start_worker(url, terms=terms, wait=names))
    assert done == {name: {"value": outcome_of(int(name[1:]))} for name in names}
    assert_every_effect_is_there(effects, names)
    assert_no_finished_step_ran_again(effects)


def test_runs_complete_after_the_database_was_away_longer_than_the_grace_time(
    cluster: PrivateCluster, effects: Path, start_worker: StartWorker
) -> None:
    url = cluster.new_database()
    for prefix in ("a", "b"):
        start_worker(url, start=chains(effects, prefix, 3, pause=0.1))
    assert wait_until(lambda: len(lines(effects)) > 12)
    cluster.stop("fast")
    time.sleep(SILENCE)
    cluster.start()
    names = [f"{prefix}{number}" for prefix in ("a", "b") for number in range(3)]
    assert len(outcomes(start_worker(url, wait=names))) == 6
    assert_every_effect_is_there(effects, names)
    assert_no_finished_step_ran_again(effects)


def test_of_two_processes_on_one_file_one_finishes_the_runs_of_the_other(
    sqlite_url: str, effects: Path, start_worker: StartWorker
) -> None:
    killed = start_worker(sqlite_url, start=chains(effects, "killed", 2, hold_at=HELD))
    live = start_worker(sqlite_url, start=chains(effects, "live", 2, hold_at=HELD))
    assert wait_until(lambda: reached(killed, effects) == 2 and reached(live, effects) == 2)
    killed.kill()
    assert wait_until(lambda: len([line for line in lines(effects) if line[1] == HELD]) == 6)
    (effects / "go").touch()
    names = [f"{prefix}{number}" for prefix in ("killed", "live") for number in range(2)]
    assert len(outcomes(start_worker(sqlite_url, wait=names))) == 4
    assert {line[2] for line in lines(effects) if line[0].startswith("live")} == {live.pid}
    assert_every_effect_is_there(effects, names)
    assert_no_finished_step_ran_again(effects)


async def test_a_run_is_cancelled_in_another_process(url: str, effects: Path, start_worker: StartWorker) -> None:
    worker = start_worker(url, start=chains(effects, "run", 1, pause=3600))
    assert wait_until(lambda: bool(lines(effects)))
    async with open_engine(store_of(url), KINDS, WorkerConfig(**QUICK)) as engine:
        await engine.cancel("run0")
        with pytest.raises(RunNotDoneError, match="it was cancelled"):
            await engine.wait("run0")
    # The job was stopped in the middle of its step: the worker ends at once, in order.
    worker.communicate("", timeout=PATIENCE)
    assert worker.returncode == 0
    assert len(lines(effects)) == 1


async def test_a_run_that_kills_its_process_each_time_is_given_up(
    url: str, effects: Path, start_worker: StartWorker
) -> None:
    terms = {"recoveries": 2}
    worker = start_worker(url, terms=terms, start=[["deadly", "poison", given(effects, 0), False]])
    for _ in range(3):
        worker.wait(PATIENCE)
        worker = start_worker(url, terms=terms)
    async with open_engine(store_of(url), KINDS, WorkerConfig(**QUICK, recoveries=2)) as engine:
        with pytest.raises(RunNotDoneError, match="workers died too often"):
            await engine.wait("poison")
        assert [run.run_id for run in await engine.runs([RunState.GIVEN_UP])] == ["poison"]
    assert [step for _, step, _ in lines(effects)] == [0, 1, 1, 1]


def test_a_worker_whose_lease_connection_is_closed_continues(
    cluster: PrivateCluster, effects: Path, start_worker: StartWorker
) -> None:
    url = cluster.new_database()
    terms = {"grace_seconds": 4.0}
    worker = start_worker(url, terms=terms, start=chains(effects, "run", 2, hold_at=HELD))
    start_worker(url, terms=terms)
    assert wait_until(lambda: reached(worker, effects) == 2)
    with psycopg.connect(url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'skillserve %'"
        ).fetchone()
    assert ended == (2,)
    time.sleep(1.2 * terms["grace_seconds"])
    (effects / "go").touch()
    assert len(outcomes(start_worker(url, wait=["run0", "run1"]))) == 2
    assert {line[2] for line in lines(effects)} == {worker.pid}
