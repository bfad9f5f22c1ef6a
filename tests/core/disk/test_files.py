from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from skills_core import FileRefusedError, Reason, State, UnknownFileError
from skills_core.disk import files
from skills_core.disk.files import Fingerprint, Location, read_at_once, read_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library

posix = pytest.mark.skipif(os.name == "nt", reason="needs links, pipes and sockets in the file system")


@pytest.fixture(params=["handles", "checks"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run every test twice: with directory handles where the system has them, and without."""
    if request.param == "checks":
        monkeypatch.setattr(files, "_HANDLES", False)
    elif not files._HANDLES:
        pytest.skip("this system has no folder handles")
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a root with a file, next to something secret."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(b"SECRET")
    inside = tmp_path / "root"
    (inside / "folder" / "deeper").mkdir(parents=True)
    (inside / "file").write_bytes(b"plain")
    (inside / "folder" / "deeper" / "file").write_bytes(b"deep")
    return inside


def refusal(root: Path, path: str, limit: int = 1000) -> Reason:
    with pytest.raises(FileRefusedError) as caught:
        read_file(Location(root, path), limit)
    assert caught.value.path == path
    return caught.value.reason


@pytest.mark.parametrize(("path", "content"), [("file", b"plain"), ("folder/deeper/file", b"deep")])
def test_a_regular_file_is_read_with_its_fingerprint(root: Path, path: str, content: bytes) -> None:
    raw, fingerprint = read_file(Location(root, path))
    assert (raw, fingerprint.size) == (content, len(content))


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the system keep all files in memory, whatever it and its file systems can tell."""

    def preadv(handle: int, buffers: list[bytearray], offset: int, _: int) -> int:
        os.lseek(handle, offset, os.SEEK_SET)
        content = os.read(handle, len(buffers[0]))
        buffers[0][: len(content)] = content
        return len(content)

    monkeypatch.setattr(os, "preadv", preadv, raising=False)
    monkeypatch.setattr(os, "RWF_NOWAIT", 8, raising=False)


def fingerprint(root: Path, path: str) -> Fingerprint:
    return read_file(Location(root, path))[1]


@pytest.mark.parametrize("changed", ["st_size", "st_mtime_ns", "st_ctime_ns", "st_ino"])
@pytest.mark.parametrize("written", [-1, 10**18, 2**63 - 2, 2**64])
def test_a_fingerprint_tells_of_each_number(changed: str, written: int) -> None:
    """Some file systems have times that no number of 64 bits holds; the last one stands for all that follow."""
    status = SimpleNamespace(st_size=5, st_mtime_ns=written, st_ctime_ns=written, st_ino=2**64 - 2)
    found = Fingerprint.of(cast("os.stat_result", status))
    assert (found.size, found.mtime_ns) == (5, min(written, 2**63 - 1))
    vars(status)[changed] += 1
    other = Fingerprint.of(cast("os.stat_result", status))
    is_seen = os.name != "nt" or changed in {"st_size", "st_mtime_ns"}
    assert (other != found) is (is_seen and (written < 2**63 or not changed.endswith("time_ns")))


@pytest.mark.usefixtures("in_memory")
@pytest.mark.parametrize(("path", "content"), [("file", b"plain"), ("folder/deeper/file", b"deep")])
def test_what_is_in_memory_is_read_at_once(root: Path, path: str, content: bytes) -> None:
    assert read_at_once(Location(root, path), fingerprint(root, path)) == content


@posix
@pytest.mark.usefixtures("in_memory")
def test_another_file_in_the_same_place_is_not_read_at_once(root: Path) -> None:
    before = fingerprint(root, "folder/deeper/file")
    (root / "folder" / "deeper").rename(root.parent / "moved")
    (root.parent / "secret" / "file").write_bytes(b"deep")
    place = root / "folder" / "deeper"
    makers: list[Callable[[Path], object]] = [
        os.mkfifo,
        Path.mkdir,
        lambda file: file.write_bytes(b"deep"),
        lambda file: file.symlink_to(root.parent / "moved" / "file"),
        lambda _: None,
    ]
    for make in makers:
        place.mkdir()
        make(place / "file")
        assert read_at_once(Location(root, "folder/deeper/file"), before) is None
        shutil.rmtree(place)
    place.symlink_to(root.parent / "secret")
    assert read_at_once(Location(root, "folder/deeper/file"), before) is None


@pytest.mark.usefixtures("in_memory")
@pytest.mark.parametrize("lacking", ["preadv", "RWF_NOWAIT"])
def test_a_system_that_cannot_tell_reads_nothing_at_once(
    root: Path, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, lacking)
    assert read_at_once(Location(root, "file"), fingerprint(root, "file")) is None


@pytest.mark.usefixtures("in_memory")
@pytest.mark.parametrize("answer", [BlockingIOError(errno.EAGAIN, ""), OSError(errno.EOPNOTSUPP, ""), 2, 6])
def test_what_the_disk_has_to_be_asked_for_is_not_read_at_once(
    root: Path, answer: OSError | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(*_: object) -> int:
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(os, "preadv", preadv)
    assert read_at_once(Location(root, "file"), fingerprint(root, "file")) is None


@pytest.mark.parametrize("limit", [5, 6, 1000])
def test_a_file_may_be_as_large_as_the_limit(root: Path, limit: int) -> None:
    assert read_file(Location(root, "file"), limit)[0] == b"plain"


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_a_larger_file_is_refused(root: Path, limit: int) -> None:
    assert refusal(root, "file", limit) is Reason.TOO_LARGE


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/",
        "/etc/passwd",
        "//file",
        "./file",
        "folder/./deeper/file",
        "../secret/key",
        "folder/../file",
        "folder/../../secret/key",
        "folder//deeper/file",
        "file/",
        "folder/",
        "file\0",
        "\0",
        "folder\0/deeper/file",
        "file\0../../secret/key",
    ],
)
def test_a_path_that_is_not_relative_is_refused(root: Path, path: str) -> None:
    assert refusal(root, path) is Reason.UNREADABLE


@pytest.mark.parametrize("path", ["absent", "folder/absent", "absent/file", "file/below", "x" * 5000, "..."])
def test_a_missing_file_is_unreadable(root: Path, path: str) -> None:
    assert refusal(root, path) is Reason.UNREADABLE


def test_a_folder_is_not_a_regular_file(root: Path) -> None:
    assert refusal(root, "folder") in {Reason.SPECIAL_FILE, Reason.UNREADABLE}


@posix
@pytest.mark.parametrize("target", ["../secret/key", "file", "folder/deeper/file", "absent", "link", "/dev/zero"])
def test_a_link_is_refused_wherever_it_leads(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    assert refusal(root, "link") is Reason.SYMLINK


@posix
@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("linked", "../secret", "linked/key"),
        ("linked", "folder", "linked/deeper/file"),
        ("folder/linked", "../../secret", "folder/linked/key"),
        ("folder/linked", "deeper", "folder/linked/file"),
        ("loop", "loop", "loop/file"),
        ("folder/up", "..", "folder/up/file"),
        ("top", "/", "top/etc/passwd"),
    ],
)
def test_a_path_through_a_link_is_refused(root: Path, link: str, target: str, path: str) -> None:
    (root / link).symlink_to(target)
    assert refusal(root, path) in {Reason.SYMLINK, Reason.UNREADABLE}


