"""Archives to download depend on the files alone, and every reader of archives gets the files back."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.config.machine import current_environment
from skills_core import Library, explicit_sources
from skills_core.publish.artifacts import (
    ArchivedFile,
    ArtifactType,
    UnfitReason,
    archive,
    artifact_type,
    unfit_reason,
)
from skills_core.skills.skill import Skill
from tests.conftest import MakeSkill

FILES = [
    ArchivedFile("SKILL.md", b"---\nname: a\ndescription: b\n---\n", executable=False),
    ArchivedFile("scripts/run.sh", b"#!/bin/sh\n", executable=True),
    ArchivedFile("references/Überblick 漢字 😀.md", bytes(200_000), executable=False),
]
SEGMENTS = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda each: each not in {".", ".."} and len(each.encode()) < 60
)


def unpacked(raw: bytes) -> list[ArchivedFile]:
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as tar:
        found = tar.getmembers()
        for each in found:
            assert each.isreg()
            assert (each.mtime, each.uid, each.gid, each.uname, each.gname) == (0, 0, 0, "", "")
            assert each.mode in {0o644, 0o755}
            assert each.pax_headers == {}
        contents = [(each, tar.extractfile(each)) for each in found]
        return [ArchivedFile(each.name, io.read(), each.mode == 0o755) for each, io in contents if io is not None]


def skill_in(skills: Path, name: str) -> Skill:
    catalog = Library(explicit_sources([skills]), current_environment).catalog
    return next(each for each in catalog.active if each.name == name)


def test_the_same_files_give_the_same_bytes_in_any_order_and_for_ever() -> None:
    raw = archive(FILES)
    assert raw == archive(reversed(FILES))
    assert unpacked(raw) == sorted(FILES)
    # Another digest would tell every installer that every skill has changed.
    known = "6bec8b8043c0fd5801599826f75b1083"
    assert hashlib.sha256(archive(FILES[:2])).hexdigest()[:32] == known


@given(
    st.dictionaries(
        st.lists(SEGMENTS, min_size=1, max_size=2).map("/".join),
        st.tuples(st.binary(max_size=2000), st.booleans()),
        max_size=6,
    )
)
def test_all_files_come_back(files: dict[str, tuple[bytes, bool]]) -> None:
    members = [ArchivedFile(path, raw, executable) for path, (raw, executable) in files.items()]
    assert unpacked(archive(members)) == sorted(members)


@pytest.mark.parametrize("size", [0, 1, 55_000, 65_535, 65_536, 131_070, 1_000_000])
def test_files_of_every_size_are_stored_in_valid_blocks(size: int) -> None:
    raw = archive([ArchivedFile("SKILL.md", bytes(range(256)) * (size // 256) + bytes(size % 256), executable=False)])
    assert len(unpacked(raw)[0].raw) == size
    assert len(gzip.decompress(raw)) % tarfile.RECORDSIZE == 0


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs tar")
def test_the_tar_of_the_system_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(archive(FILES))
    subprocess.run(["tar", "xzf", "a.tar.gz"], cwd=tmp_path, check=True)
    for file in FILES:
        assert (tmp_path / file.path).read_bytes() == file.raw
        assert bool((tmp_path / file.path).stat().st_mode & 0o100) == file.executable


def test_a_skill_with_one_file_is_that_file_and_others_are_archives(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    (make_skill("two") / "more.md").write_text("x")
    assert artifact_type(skill_in(skills, "one")) is ArtifactType.SKILL_MD
    assert artifact_type(skill_in(skills, "two")) is ArtifactType.ARCHIVE
    assert unfit_reason(skill_in(skills, "one")) is unfit_reason(skill_in(skills, "two")) is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("x" * 60 + "/" + "y" * 150 + ".md", UnfitReason.PATH),
        ("x" * 100 + "/" + "y" * 90 + ".md", None),
        ("é" * 51 + "/" + "é" * 45 + ".md", None),
        ("é" * 55 + ".md", UnfitReason.PATH),
    ],
)
def test_a_path_that_some_readers_would_cut_keeps_a_skill_out(
    path: str, reason: UnfitReason | None, make_skill: MakeSkill, skills: Path
) -> None:
    file = make_skill("one") / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("x")
    assert unfit_reason(skill_in(skills, "one")) is reason


def test_what_the_extension_does_not_list_and_names_of_several_skills_are_left_out(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("Not Fit")
    (make_skill("linked") / "out").symlink_to("/etc")
    make_skill("a/same")
    make_skill("b/same")
    reasons = {
        each.path: unfit_reason(each)
        for each in Library(explicit_sources([skills]), current_environment).catalog.active
    }
    assert set(reasons.values()) == {UnfitReason.NOT_LISTED, UnfitReason.SHARED_NAME}
    assert reasons["linked"] is UnfitReason.NOT_LISTED
