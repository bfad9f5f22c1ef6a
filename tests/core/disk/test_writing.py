from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skills_core.disk import writing
from skills_core.disk.writing import exclusive

ROOT = Path(__file__).parents[3]

ADD = """
import sys
from pathlib import Path
from skills_core.disk import writing
if sys.argv[2] == "without":
    def no_locks(descriptor):
        raise OSError(95, "no locks on this disk")
    writing.try_lock = no_locks
path = Path(sys.argv[1])
sys.stdin.readline()
for _ in range(20):
    with writing.exclusive(path, 60):
        path.write_text(str(int(path.read_text()) + 1))
"""


@pytest.mark.parametrize("locking", ["with", "without"])
def test_concurrent_writers_lose_no_change(tmp_path: Path, locking: str) -> None:
    path = tmp_path / "count"
    path.write_text("0")
    command = [sys.executable, "-c", ADD, str(path), locking]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0] * 4
    assert path.read_text() == "80"


def test_waiting_for_a_held_lock_ends_with_a_timeout_error(tmp_path: Path) -> None:
    with exclusive(tmp_path / "file"), pytest.raises(TimeoutError), exclusive(tmp_path / "file", 0.05):
        pytest.fail("both hold it")
    with exclusive(tmp_path / "file", 0.05):
        pass


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOLCK, "no locks on this disk")

    monkeypatch.setattr(writing, "try_lock", refuse)


@pytest.mark.usefixtures("without_locks")
def test_without_locks_an_exclusive_file_is_used_and_expires(tmp_path: Path) -> None:
    held = tmp_path / "file.lock.held"
    with exclusive(tmp_path / "file"):
        assert held.exists()
        with pytest.raises(TimeoutError), exclusive(tmp_path / "file", 0.05):
            pytest.fail("both hold it")
    assert not held.exists()
    held.touch()
    os.utime(held, (0, 0))
    with exclusive(tmp_path / "file", 5):
        pass
