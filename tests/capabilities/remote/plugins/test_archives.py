"""An archive is unpacked within its folder and its limits, or refused."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.capabilities.remote.plugins import retrieval
from server.capabilities.remote.plugins.installed import PluginError
from server.capabilities.remote.plugins.retrieval import safe_path, unpack
from tests.capabilities.remote.plugins.helpers import content

Member = tuple[str, bytes]
LIMIT = 1_000_000


def make_zip(path: Path, *members: Member, **changes: object) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in members:
            info = zipfile.ZipInfo(name)
            for field, value in changes.items():
                setattr(info, field, value)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, raw)
    return path


def make_tar(path: Path, *members: Member, **changes: object) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, raw in members:
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            for field, value in changes.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(raw))
    return path


Make = Callable[..., Path]
MAKERS: dict[str, tuple[Make, str]] = {
    "zip": (make_zip, "a.zip"),
    "tar": (make_tar, "a.tar"),
    "tar.gz": (make_tar, "a.tar.gz"),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    maker, name = MAKERS[request.param]
    return lambda *members, **changes: maker(tmp_path / name, *members, **changes)


def reason(archive: Path, target: Path, limit: int = LIMIT) -> str:
    with pytest.raises(PluginError, match=r"^[^\n]*$") as caught:
        unpack(archive, target, limit)
    assert str(archive) in caught.value.message
    return caught.value.reason.value


def test_regular_files_are_written_and_none_is_executable(make: Make, tmp_path: Path) -> None:
    archive = make(
        ("./plugin/SKILL.md", b"a"), ("plugin/deep/er/x.sh", b"#!/bin/sh"), ("plugin/.git/config", b"[core]")
    )
    found = unpack(archive, tmp_path / "out", LIMIT)
    assert content(tmp_path / "out") == {"plugin/SKILL.md": b"a", "plugin/deep/er/x.sh": b"#!/bin/sh"}
    assert found == []
    assert not any(path.stat().st_mode & 0o111 for path in (tmp_path / "out").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "name",
    ["../x", "/x", "a/../../x", "a/..", "..", "a\\..\\x", "a//x", "//x", "a/\x01\\x", ".GIT~1/x/../y", "git~1/x"],
)
def test_paths_that_lead_elsewhere_are_refused(make: Make, tmp_path: Path, name: str) -> None:
    assert reason(make((name, b"x")), tmp_path / "out") == "unsupported_name"
    assert content(tmp_path).keys() <= {"a.zip", "a.tar", "a.tar.gz"}


def test_a_path_that_is_there_twice_or_as_file_and_folder_is_refused(make: Make, tmp_path: Path) -> None:
    assert reason(make(("x", b"1"), ("./x", b"2")), tmp_path / "one") == "name_collision"
    assert reason(make(("x", b"1"), ("x/y", b"2")), tmp_path / "two") == "name_collision"


def test_more_bytes_than_the_limit_are_refused_whatever_the_headers_say(make: Make, tmp_path: Path) -> None:
    bomb = bytes(3_000_000)
    assert reason(make(("x", bomb)), tmp_path / "one") == "too_large"
    halves = make(*((f"x{number}", bytes(400_000)) for number in range(3)))
    assert reason(halves, tmp_path / "two") == "too_large"
    assert sum(len(raw) for raw in content(tmp_path / "two").values()) <= LIMIT
    unpack(halves, tmp_path / "three", 1_200_000)
    assert sum(len(raw) for raw in content(tmp_path / "three").values()) == 1_200_000


def test_more_entries_than_the_limit_are_refused(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "MAX_FILES", 5)
    assert reason(make(*((f"x{number}", b"") for number in range(6))), tmp_path / "out") == "too_large"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_of_a_tar_are_left_out_and_named(tmp_path: Path, kind: bytes) -> None:
    archive = make_tar(tmp_path / "a.tar", ("link", b""), type=kind, linkname="/etc/passwd")
    assert unpack(archive, tmp_path / "out", LIMIT) == ["link"]
    assert list((tmp_path / "out").iterdir()) == []


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        file = tarfile.TarInfo("out/evil")
        file.size = 1
        archive.addfile(file, io.BytesIO(b"x"))
    unpack(path, tmp_path / "target", LIMIT)
    assert content(tmp_path / "target") == {"out/evil": b"x"}
    assert not (tmp_path / "evil").exists()


def test_links_of_a_zip_are_left_out_and_named(tmp_path: Path) -> None:
    mode = (stat.S_IFLNK | 0o777) << 16
    archive = make_zip(tmp_path / "a.zip", ("link", b"/etc/passwd"), external_attr=mode, create_system=3)
    assert unpack(archive, tmp_path / "out", LIMIT) == ["link"]
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Z"])
def test_special_files_are_refused(tmp_path: Path, kind: bytes) -> None:
    archive = make_tar(tmp_path / "a.tar", ("device", b""), type=kind)
    if kind == tarfile.CONTTYPE:
        unpack(archive, tmp_path / "out", LIMIT)
        assert content(tmp_path / "out") == {"device": b""}
        return
    assert reason(archive, tmp_path / "out") == "unreadable"


def test_special_files_of_a_zip_and_encrypted_ones_are_refused(tmp_path: Path) -> None:
    mode = (stat.S_IFIFO | 0o644) << 16
    archive = make_zip(tmp_path / "a.zip", ("pipe", b""), external_attr=mode, create_system=3)
    assert reason(archive, tmp_path / "one") == "unreadable"
    plain = bytearray(make_zip(tmp_path / "b.zip", ("x", b"y")).read_bytes())
    for signature, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        plain[plain.index(signature) + at] |= 1
    (tmp_path / "b.zip").write_bytes(plain)
    assert reason(tmp_path / "b.zip", tmp_path / "two") == "unreadable"


def test_headers_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 500_000_000
    path = tmp_path / "a.tar.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(20):
            stream.write(bytes(1_000_000))
    assert reason(path, tmp_path / "one") == "too_large"


def test_a_directory_of_a_zip_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    small = make_zip(tmp_path / "a.zip", ("x", b"y")).read_bytes()
    at = small.index(b"PK\1\2")
    entry, end = small[at : small.index(b"PK\5\6")], bytearray(small[small.index(b"PK\5\6") :])
    count = 20_000_000 // len(entry)
    struct.pack_into("<HHII", end, 8, 0xFFFF, 0xFFFF, len(entry) * count, at)
    (tmp_path / "a.zip").write_bytes(small[:at] + entry * count + bytes(end))
    assert reason(tmp_path / "a.zip", tmp_path / "out") == "too_large"


@pytest.mark.parametrize("name", MAKERS)
def test_a_damaged_archive_is_refused_and_not_taken_for_a_shorter_one(tmp_path: Path, name: str) -> None:
    maker, file = MAKERS[name]
    members = [(f"file-{number}", os.urandom(3000)) for number in range(9)]
    whole = maker(tmp_path / file, *members).read_bytes()
    for number, cut in enumerate(range(100, len(whole) - 10_300 if name == "tar" else len(whole) - 9, 1777)):
        (tmp_path / file).write_bytes(whole[:cut])
        assert reason(tmp_path / file, tmp_path / f"cut-{number}") == "unreadable"
    if name == "tar":
        (tmp_path / file).write_bytes(whole[:3584] + b"\xff" * 512 + whole[4096:])
        assert reason(tmp_path / file, tmp_path / "changed") == "unreadable"


@pytest.mark.parametrize("raw", [b"", b"PK\3\4", b"\x1f\x8b", b"hello", b"\0" * 2048, b"PK\5\6" + bytes(18)])
def test_what_is_no_archive_is_refused_or_empty(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a").write_bytes(raw)
    try:
        unpack(tmp_path / "a", tmp_path / "out", LIMIT)
        assert content(tmp_path / "out") == {}
    except PluginError as error:
        assert error.reason.value == "unreadable"  # noqa: PT017 - an empty archive is one, and has no skill


@given(st.text(max_size=40) | st.text(alphabet="./\\a:\0", max_size=12))
def test_a_path_is_below_its_folder_or_refused(name: str) -> None:
    try:
        path = safe_path(name)
    except PluginError:
        return
    assert path is None or not set(path.split("/")) & {"", ".", ".."}


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"PK\3\4", b"\x1f\x8b\x08\0", b""]))
def test_any_bytes_are_unpacked_or_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes, magic: bytes) -> None:
    root = tmp_path_factory.mktemp("fuzz")
    (root / "a").write_bytes(magic + raw)
    with suppress(PluginError):
        unpack(root / "a", root / "out", LIMIT)
