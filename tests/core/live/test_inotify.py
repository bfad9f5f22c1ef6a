"""What must hold where each folder has a watch of its own, and folders come, go and move."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from skills_core.live import inotify
from skills_core.live.inotify import FolderEvents, Places
from skills_core.live.watch_options import WatchMode, WatchOptions
from skills_core.live.watcher import watch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is one of Linux")

QUICK = WatchOptions(mode=WatchMode.NATIVE, debounce=0.05, poll_interval=0.1)


class Watched:
    """A root under watch."""

    def __init__(self, root: Path, batches: AsyncGenerator[frozenset[Path] | None]) -> None:
        self.root = root
        self.batches = batches
        self.marks = 0

    async def settled(self) -> set[Path]:
        """Make one more change, and return all changes that were reported up to it."""
        self.marks += 1
        mark = self.root / f"mark{self.marks}"
        mark.touch()
        found: set[Path] = set()
        with anyio.fail_after(5):
            while mark not in found:
                batch = await anext(self.batches)
                assert batch is not None
                found |= batch
        return found - {mark}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "root"
    (folder / "a" / "deep").mkdir(parents=True)
    return folder


@pytest.fixture
async def watched(root: Path) -> AsyncIterator[Watched]:
    async with aclosing(watch([root], QUICK)) as batches:
        with anyio.fail_after(5):
            assert await anext(batches) is None
        yield Watched(root, batches)


async def test_what_is_in_a_new_folder_is_reported(watched: Watched, root: Path, tmp_path: Path) -> None:
    (tmp_path / "made" / "deep").mkdir(parents=True)
    (tmp_path / "made" / "deep" / "SKILL.md").touch()
    (tmp_path / "made").rename(root / "b")
    found: set[Path] = set()
    while root / "b" / "deep" / "SKILL.md" not in found:
        found |= await watched.settled()


@pytest.mark.parametrize("counts", [True, False])
async def test_inmost_folders_are_watched_whether_or_not_their_links_tell_that_they_are(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, counts: bool
) -> None:
    devices = frozenset({root.stat().st_dev} if counts else ())
    monkeypatch.setattr(inotify, "noting_devices", lambda: devices)
    listed: list[str] = []
    scandir = os.scandir

    def noted(path: str) -> Iterator[os.DirEntry[str]]:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    async with aclosing(watch([root], QUICK)) as batches:
        with anyio.fail_after(5):
            assert await anext(batches) is None
        # A file system may give a folder any number of links.
        if root.stat().st_nlink == 3:
            assert (str(root / "a" / "deep") in listed) is not counts
        watched = Watched(root, batches)
        (root / "a" / "deep" / "SKILL.md").touch()
        assert await watched.settled() == {root / "a" / "deep" / "SKILL.md"}
        (root / "a" / "deep" / "er").mkdir()
        await watched.settled()
        (root / "a" / "deep" / "er" / "x.md").touch()
        assert root / "a" / "deep" / "er" / "x.md" in await watched.settled()


async def test_a_moved_folder_is_reported_at_its_new_place_only(watched: Watched, root: Path) -> None:
    (root / "a").rename(root / "b")
    assert {root / "a", root / "b"} <= await watched.settled()
    await watched.settled()
    (root / "b" / "deep" / "SKILL.md").touch()
    assert await watched.settled() == {root / "b" / "deep" / "SKILL.md"}


async def test_a_folder_moved_away_is_not_watched_any_more(watched: Watched, root: Path, tmp_path: Path) -> None:
    (root / "a").rename(tmp_path / "away")
    await watched.settled()
    (tmp_path / "away" / "deep" / "SKILL.md").touch()
    assert await watched.settled() == set()


class CountedPlaces(Places):
    """The places of watched folders, which counts how often all are passed over."""

    passes = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        return super().__iter__()


def test_moving_a_folder_within_a_root_takes_no_look_at_all_others(root: Path, tmp_path: Path) -> None:
    events, stop = FolderEvents([str(root)]), threading.Event()
    events.begin(stop)
    places = CountedPlaces()
    places.update(events._places)
    events._places = places

    def settle() -> None:
        # The thread begins another reading when it is done with the one before.
        mark = root / "mark"
        for change in (mark.touch, mark.unlink):
            change()
            while str(mark) not in events.wait(5, stop):
                pass

    try:
        (root / "a").rename(root / "b")
        settle()
        assert places.passes == 0
        (root / "b").rename(tmp_path / "away")
        settle()
        assert places.passes > 0
        assert not places
    finally:
        events.close()


async def test_a_folder_that_is_moved_within_and_then_away_is_not_watched_any_more(
    watched: Watched, root: Path, tmp_path: Path
) -> None:
    (root / "a").rename(root / "b")
    (root / "b").rename(tmp_path / "away")
    await watched.settled()
    (tmp_path / "away" / "deep" / "SKILL.md").touch()
    assert await watched.settled() == set()


async def test_a_folder_moved_to_an_ignored_name_is_not_watched_any_more(watched: Watched, root: Path) -> None:
    (root / "a").rename(root / ".git")
    await watched.settled()
    (root / ".git" / "deep" / "SKILL.md").touch()
    assert await watched.settled() == set()


async def test_what_is_made_in_a_folder_moved_within_is_reported_at_its_new_place(watched: Watched, root: Path) -> None:
    (root / "a").rename(root / "b")
    (root / "b" / "deep" / "new").mkdir()
    await watched.settled()
    await watched.settled()
    (root / "b" / "deep" / "new" / "SKILL.md").touch()
    assert await watched.settled() == {root / "b" / "deep" / "new" / "SKILL.md"}


async def test_folders_that_change_places_are_reported_where_they_are(watched: Watched, root: Path) -> None:
    (root / "b").mkdir()
    (root / "a").rename(root / "c")
    (root / "b").rename(root / "a")
    (root / "c").rename(root / "b")
    await watched.settled()
    await watched.settled()
    (root / "b" / "deep" / "SKILL.md").touch()
    (root / "a" / "SKILL.md").touch()
    assert await watched.settled() == {root / "b" / "deep" / "SKILL.md", root / "a" / "SKILL.md"}


async def test_a_folder_removed_and_made_again_is_watched(watched: Watched, root: Path) -> None:
    (root / "a" / "deep").rmdir()
    (root / "a" / "deep").mkdir()
    await watched.settled()
    await watched.settled()
    (root / "a" / "deep" / "SKILL.md").touch()
    assert await watched.settled() == {root / "a" / "deep" / "SKILL.md"}


async def test_a_name_that_is_not_utf8_is_reported(watched: Watched, root: Path) -> None:
    (root / os.fsdecode(b"b\xff")).touch()
    assert await watched.settled() == {root / os.fsdecode(b"b\xff")}


async def test_a_link_is_reported_and_not_followed(watched: Watched, root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path)
    assert await watched.settled() == {root / "link"}
    await watched.settled()
    (tmp_path / "file").touch()
    assert await watched.settled() == set()


async def test_roots_that_lead_to_one_folder_are_all_reported(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root / "a")
    expected = {root / "a" / "deep" / "file", tmp_path / "link" / "deep" / "file"}
    with anyio.fail_after(5):
        async with aclosing(watch([root, root / "a", tmp_path / "link"], QUICK)) as batches:
            assert await anext(batches) is None
            (root / "a" / "deep" / "file").touch()
            assert await anext(batches) == frozenset(expected)


async def test_events_that_the_system_lost_mean_that_anything_may_have_changed(
    watched: Watched, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(inotify, "_parsed", lambda _: iter([(-1, 0x4000, "")]))
        (root / "a" / "unseen").mkdir()
        with anyio.fail_after(5):
            assert await anext(watched.batches) is None
    (root / "a" / "unseen" / "SKILL.md").touch()
    while root / "a" / "unseen" / "SKILL.md" not in await watched.settled():
        pass


@pytest.mark.parametrize("left", [0, 2], ids=["for the root", "for a folder below"])
async def test_without_watches_for_all_folders_the_watcher_polls_and_says_how_to_raise_the_limit(
    left: int, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    # No test may use up the watches of the user, and what is watched cannot be asked from outside.
    add = inotify.FolderEvents._add
    added: list[str] = []

    def limited(self: inotify.FolderEvents, path: str, mask: int) -> int | None:
        if len(added) == left:
            raise OSError(28, "No space left on device")
        added.append(path)
        return add(self, path, mask)

    monkeypatch.setattr(inotify.FolderEvents, "_add", limited)
    with anyio.fail_after(5):
        async with aclosing(watch([root], QUICK)) as batches:
            assert [await anext(batches) for _ in range(3)] == [None] * 3
    assert "sudo sysctl fs.inotify.max_user_watches=" in caplog.text


async def test_ignored_folders_take_no_watches(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "node_modules" / "x").mkdir(parents=True)
    (root / ".git" / "objects").mkdir(parents=True)
    # No test may use up the watches of the user, and what is watched cannot be asked from outside.
    add = inotify.FolderEvents._add
    added: list[str] = []

    def counted(self: inotify.FolderEvents, path: str, mask: int) -> int | None:
        added.append(path)
        return add(self, path, mask)

    monkeypatch.setattr(inotify.FolderEvents, "_add", counted)
    with anyio.fail_after(5):
        async with aclosing(watch([root], QUICK)) as batches:
            assert await anext(batches) is None
    assert sorted(added) == [str(root), str(root / "a"), str(root / "a" / "deep")]


async def test_a_watch_leaves_no_thread_behind(root: Path) -> None:
    before = set(threading.enumerate())
    async with aclosing(watch([root], QUICK)) as batches:
        assert await anext(batches) is None
        (thread,) = {each for each in threading.enumerate() if each.name == "watch"} - before
    await anyio.to_thread.run_sync(thread.join, 5)
    assert not thread.is_alive()