@posix
def test_circular_links_are_refused(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    assert refusal(root, "one") is Reason.SYMLINK
    assert refusal(root, "two/file") in {Reason.SYMLINK, Reason.UNREADABLE}


@posix
def test_a_pipe_without_a_writer_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert refusal(root, "pipe") is Reason.SPECIAL_FILE


@posix
def test_a_socket_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")  # a relative path: the length of a socket's path is limited
        assert refusal(root, "sock") is Reason.SPECIAL_FILE


@posix
def test_a_file_without_permission_is_refused_for_that_reason(unprivileged: Path) -> None:
    (unprivileged / "file").write_bytes(b"x")
    (unprivileged / "file").chmod(0)
    assert refusal(unprivileged, "file") is Reason.PERMISSION_DENIED


@posix
def test_a_file_in_a_folder_without_permission_is_refused_for_that_reason(unprivileged: Path) -> None:
    (unprivileged / "folder").mkdir()
    (unprivileged / "folder" / "file").write_bytes(b"x")
    (unprivileged / "folder").chmod(0)
    assert refusal(unprivileged, "folder/file") is Reason.PERMISSION_DENIED


def test_a_missing_root_is_unreadable(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent", "file") is Reason.UNREADABLE


@posix
def test_no_handle_stays_open_after_a_refusal(root: Path) -> None:
    (root / "link").symlink_to("file")
    os.mkfifo(root / "pipe")
    before = os.dup(0)
    os.close(before)
    for path in ("file", "absent", "link", "link/x", "pipe", "folder", "folder/deeper/file", "folder/absent/x") * 20:
        try:
            read_file(Location(root, path), limit=4)
        except FileRefusedError:
            continue
    after = os.dup(0)
    os.close(after)
    assert after == before


@posix
def test_a_parent_swapped_for_a_link_between_scans_leaks_nothing(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "data").write_bytes(b"SECRET")
    root = tmp_path / "root"
    write_skill(root, "a", files={"inner/data": "plain"})
    library = load(root)
    before = library.catalog.skill("a")
    shutil.rmtree(root / "a" / "inner")
    (root / "a" / "inner").symlink_to(tmp_path / "secret")
    with pytest.raises(FileRefusedError):
        read_file(before.location(before.content.files["inner/data"]))
    # Told of the file alone, and of the folder.
    for changed in ("inner/data", "inner"):
        library.reload([root / "a" / changed])
        skill = library.catalog.skill("a")
        assert [file.digest for file in skill.content.files.values()] == [skill.digest]
    with pytest.raises(UnknownFileError):
        library.catalog.file_of(library.catalog.skill("a"), "inner/data")


@posix
@pytest.mark.parametrize("moment", ["root", "inner", "data"])
def test_a_race_between_scan_and_read_leaks_nothing(
    moment: str,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "data").write_bytes(b"SECRET")
    root = tmp_path / "root"
    write_skill(root, "a", files={"inner/data": "plain"})
    opened = os.open

    def swap_before(path: str, *args: int, **options: int) -> int:
        """Swap the folder in the moment before a path of that name is opened."""
        if Path(path).name == moment and not (root / "a" / "inner").is_symlink():
            (root / "a" / "inner").rename(tmp_path / "elsewhere")
            (root / "a" / "inner").symlink_to(tmp_path / "secret")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", swap_before)
    (skill,) = load(root).catalog.skills
    digests = {file.digest for file in skill.content.files.values()}
    assert "sha256:" + hashlib.sha256(b"SECRET").hexdigest() not in digests


@posix
@pytest.mark.parametrize("kind", ["link", "pipe", "loop", "linked folder"])
def test_refused_files_have_diagnostics_and_the_rest_of_the_skill_is_served(
    kind: str, tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(b"SECRET")
    folder = write_skill(tmp_path / "root", "a", files={"ok.txt": "fine"})
    if kind == "pipe":
        os.mkfifo(folder / "odd")
    else:
        target = {"link": "../../secret/key", "loop": "odd", "linked folder": "../../secret"}[kind]
        (folder / "odd").symlink_to(target)
    skill = load(tmp_path / "root").catalog.skill("a")
    assert list(skill.content.files) == ["SKILL.md", "ok.txt"]
    assert [(found.code, found.path) for found in skill.diagnostics] == [
        (Reason.SPECIAL_FILE if kind == "pipe" else Reason.SYMLINK, str(folder / "odd")),
        (Reason.NOT_PUBLISHED, str(folder / "SKILL.md")),
    ]


@posix
@pytest.mark.parametrize("target", ["other.md", "/dev/zero", "SKILL.md", "absent"])
def test_a_linked_skill_file_makes_an_invalid_skill(target: str, tmp_path: Path, load: Callable[..., Library]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "other.md").write_text("---\nname: a\ndescription: d\n---\n", encoding="utf-8")
    (tmp_path / "a" / "SKILL.md").symlink_to(target)
    (skill,) = load(tmp_path).catalog.skills
    assert (skill.state, skill.reason) == (State.INVALID, Reason.SYMLINK)


@posix
def test_a_pipe_named_as_the_skill_file_makes_an_invalid_skill(tmp_path: Path, load: Callable[..., Library]) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "SKILL.md")
    (skill,) = load(tmp_path).catalog.skills
    assert (skill.state, skill.reason) == (State.INVALID, Reason.SPECIAL_FILE)


@posix
def test_unreadable_files_and_folders_have_diagnostics_and_the_rest_is_served(
    unprivileged: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    folder = write_skill(unprivileged, "a", files={"ok.txt": "fine", "no.txt": "x", "shut/x": "x"})
    (folder / "no.txt").chmod(0)
    (folder / "shut").chmod(0)
    write_skill(unprivileged, "b")
    (unprivileged / "b" / "SKILL.md").chmod(0)
    catalog = load(unprivileged).catalog
    skill = catalog.skill("a")
    assert list(skill.content.files) == ["SKILL.md", "ok.txt"]
    denied = [Reason.PERMISSION_DENIED, Reason.PERMISSION_DENIED, Reason.NOT_PUBLISHED]
    assert [found.code for found in skill.diagnostics] == denied
    (other,) = [skill for skill in catalog.skills if skill.name == "b"]
    assert (other.state, other.reason) == (State.INVALID, Reason.PERMISSION_DENIED)


def test_a_file_that_is_too_large_has_a_diagnostic_and_the_rest_is_served(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    folder = write_skill(tmp_path, "a", files={"big": ""})
    os.truncate(folder / "big", files.MAX_FILE_SIZE + 1)
    skill = load(tmp_path).catalog.skill("a")
    assert list(skill.content.files) == ["SKILL.md"]
    assert [found.code for found in skill.diagnostics] == [Reason.TOO_LARGE, Reason.NOT_PUBLISHED]


def test_an_error_of_the_disk_while_reading_is_a_refusal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "read", fail)
    assert refusal(root, "file") is Reason.UNREADABLE
