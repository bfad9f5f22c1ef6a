from __future__ import annotations

import base64
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from dbos import _dbos, _serialization
from dbos._sys_db import SystemDatabase

from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.postgres import PostgresLease, observed_workers
from skills_core.runs.durable.recorded_run import RunNotDoneError, RunState, StoreError, WorkerConfig
from skills_core.runs.durable.store import FileLease, PostgresStore, SqliteStore, store_of
from tests.core.runs.durable.conftest import CALM, REPOSITORY
from tests.core.runs.durable.postgres import PrivateCluster

TERMS = WorkerConfig(**CALM)


async def echo(journal: Any, given: Any) -> Any:
    async def work() -> Any:
        return given

    return {"back": await journal.step("only", work)}


async def endless(journal: Any, given: Any) -> Any:
    del given
    await journal.step("for ever", anyio.sleep_forever)


def test_the_home_of_an_unknown_user_is_a_folder_like_any_other() -> None:
    assert store_of("~nobody-of-this-name/runs.db") == SqliteStore(Path("~nobody-of-this-name/runs.db"))


def test_a_setting_names_a_file_or_a_postgresql() -> None:
    assert store_of("some/runs.sqlite") == SqliteStore(Path("some/runs.sqlite"))
    assert store_of("postgresql://me:secret@host/runs") == PostgresStore("postgresql://me:secret@host/runs")
    assert isinstance(store_of("postgres://host/runs"), PostgresStore)
    with pytest.raises(StoreError, match=r"at mysql://; expected a file path or postgresql://"):
        store_of("mysql://me:secret@host/runs")


def test_a_password_is_in_no_representation() -> None:
    assert "secret" not in repr(store_of("postgresql://me:secret@host/runs"))


async def test_the_error_for_an_unreachable_postgresql_has_no_password() -> None:
    with pytest.raises(StoreError, match="cannot be used") as caught:
        async with open_engine(store_of("postgresql://me:secret@127.0.0.1:1/runs"), {}, TERMS):
            pass
    assert "secret" not in str(caught.value)


async def test_a_missing_database_is_an_error(cluster: PrivateCluster) -> None:
    with pytest.raises(StoreError, match='database "nowhere" does not exist'):
        async with open_engine(store_of(cluster.url("nowhere")), {}, TERMS):
            pass


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (_serialization, "DefaultSerializer"),
        (_serialization, "deserialize_exception"),
        (SystemDatabase, "reenqueue_for_recovery"),
        (SystemDatabase, "_retry_connection_errors"),
        (_dbos, "_dbos_global_instance"),
    ],
)
async def test_an_unsuitable_dbos_is_an_error(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    if hasattr(owner, name):
        monkeypatch.delattr(owner, name)
    else:  # objects have it, and lose it
        monkeypatch.setattr(owner, name, property(None, lambda *_: None), raising=False)
    with pytest.raises(StoreError, match=r"dbos 3\.\S+ lacks features that runs rely on. Install dbos"):
        async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS):
            pass
    monkeypatch.undo()
    async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS) as engine:
        assert await engine.run("echo", "one", {}) == {"back": {}}


async def test_a_file_that_is_not_a_database_is_an_error_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 200)
    with pytest.raises(StoreError):
        async with open_engine(SqliteStore(path), {}, TERMS):
            pass
    assert path.read_text() == "my notes\n" * 200


@pytest.mark.skipif(os.name == "nt", reason="permissions are no modes on this system")
@pytest.mark.parametrize("folder", ["what?", "100%20", "a b#c", "ü"])
@pytest.mark.skipif(sys.platform == "win32", reason="its paths have no such characters")
async def test_special_characters_in_a_path_are_literal(tmp_path: Path, folder: str) -> None:
    store = SqliteStore(tmp_path / folder / "runs.sqlite")
    async with open_engine(store, {}):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [folder]
    assert store.path.stat().st_size > 0


async def test_only_the_user_can_read_what_is_recorded(sqlite_url: str) -> None:
    umask = os.umask(0)
    try:
        async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS) as engine:
            await engine.run("echo", "one", {}, here=True)
            folder = Path(sqlite_url).parent
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    finally:
        os.umask(umask)
    assert modes.pop("runs.sqlite") == 0o600
    assert modes.pop("runs.sqlite-journal", 0o600) == 0o600
    assert set(modes.values()) == {0o700}


