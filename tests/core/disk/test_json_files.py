"""One way to keep JSON on the disk: strict reading, whole writes, and lines that a killed process may have torn."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from skills_core.disk.writing import InvalidJsonError, JsonFile, append_line, json_lines
from skills_core.errors import FileRefusedError
from tests.permissions import CAN_BE_BOUND, bound_by_permissions

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")

# The name of a file that is not UTF-8, as Python has it.
VALUE = {"name": "Größe", "undecodable": "a\udc80b", "numbers": [1, 0.5, None, True]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "file.json"


def test_what_is_written_is_read_and_a_missing_file_is_none(path: Path) -> None:
    assert JsonFile(path).read() is None
    JsonFile(path).write(VALUE)
    assert JsonFile(path).read() == VALUE
    assert "Größe" in path.read_text(encoding="utf-8")
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"NaN", b"[" * 100_000, b"1" * 5000])
def test_what_is_not_json_is_refused_and_not_absent(path: Path, raw: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(raw)
    with pytest.raises(InvalidJsonError, match=r"file\.json: this is not JSON"):
        JsonFile(path).read()


def test_a_file_that_is_too_long_is_refused(path: Path) -> None:
    JsonFile(path).write("x" * 100)
    with pytest.raises(FileRefusedError, match="limit"):
        JsonFile(path, limit=50).read()


@pytest.mark.skipif(not CAN_BE_BOUND, reason="permissions bind nobody here")
def test_a_file_that_may_not_be_read_is_not_absent(path: Path) -> None:
    JsonFile(path).write(VALUE)
    path.chmod(0)
    with bound_by_permissions(), pytest.raises(FileRefusedError):
        JsonFile(path).read()


@posix
def test_a_new_file_has_the_mode_and_an_old_one_keeps_its_own(path: Path) -> None:
    JsonFile(path).write(1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    JsonFile(path).write(2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_a_link_stays_and_the_file_that_it_names_is_written(path: Path, tmp_path: Path) -> None:
    JsonFile(tmp_path / "elsewhere").write(1)
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    JsonFile(path).write(2)
    assert path.is_symlink()
    assert JsonFile(tmp_path / "elsewhere").read() == JsonFile(path).read() == 2


def test_a_value_that_is_not_json_leaves_the_file_as_it_was(path: Path) -> None:
    JsonFile(path).write(1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        JsonFile(path).write(float("nan"))
    assert JsonFile(path).read() == 1


def test_a_line_torn_by_a_killed_process_is_ended_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    assert list(json_lines(path)) == []
    append_line(path, VALUE)
    with path.open("ab") as file:
        file.write(b'{"torn": ')
    append_line(path, 2)
    append_line(path, 3)
    assert list(json_lines(path)) == [VALUE, 2, 3]


def test_a_line_that_lacks_only_its_end_counts(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"a": 1}')
    append_line(path, 2)
    assert list(json_lines(path)) == [{"a": 1}, 2]


def test_of_a_line_that_the_disk_does_not_take_whole_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    append_line(path, 1)
    write = os.write
    full = iter([False, True])

    def fill(descriptor: int, content: bytes) -> int:
        if next(full):
            raise OSError(28, "No space left on device")
        return write(descriptor, content[:3])

    with monkeypatch.context() as patch:
        patch.setattr("skills_core.disk.writing.os.write", fill)
        with pytest.raises(OSError, match="No space"):
            append_line(path, "long enough")
    assert path.read_bytes() == b"1\n"


@posix
def test_lines_are_neither_read_from_a_link_nor_written_through_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"1\n")
    (tmp_path / "lines").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"symbolic|links"):
        list(json_lines(tmp_path / "lines"))
    with pytest.raises(OSError, match=r"symbolic|links"):
        append_line(tmp_path / "lines", 2)
    assert (tmp_path / "elsewhere").read_bytes() == b"1\n"
