"""The packed files of a skill are the mapping that they were made of."""

import string
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.disk.files import MAX_FILE_SIZE, Fingerprint, Location
from skills_core.skills.skill import SkillFile, SkillFiles

_paths = st.text(st.sampled_from(f"{string.ascii_lowercase[:3]}/. \n\udcff"), min_size=1, max_size=5)
_links = st.none() | st.just(Location(Path("/elsewhere"), "a"))
_files = st.builds(
    SkillFile,
    _paths,
    st.integers(0, MAX_FILE_SIZE),
    st.binary(min_size=32, max_size=32),
    st.booleans(),
    st.binary(min_size=32, max_size=32).map(Fingerprint),
    st.booleans(),
    _links,
)


def _all_of(file: SkillFile) -> tuple[object, ...]:
    """Return all fields: those that no comparison looks at, too."""
    return file.path, file.size, file.sha256, file.text, file.fingerprint, file.settled, file.linked


@given(st.lists(_files, unique_by=lambda file: file.path), _paths)
def test_files_are_the_mapping_that_they_were_made_of(files: list[SkillFile], other: str) -> None:
    plain = {file.path: file for file in files}
    packed = SkillFiles.of(files)
    assert [*packed] == [*plain]
    assert len(packed) == len(plain)
    assert packed == plain
    assert [*map(_all_of, packed.values())] == [*map(_all_of, plain.values())]
    assert [*packed.items()] == [*plain.items()]
    assert all(_all_of(packed[path]) == _all_of(file) for path, file in plain.items())
    assert (other in packed) == (other in plain)
    assert packed.get(other) == plain.get(other)
    assert packed.are_settled == all(file.settled for file in files)
    assert SkillFiles(*packed.packed).is_read_as(packed)


@given(st.lists(_files, unique_by=lambda file: file.path), st.lists(_files, unique_by=lambda file: file.path))
def test_files_differ_that_only_one_has_or_whose_bytes_are_others(one: list[SkillFile], more: list[SkillFile]) -> None:
    was = {file.path: file for file in one}
    now = {**dict([*was.items()][: len(more)]), **{file.path: file for file in more}}
    differing = SkillFiles.of(was.values()).differing(SkillFiles.of(now.values()))
    assert [*differing] == [path for path in {**was, **now} if was.get(path) != now.get(path)]


def test_a_path_with_nul_is_none_of_two_paths() -> None:
    file = SkillFile("a", 0, bytes(32), True, Fingerprint(bytes(32)), True)
    packed = SkillFiles.of([file, replace(file, path="b")])
    assert "a\0b" not in packed
    assert packed.get("a\0b") is None
    assert "" not in packed


def test_equal_files_that_were_read_at_another_time_are_equal_and_not_read_alike() -> None:
    file = SkillFile("a", 0, bytes(32), True, Fingerprint(bytes(32)), True)
    one, again = SkillFiles.of([file]), SkillFiles.of([replace(file, settled=False)])
    assert one == again
    assert not one.is_read_as(again)
    assert one != SkillFiles.of([replace(file, sha256=b"1" * 32)])


def test_parts_that_do_not_belong_together_are_refused() -> None:
    file = SkillFile("a", 0, bytes(32), True, Fingerprint(bytes(32)), True)
    paths, records, fingerprints, _ = SkillFiles.of([file]).packed
    with pytest.raises(ValueError, match="record"):
        SkillFiles(paths, records + records, fingerprints)
    with pytest.raises(ValueError, match="record"):
        SkillFiles(paths, records, fingerprints + fingerprints)


def test_files_are_equal_whatever_their_order() -> None:
    one, other = (SkillFile(path, 0, bytes(32), True, Fingerprint(bytes(32)), True) for path in "ab")
    assert SkillFiles.of([one, other]) == SkillFiles.of([other, one]) == {"b": other, "a": one}
    assert SkillFiles.of([one]) != SkillFiles.of([other])