@pytest.mark.skipif(os.name == "nt", reason="permissions are no modes on this system")
async def test_a_folder_writable_by_others_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(StoreError, match="other users may write to this folder"):
        async with open_engine(SqliteStore(shared / "runs.sqlite"), {}, TERMS):
            pass
    link = tmp_path / "runs.sqlite"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        async with open_engine(SqliteStore(link), {}, TERMS):
            pass


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def tamper(url: str, *changes: str, value: str) -> None:
    """Change the database as somebody would who can write to it; `@` stands for the value."""
    statements = [change.replace("@", value) for change in changes]
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(b"SET search_path = skillserve")
            for statement in statements:
                connection.execute(statement.encode())
        return
    file = sqlite3.connect(url)
    with file:
        for statement in statements:
            file.execute(statement)
    file.close()


async def test_a_tampered_database_runs_no_code(url: str, tmp_path: Path) -> None:
    exploded = tmp_path / "exploded"
    bomb = base64.b64encode(pickle.dumps(Bomb(exploded))).decode()
    store = store_of(url)
    async with open_engine(store, {"echo": echo, "endless": endless}, TERMS) as engine:
        for name in ("input", "step", "started"):
            await engine.start("endless", name, {}, here=True)
        for name in ("output", "error"):
            await engine.run("echo", name, {}, here=True)
    tamper(
        url,
        "UPDATE workflow_status SET serialization = 'py_pickle' WHERE workflow_uuid IN ('input', 'output', 'error')",
        "UPDATE workflow_input SET inputs = '@' WHERE workflow_uuid = 'input'",
        "UPDATE workflow_output SET output = '@' WHERE workflow_uuid = 'output'",
        "UPDATE workflow_output SET output = NULL, error = '@' WHERE workflow_uuid = 'error'",
        "UPDATE workflow_status SET status = 'ERROR' WHERE workflow_uuid = 'error'",
        "INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, output, serialization)"
        " VALUES ('step', 1, 'for ever', '@', 'py_pickle')",
        value=bomb,
    )
    async with open_engine(store, {"echo": echo, "endless": endless}, TERMS) as engine:
        await engine.recover()
        for name in ("input", "output", "error", "step"):
            with anyio.fail_after(120), pytest.raises(RunNotDoneError):
                await engine.wait(name)
            assert (await engine.get(name)).state is RunState.FAILED
        assert len(await engine.runs()) == 5
        assert await engine.run("echo", "fine", {}, here=True) == {"back": {}}
    assert not exploded.exists()
    pickle.loads(base64.b64decode(bomb))  # noqa: S301 - the bomb is a real one
    assert exploded.exists()


async def test_a_damaged_record_affects_only_its_own_run(url: str) -> None:
    store = store_of(url)
    async with open_engine(store, {"echo": echo, "endless": endless}, WorkerConfig(**CALM, at_once=8)) as engine:
        for name in ("no kind", "no json", "deep", "workflow"):
            await engine.start("endless", name, {}, here=True)
        await engine.run("echo", "no outcome", {}, here=True)
    tamper(
        url,
        'UPDATE workflow_input SET inputs = \'{"value":{"args":["sing",{}],"kwargs":{}}}\''
        " WHERE workflow_uuid = 'no kind'",
        "UPDATE workflow_input SET inputs = 'what?' WHERE workflow_uuid = 'no json'",
        "UPDATE workflow_input SET inputs = '@' WHERE workflow_uuid = 'deep'",
        "UPDATE workflow_status SET name = 'os.system', class_name = 'os', config_name = 'x'"
        " WHERE workflow_uuid = 'workflow'",
        "UPDATE workflow_output SET output = '{\"value\":[1]}' WHERE workflow_uuid = 'no outcome'",
        value="[" * 100_000,
    )
    async with open_engine(store, {"echo": echo, "endless": endless}, TERMS) as engine:
        await engine.recover()
        for name in ("no json", "deep", "no outcome"):
            with anyio.fail_after(120), pytest.raises(RunNotDoneError):
                await engine.wait(name)
        # A worker of another version may know the kind.
        assert (await engine.get("no kind")).state in {RunState.WAITING, RunState.RUNNING}
        assert len(await engine.runs()) == 5
        assert await engine.run("echo", "fine", {}) == {"back": {}}


