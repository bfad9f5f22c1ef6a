"""No other module builds its own flags to open files."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skills_core
from skills_core import Reason
from skills_core.disk.files import MAX_SETTINGS, read_bounded
from skills_core.errors import FileRefusedError
from tests.permissions import CAN_BE_BOUND, bound_by_permissions

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")


def reason_of(path: Path, limit: int = MAX_SETTINGS) -> Reason:
    with pytest.raises(FileRefusedError) as caught:
        read_bounded(path, limit)
    assert str(path) in str(caught.value)
    return caught.value.reason


@given(content=st.binary(max_size=50), limit=st.integers(0, 60))
def test_a_regular_file_is_read_whole_or_refused_for_its_size(
    content: bytes, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("files") / "file"
    path.write_bytes(content)
    if len(content) <= limit:
        assert read_bounded(path, limit) == content
    else:
        assert reason_of(path, limit) is Reason.TOO_LARGE


def test_a_missing_file_is_absent_and_a_broken_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_bounded(tmp_path / "absent") is None
    assert read_bounded(tmp_path / "file" / "below") is None
    assert reason_of(tmp_path) is Reason.SPECIAL_FILE


@posix
def test_links_lead_to_regular_files_or_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for name, target in {"good": "file", "none": "absent", "circle": "circle", "endless": "/dev/zero"}.items():
        (tmp_path / name).symlink_to(target)
    assert read_bounded(tmp_path / "good") == b"x"
    assert reason_of(tmp_path / "none") is Reason.UNREADABLE
    assert reason_of(tmp_path / "circle") is Reason.UNREADABLE
    assert reason_of(tmp_path / "endless") is Reason.SPECIAL_FILE


@posix
def test_special_files_are_refused_without_blocking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the names of sockets are short
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name in ("fifo", "socket"):
        assert reason_of(tmp_path / name) is Reason.SPECIAL_FILE


@posix
def test_the_type_of_the_open_file_counts_when_it_was_swapped_before_the_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.touch()
    before = os.open

    def swapped(name: Path, flags: int, *, dir_fd: int | None) -> int:
        path.unlink()
        os.mkfifo(path)
        return before(name, flags, dir_fd=dir_fd)

    monkeypatch.setattr("skills_core.disk.files.os.open", swapped)
    assert reason_of(path) is Reason.SPECIAL_FILE


@pytest.mark.skipif(not CAN_BE_BOUND, reason="permissions bind nobody here")
def test_a_denied_file_is_not_absent(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0)
    with bound_by_permissions():
        assert reason_of(tmp_path / "file") is Reason.PERMISSION_DENIED


def test_a_huge_sparse_file_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 33)
    assert reason_of(tmp_path / "file") is Reason.TOO_LARGE


def test_an_impossible_file_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileRefusedError, match="not a valid path"):
        read_bounded(tmp_path / "a\0b")


ROOT = Path(skills_core.__file__).parents[1]


def test_only_one_module_opens_or_creates_files_by_flags() -> None:
    modules = [*(ROOT / "skills_core").rglob("*.py"), *(ROOT / "server").rglob("*.py")]
    flags = ("os.O_CREAT", "os.O_RDWR |", "os.O_RDONLY |", '"O_NONBLOCK"', '"O_CLOEXEC"')
    found = {
        path.relative_to(ROOT).as_posix() for path in modules if any(flag in path.read_text("utf-8") for flag in flags)
    }
    assert found == {"skills_core/disk/files.py"}
