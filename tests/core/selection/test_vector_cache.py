"""The file of vectors: what is written is read again, and nothing that is damaged."""

from __future__ import annotations

import logging
import os
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.disk.files import MAX_FILE_SIZE
from skills_core.selection.embeddings import VectorCache, key_of

MODEL = "some/model"
VECTORS = {
    key_of(MODEL, "a"): array("f", [1.0, 0.0]).tobytes(),
    key_of(MODEL, "b"): array("f", [0.6, 0.8]).tobytes(),
}


def saved(folder: Path) -> Path:
    VectorCache(folder, MODEL).save(VECTORS)
    (file,) = folder.iterdir()
    return file


def test_vectors_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = saved(tmp_path / "new" / "folder")
    assert VectorCache(file.parent, MODEL).load() == VECTORS
    assert VectorCache(file.parent, "other").load() == {}


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_only_the_user_reads_the_file(tmp_path: Path) -> None:
    assert saved(tmp_path / "cache").stat().st_mode & 0o777 == 0o600


def test_vectors_are_added_to_those_in_the_file(tmp_path: Path) -> None:
    for key, vector in VECTORS.items():
        VectorCache(tmp_path, MODEL).save({key: vector})
    assert VectorCache(tmp_path, MODEL).load() == VECTORS


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-1],
        lambda raw: raw[:30],
        lambda raw: raw[:10],
        lambda raw: b"\0" * len(raw),
        lambda raw: raw + b"more",
        lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
        lambda raw: raw.replace(array("f", [0.6]).tobytes(), array("f", [0.7]).tobytes()),
    ],
)
def test_a_damaged_entry_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
) -> None:
    file = saved(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    with caplog.at_level(logging.WARNING):
        found = VectorCache(tmp_path, MODEL).load()
        VectorCache(tmp_path, MODEL).save(VECTORS)
    assert found.items() <= VECTORS.items()
    assert caplog.text.count("damaged bytes") == 1
    assert VectorCache(tmp_path, MODEL).load() == VECTORS


@given(at=st.integers(0), value=st.integers(1, 255))
def test_no_changed_byte_changes_a_vector(tmp_path_factory: pytest.TempPathFactory, at: int, value: int) -> None:
    file = saved(tmp_path_factory.mktemp("cache"))
    raw = bytearray(file.read_bytes())
    raw[at % len(raw)] ^= value
    file.write_bytes(raw)
    assert VectorCache(file.parent, MODEL).load().items() <= VECTORS.items()


@pytest.mark.parametrize("numbers", [[2.0, 0.0], [float("nan"), 0.0], [float("inf"), 0.0]])
def test_a_vector_without_length_1_is_not_read(tmp_path: Path, numbers: list[float]) -> None:
    VectorCache(tmp_path, MODEL).save({key_of(MODEL, "a"): array("f", numbers).tobytes()})
    assert VectorCache(tmp_path, MODEL).load() == {}


def test_the_file_is_bounded_and_keeps_what_was_written_last(tmp_path: Path) -> None:
    zeros = array("f", [0.0] * 10_000).tobytes()
    vectors = {key_of(MODEL, str(number)): zeros for number in range(500)}
    VectorCache(tmp_path, MODEL).save(vectors)
    (file,) = tmp_path.iterdir()
    kept = VectorCache(tmp_path, MODEL).load()
    assert file.stat().st_size <= MAX_FILE_SIZE
    assert 0 < len(kept) < 500
    assert [*kept] == [*vectors][-len(kept) :]


@pytest.mark.parametrize("kind", ["folder", "link", "huge", "file instead of the folder"])
def test_a_file_that_cannot_be_used_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    folder = tmp_path / "cache"
    file = saved(folder)
    file.unlink()
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    if kind == "folder":
        file.mkdir()
    elif kind == "link":
        file.symlink_to(other)
    elif kind == "huge":
        file.touch()
        os.truncate(file, MAX_FILE_SIZE + 1)
    else:
        folder.rmdir()
        folder.write_bytes(b"precious")
    with caplog.at_level(logging.WARNING):
        assert VectorCache(folder, MODEL).load() == {}
        VectorCache(folder, MODEL).save(VECTORS)
    assert "the cache of vectors" in caplog.text
    assert other.read_bytes() == b"precious"
    # What is too large is replaced by a smaller file; what is no file of ours stays.
    assert (VectorCache(folder, MODEL).load() == VECTORS) == (kind == "huge")
