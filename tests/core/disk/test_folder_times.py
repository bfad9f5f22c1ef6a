"""A scan that knows a source lists only folders that changed, where file systems note that; files are compared."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import NOT_A_SOURCE, Listing, noting_devices
from skills_core.disk.scan import scan
from skills_core.disk.sources import Source
from skills_core.disk.tree import Tree

pytestmark = pytest.mark.skipif(os.name == "nt", reason="folders have no time of change there")

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 22 0:40 / /home/a\040b rw - nfs4 server:/home rw
25 22 0:41 / /mnt/s3 rw - fuse.s3fs s3fs rw
26 22 0:42 / /data rw shared:9 master:2 - btrfs /dev/sdb rw
27 22 0:43 / /var/lib/docker/x rw - overlay overlay rw,lowerdir=/a
28 22 8:17 /skills /srv/skills ro - xfs /dev/sdb1 rw
29 22 0:44 / /dev/shm rw - tmpfs tmpfs rw
"""


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the folders that are listed."""
    found, entries = list[str](), Reader.entries

    def noted(reader: Reader, location: Location) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        found.append(location.relative)
        return entries(reader, location)

    monkeypatch.setattr(Reader, "entries", noted)
    return found


@pytest.fixture
def source(tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Source:
    """Return a source of folders that were written long ago, on a file system that notes changes in them."""
    root = (tmp_path / "skills").resolve()
    write_skill(root, "a", files={"references/one.md": "1", "references/two.md": "2"})
    write_skill(root, "group/b")
    monkeypatch.setattr("skills_core.disk.scan.noting_devices", lambda: {root.stat().st_dev})
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + 3_600_000_000_000)
    return Source(root)


def unlike_before(source: Source, before: Tree) -> set[str]:
    after = scan(source, before)
    assert dict(after) == dict(scan(source))
    return {folder for folder in {*before, *after} if before.get(folder) != after.get(folder)}


def test_nothing_is_listed_where_nothing_changed(source: Source, listed: list[str]) -> None:
    before = scan(source)
    assert sorted(listed) == ["", "a", "a/references", "group", "group/b"]
    listed.clear()
    assert scan(source, before) is before
    assert not listed


def test_only_a_folder_that_changed_is_listed(source: Source, listed: list[str]) -> None:
    before = scan(source)
    (source.root / "a/references/one.md").rename(source.root / "a/references/uno.md")
    listed.clear()
    after = scan(source, before)
    assert listed == ["a/references"]
    assert after["a/references"].file_names == ["two.md", "uno.md"]
    assert {folder for folder in after if after[folder] is not before[folder]} == {"a/references"}


@pytest.mark.parametrize("change", ["write", "add", "remove", "new folder", "move in", "remove folder", "to a link"])
def test_a_change_is_found_whose_times_were_put_back(source: Source, change: str) -> None:
    root, aside = source.root, source.root.parent / "aside"
    folder, file = root / "a/references", root / "a/references/one.md"
    (aside / "deep").mkdir(parents=True)
    before = scan(source)
    times = [(path, path.stat()) for path in (file, folder, root / "a", root)]
    # The clock of the file system has to move on.
    while aside.stat().st_ctime_ns <= folder.stat().st_ctime_ns:
        os.utime(aside)
    match change:
        case "write":
            file.write_text("!")
        case "add":
            (folder / "new.md").write_text("new")
        case "remove":
            file.unlink()
        case "new folder":
            (folder / "new").mkdir()
        case "move in":
            aside.rename(folder / "aside")
        case "remove folder":
            folder.rename(root.parent / "gone")
        case _:
            folder.rename(root.parent / "gone")
            folder.symlink_to(root.parent / "gone")
    for path, status in times:
        if path.exists():
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert unlike_before(source, before)


def test_a_folder_that_was_written_just_now_is_listed_again(
    source: Source, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        # As if each change were made while it is listed.
        patch.setattr("skills_core.disk.files._RACY_NS", 7_200_000_000_000)
        before = scan(source)
    listed.clear()
    scan(source, before)
    assert sorted(listed) == ["", "a", "a/references", "group", "group/b"]


def test_where_folders_do_not_note_changes_all_are_listed(
    source: Source, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scan(source)
    monkeypatch.setattr("skills_core.disk.scan.noting_devices", lambda: {source.root.stat().st_dev + 1})
    listed.clear()
    assert dict(scan(source, before)) == dict(before)
    assert sorted(listed) == ["", "a", "a/references", "group", "group/b"]


def test_folders_that_a_tree_lacks_or_should_not_have_are_found(source: Source) -> None:
    whole = scan(source)
    torn = Tree(whole)
    torn.drop("a/references")
    assert dict(scan(source, torn)) == dict(whole)
    # As an index has it after a start that was ended.
    unfinished = Tree(whole)
    unfinished.enter("group", Listing())
    (source.root / "group" / NOT_A_SOURCE).write_text("{}")
    assert dict(scan(source, unfinished)) == dict(scan(source))
    assert "group/b" not in scan(source, unfinished)


def test_only_file_systems_that_are_known_for_it_count(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS.lstrip())
    expected = {os.makedev(254, 0), os.makedev(8, 17), os.makedev(0, 44)} if sys.platform == "linux" else set[int]()
    assert noting_devices(tmp_path / "mountinfo") == expected
    assert noting_devices(tmp_path / "nowhere") == frozenset()