SECRET = "sk-only-in-the-environment"  # noqa: S105 - what the test looks for
USES_ITS_KEY = """
import asyncio, os, sys, pathlib
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.store import store_of
async def job(journal, given):
    key = os.environ["API_KEY"]
    async def call():
        return {"used": len(key)}
    await journal.step("model", call)
    async def fails():
        raise ValueError(f"401 with {key}")
    await journal.step("tool", fails)
async def main():
    async with open_engine(store_of(sys.argv[1]), {"job": job}) as engine:
        try:
            await engine.run("job", "one", {"skill": "greet"}, here=True)
        except Exception as error:
            print(error)
asyncio.run(main())
"""


def test_nothing_of_the_environment_is_in_the_database(sqlite_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", USES_ITS_KEY, sqlite_url],
        cwd=REPOSITORY,
        env={**os.environ, "API_KEY": SECRET},
        capture_output=True,
        text=True,
        check=True,
    )
    bytes_on_disk = b"".join(path.read_bytes() for path in Path(sqlite_url).parent.rglob("*") if path.is_file())
    assert "ValueError" in done.stdout
    assert b"greet" in bytes_on_disk
    assert b"used" in bytes_on_disk
    assert SECRET.encode() not in bytes_on_disk
    assert SECRET not in done.stdout + done.stderr


def test_a_file_lease_distinguishes_live_and_dead_workers(tmp_path: Path) -> None:
    database = tmp_path / "runs.sqlite"
    database.touch()
    one, two = FileLease(database), FileLease(database)
    with two.taking_over(one.worker) as dead:
        assert not dead
    one.close()
    with two.taking_over(one.worker) as dead:
        assert dead
    with two.taking_over("../../etc/passwd") as dead:
        assert dead
    two.close()
    assert list((tmp_path / "runs.sqlite.workers").iterdir()) == []


def test_a_postgresql_worker_is_dead_only_with_a_free_lock_and_an_expired_row(cluster: PrivateCluster) -> None:
    url = cluster.new_database()
    one, two = PostgresLease(url, 0.6), PostgresLease(url, 0.6)
    with two.taking_over(one.worker) as dead:
        assert not dead
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"UPDATE skillserve.workers SET seen = now() - interval '1 hour'")
        with two.taking_over(one.worker) as dead:
            assert not dead  # its lock is held
        connection.execute(
            b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (f"skillserve worker {one.worker}",),
        )
    with two.taking_over(one.worker) as dead:
        assert not dead  # this one has not been connected for as long as the other may be silent
    one.renew()
    with two.taking_over(one.worker) as dead:
        assert not dead  # it has its lock again, on a new connection
    one.close()
    with two.taking_over(one.worker) as dead:
        assert dead  # it said so itself
    two.close()


def test_the_grace_time_of_the_checked_worker_counts_and_not_the_checkers(cluster: PrivateCluster) -> None:
    url = cluster.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        eager = PostgresLease(url, 0.6)
        with observed_workers(PostgresStore(url)) as is_alive:
            assert is_alive is None  # no run was ever recorded
        connection.execute(b"CREATE TABLE skillserve.workflow_status ()")
        connection.execute(b"INSERT INTO skillserve.workers VALUES ('patient', now() - interval '10 s', 15)")
        connection.execute(b"INSERT INTO skillserve.workers VALUES ('hasty', now() - interval '1 s', 0.6)")
        with observed_workers(PostgresStore(url)) as is_alive:
            assert is_alive is not None
            assert is_alive("patient")
            assert not is_alive("hasty")
        is_dead = False
        while not is_dead:  # this one has to be connected for as long as that one may be silent
            eager.renew()
            with eager.taking_over("hasty") as is_dead:
                pass
        with eager.taking_over("patient") as dead:
            assert not dead
        eager.close()
