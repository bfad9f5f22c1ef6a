"""A history packs itself, and can forget a secret: in all versions, and in every byte of its folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob
from dulwich.pack import Pack
from hypothesis import given
from hypothesis import strategies as st

from skills_core.errors import HistoryError
from skills_core.history import maintenance
from skills_core.history.commits import Cause
from skills_core.history.history import History
from skills_core.history.maintenance import FORGOTTEN, MAX_PACKS, Secret
from tests.core.history.folders import SKILL, history_of, read, write

SECRET = "sk-ant-0123456789-Ä"  # noqa: S105 - of no one


def stored(folder: Path) -> Iterator[bytes]:
    """Yield all that a folder of a history holds: each file, and each object of git as git has it."""
    for file in folder.rglob("*"):
        yield os.fsencode(file.name)
        if not file.is_file():
            continue
        raw = file.read_bytes()
        yield raw
        if file.suffix == ".pack":
            with Pack(str(file.with_suffix("")), object_format=DEFAULT_OBJECT_FORMAT) as pack:
                yield from (item.as_raw_string() for item in pack.iterobjects())
        elif file.parent.parent.name == "objects" and file.parent.name not in {"pack", "info"}:
            yield zlib.decompress(raw)


def holds(folder: Path, secret: str = SECRET) -> bool:
    forms = [secret.encode(), secret.encode("utf-16-le"), json.dumps(secret)[1:-1].encode()]
    return any(form in content for content in stored(folder) for form in forms)


def edit(source: Path, step: int, name: str = "a") -> None:
    (source / name / "SKILL.md").write_bytes(SKILL % (name.encode(), step))


def files_of(history: History) -> int:
    return sum(1 for file in (history.repository / "objects").rglob("*") if file.is_file())


def test_a_history_packs_itself_and_every_version_stays(
    source: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAX_LOOSE", 20)
    monkeypatch.setattr(maintenance, "MAX_PACKS", 3)
    reader = history_of(source)
    assert len(reader.commits()) == 1
    most = 0
    for step in range(2, 60):
        edit(source, step)
        history.record_manual_edits()
        most = max(most, files_of(history))
    assert most < 20 + 10 + 3 * 2
    assert len(history.commits("a")) == 59
    # Another process has the files open that are gone.
    assert [commit.rev for commit in reader.commits()] == [commit.rev for commit in history.commits()]
    first = history.commits("a")[-1]
    history.rollback("a", first.rev)
    assert (source / "a" / "SKILL.md").read_bytes() == SKILL % (b"a", 1)
    git = shutil.which("git")
    if git is not None:
        subprocess.run([git, "--git-dir", history.repository, "fsck", "--strict"], check=True, capture_output=True)
    reader.close()


def test_packed_versions_are_stored_as_differences(
    source: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAX_LOOSE", 40)
    for number in range(150):
        write(source / f"more-{number}", {"SKILL.md": os.urandom(400).hex().encode()})
    history.record_manual_edits()
    before = sum(file.stat().st_size for file in history.repository.rglob("*") if file.is_file())
    for step in range(2, 62):
        edit(source, step)
        history.record_manual_edits()
    grown = sum(file.stat().st_size for file in history.repository.rglob("*") if file.is_file()) - before
    assert files_of(history) < 40 + 2 * MAX_PACKS
    # A tree that names 150 skills has 3 kB of digests; 60 of them would be 180 kB.
    assert grown < 120_000


def test_a_full_disk_while_packing_loses_nothing(
    source: Path, history: History, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(maintenance, "MAX_LOOSE", 1)
    monkeypatch.setattr("skills_core.history.maintenance._write_pack", full)
    edit(source, 2)
    assert history.record_manual_edits() is not None
    assert "no space left" in caplog.text
    monkeypatch.undo()
    edit(source, 3)
    history.record_manual_edits()
    assert len(history.commits("a")) == 3


def test_readers_in_other_threads_are_not_disturbed(
    source: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAX_LOOSE", 3)
    done = threading.Event()
    faults: list[BaseException] = []

    def read_on() -> None:
        with history_of(source) as other:
            while not done.is_set():
                try:
                    assert other.commits()[-1].cause == Cause.INITIAL
                except BaseException as error:  # noqa: BLE001
                    faults.append(error)
                    return

    threads = [threading.Thread(target=read_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    for step in range(2, 30):
        edit(source, step)
        history.record_manual_edits()
    done.set()
    for thread in threads:
        thread.join(20)
    assert not faults


def leak(source: Path, history: History) -> None:
    """Let a secret slip into files, names, permissions and a message, and take it out again."""
    leaked = {"SKILL.md": f"token: {SECRET}\n".encode(), "notes.txt": SECRET.encode("utf-16-le"), f"{SECRET}.md": b"x"}
    write(source / "a", leaked)
    (source / "a" / f"{SECRET}.md").chmod(0o600)
    history.record(["a"], Cause.FIX, f"Use {SECRET}", "trace-1")
    write(source / SECRET, {"SKILL.md": b"---\nname: x\ndescription: y\n---\n"})
    history.record_manual_edits()
    shutil.rmtree(source / SECRET)
    write(source / "a", {"SKILL.md": b"token: see the vault\n"})
    history.record_manual_edits()
    history.rollback("b", history.commits("b")[-1].rev)
    edit(source, 7, "b")
    history.record_manual_edits()


@pytest.mark.parametrize("packed", [True, False])
def test_a_forgotten_secret_is_in_no_version_object_or_journal(
    *, packed: bool, source: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAX_LOOSE", 5 if packed else 1000)
    leak(source, history)
    folder = history.repository.parent
    (folder / "pending.json.new").write_text(f'{{"message": "{SECRET}"}}')
    assert holds(folder)
    before, now = history.commits(), read(source)
    commits, files = history.forget(Secret(SECRET))
    assert not holds(folder)
    assert commits >= 2
    assert {"a/SKILL.md", "a/notes.txt"} <= set(files)
    after = history.commits()
    assert [(each.cause, each.when, each.trace_id) for each in after] == [
        (each.cause, each.when, each.trace_id) for each in before
    ]
    assert read(source) == now
    assert history.record_manual_edits() is None
    leaked = next(each for each in after if each.trace_id == "trace-1")
    assert leaked.message == f"Use {FORGOTTEN}"
    history.rollback("a", leaked.rev)
    assert (source / "a" / "SKILL.md").read_bytes() == f"token: {FORGOTTEN}\n".encode()
    assert (source / "a" / f"{FORGOTTEN}.md").stat().st_mode & 0o777 == 0o600
    restoring = next((each for each in after if each.restores), None)
    assert restoring is None or restoring.restores in {each.rev for each in after}
    assert history.forget(Secret(SECRET)) == (0, ())


def test_a_secret_that_is_there_now_is_not_forgotten_but_named(source: Path, history: History) -> None:
    (source / "a" / "SKILL.md").write_text(f"token: {SECRET}\n")
    history.record_manual_edits()
    revs = [commit.rev for commit in history.commits()]
    with pytest.raises(HistoryError, match=r"files that are there now \(a/SKILL.md\)"):
        history.forget(Secret(SECRET))
    assert [commit.rev for commit in history.commits()] == revs
    with pytest.raises(HistoryError, match="at least 8 characters"):
        Secret("short")


def test_what_a_crash_left_of_a_forgotten_secret_goes_with_the_next_call(source: Path, history: History) -> None:
    leak(source, history)
    history.forget(Secret(SECRET))
    # A process that was killed after the branch was moved leaves the old objects.
    store = DiskObjectStore(history.repository / "objects")
    store.add_object(Blob.from_string(SECRET.encode()))
    store.add_objects([(Blob.from_string(f"{SECRET} again".encode()), None)])
    store.close()
    assert holds(history.repository.parent)
    history.forget(Secret(SECRET))
    assert not holds(history.repository.parent)


@given(st.binary(max_size=60), st.integers(0, 60), st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]))
def test_wherever_it_stands_a_secret_is_found_and_removed(content: bytes, at: int, encoding: str) -> None:
    secret = Secret(SECRET)
    with_it = content[:at] + SECRET.encode(encoding) + content[at:]
    assert secret.is_in(with_it)
    assert not secret.is_in(secret.removed_from(with_it))
    assert SECRET not in repr(secret)
