"""A full or read-only disk and a damaged repository are explained, and nothing is changed by halves.

A process that is killed at any step leaves the old files or the new ones, and a history that goes on.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dulwich.object_store import DiskObjectStore
from dulwich.objects import ShaFile

from skills_core.errors import HistoryError
from skills_core.history import history as module
from skills_core.history.changes import PendingFile
from skills_core.history.history import History
from skills_core.history.store import open_history
from tests.core.history.folders import SKILL, history_of, read, write
from tests.core.history.killed_changes import STRIDE


@pytest.mark.parametrize("damage", [b"", b"garbage\xff\n", b"ref: refs/heads/main\n", b"1234\n", b"packed"])
def test_a_damaged_branch_says_so_and_nothing_begins_anew(damage: bytes, source: Path, history: History) -> None:
    history.record_manual_edits()
    refs = history.repository / "refs" / "heads" / "main"
    if damage == b"packed":
        refs = history.repository / "packed-refs"
    refs.write_bytes(damage)
    write(source / "a", {"SKILL.md": SKILL % (b"a", 2)})
    before = read(source)
    works: list[Callable[[History], Any]] = [History.record_manual_edits, lambda each: each.rollback("a")]
    for work in works:
        with history_of(source) as opened, pytest.raises(HistoryError, match=r"damaged.*restore it from a backup"):
            work(opened)
    assert refs.read_bytes() == damage
    assert read(source) == before


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_history_as_it_was_and_is_not_remembered(
    source: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record_manual_edits()
    large = source / "a" / "large"
    large.write_bytes(b"x" * 1000)
    with monkeypatch.context() as patch:
        patch.setattr(DiskObjectStore, "add_object", refuse)
        with pytest.raises(HistoryError, match="history cannot be written: no space"):
            history.record_manual_edits()
    large.unlink()
    assert history.record_manual_edits() is None
    write(source / "a", {"SKILL.md": SKILL % (b"a", 2)})
    stored: list[int] = []
    add = DiskObjectStore.add_object

    def note(store: DiskObjectStore, item: ShaFile) -> None:
        stored.append(item.raw_length())
        add(store, item)

    with monkeypatch.context() as patch:
        patch.setattr(DiskObjectStore, "add_object", note)
        assert history.record_manual_edits() is not None
    assert 1000 not in stored


def test_a_journal_that_cannot_be_written_changes_nothing(
    source: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record_manual_edits()
    before = read(source)
    with monkeypatch.context() as patch:
        patch.setattr(PendingFile, "write", refuse)
        with pytest.raises(HistoryError, match=r"a: cannot be written: no space"):
            history.change("a", {"SKILL.md": b"new"}, "improvement", "m")
    assert read(source) == before
    assert len(history.commits()) == 1


def test_a_lock_that_cannot_be_opened_is_explained(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "exclusive", refuse)
    with pytest.raises(HistoryError, match="history cannot be written"):
        history.record_manual_edits()


def test_files_that_are_not_recorded_are_named_once(
    source: Path, history: History, caplog: pytest.LogCaptureFixture
) -> None:
    with (source / "a" / "large").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    history.record_manual_edits()
    write(source / "a", {"SKILL.md": SKILL % (b"a", 2)})
    history.rollback("a")
    assert [each.getMessage().count("a/large: ") for each in caplog.records] == [1]


def test_threads_that_open_a_new_history_at_once_all_open_it(tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    skills.mkdir()
    for number in range(20):
        together = threading.Barrier(8)

        def opened(state: Path = tmp_path / f"state {number}", together: threading.Barrier = together) -> bool:
            together.wait(60)
            with open_history(skills, state) as history:
                return history.repository.is_dir()

        with ThreadPoolExecutor(8) as threads:
            assert all(each.result() for each in [threads.submit(opened) for _ in range(8)])


@pytest.mark.parametrize("content", ["{", "[]", '{"root": "/x", "left_out": 1}'])
def test_the_names_that_a_history_leaves_out_are_not_lost_with_a_damaged_file(
    source: Path, tmp_path: Path, content: str
) -> None:
    state = tmp_path / "state"
    with open_history(source, state, left_out=frozenset({"schedule.json"})):
        pass
    [file] = (state / "history").glob("*/source.json")
    file.write_text(content)
    with pytest.raises(HistoryError, match=r"source\.json: this"):
        open_history(source, state)
    assert file.read_text() == content


PROGRAM = Path(__file__).with_name("killed_changes.py")
REPOSITORY = PROGRAM.parents[3]


@pytest.mark.slow
@pytest.mark.cold_start  # it forks hundreds of times: a small interpreter forks faster
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_change_leaves_the_old_files_or_the_new() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    for work, found in json.loads(done.stdout).items():
        assert len(found) > 20 / STRIDE, work
        assert all(each["whole"] and each["clean"] and each["one commit if new"] for each in found), (work, found)
        assert found[-1]["is new"], work
        # Where folders can be exchanged, not even a moment of the change is visible.
        assert work == "one by one" or all(each["whole at once"] for each in found), (work, found)
        assert work == "record" or not any("manual" in each["commits"] for each in found), (work, found)
