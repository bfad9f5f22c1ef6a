"""Stores of both kinds, engines on them, and worker processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from tests.core.runs.durable.postgres import Away, PrivateCluster, programs

REPOSITORY = Path(__file__).parents[4]
QUICK: dict[str, Any] = {"beat_seconds": 0.2, "grace_seconds": 1.5, "stop_seconds": 5.0}
CALM = QUICK | {"grace_seconds": 120.0}
"""Where no worker dies, none must seem to, however long a busy machine keeps one from showing that it is alive."""

StartWorker = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def cluster() -> Iterator[PrivateCluster]:
    """A PostgreSQL for this process's tests, where the system has its programs."""
    folder = programs()
    if folder is None:
        pytest.skip("there is no PostgreSQL server on this machine")
    cluster = PrivateCluster(folder)
    yield cluster
    cluster.remove()


@pytest.fixture(scope="session")
def own_cluster() -> Iterator[PrivateCluster]:
    """A server that only tests use which send it away."""
    folder = programs()
    if folder is None:
        pytest.skip("there is no PostgreSQL server on this machine")
    cluster = PrivateCluster(folder)
    yield cluster
    cluster.remove()


@pytest.fixture
def away(own_cluster: PrivateCluster) -> Iterator[Away]:
    away = Away(own_cluster)
    yield away
    away.back()


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """The folder in which jobs leave their effects."""
    folder = tmp_path / "effects"
    folder.mkdir()
    return folder


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return str(tmp_path / "store" / "runs.sqlite")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    """An empty store, of each kind."""
    if request.param == "sqlite":
        return sqlite_url
    cluster: PrivateCluster = request.getfixturevalue("cluster")
    return cluster.new_database()


@pytest.fixture
def start_worker() -> Iterator[StartWorker]:
    """Start a worker process and wait until it is ready; end what is left of them."""
    processes: list[subprocess.Popen[str]] = []

    def start(url: str, **orders: Any) -> subprocess.Popen[str]:
        terms = QUICK | orders.pop("terms", {})
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.core.runs.durable.worker",
                json.dumps({"store": url, "terms": terms, **orders}),
            ],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()
