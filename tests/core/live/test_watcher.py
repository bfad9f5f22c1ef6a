from __future__ import annotations

import shutil
import sys
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import anyio
import pytest

from skills_core.live.watch_options import WatchMode, WatchOptions
from skills_core.live.watcher import watch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from skills_core import Library

QUICK = WatchOptions(mode=WatchMode.NATIVE, debounce=0.1, poll_interval=0.1)


@pytest.fixture(params=["this system", "other systems"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "other systems":
        monkeypatch.setattr("skills_core.live.watcher._USES_INOTIFY", False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "root"
    folder.mkdir()
    return folder


@asynccontextmanager
async def watching(
    *roots: Path, options: WatchOptions = QUICK
) -> AsyncIterator[AsyncGenerator[frozenset[Path] | None]]:
    """Watch until the first item, which says that watching has begun; everything in five seconds."""
    with anyio.fail_after(5):
        async with aclosing(watch(roots, options)) as batches:
            assert await anext(batches) is None
            yield batches


async def until(batches: AsyncGenerator[frozenset[Path] | None], expected: set[Path]) -> None:
    """Wait until all of `expected` was reported, in one batch or several, or anything may have changed."""
    missing = set(expected)
    while missing:
        batch = await anext(batches)
        missing = set() if batch is None else missing - batch


async def test_the_first_item_says_that_watching_has_begun(root: Path) -> None:
    async with watching(root):
        pass


async def test_an_edit_is_reported_by_its_path(root: Path) -> None:
    (root / "SKILL.md").touch()
    async with watching(root) as batches:
        (root / "SKILL.md").write_text("x", encoding="utf-8")
        assert await anext(batches) == frozenset({root / "SKILL.md"})


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
async def test_an_edit_is_reported_by_its_own_path_although_links_lead_to_its_folder(root: Path) -> None:
    (root / "a-link").symlink_to("skill")
    (root / "skill").mkdir()
    (root / "z-link").symlink_to("skill")
    async with watching(root) as batches:
        (root / "skill" / "SKILL.md").write_text("x", encoding="utf-8")
        await until(batches, {root / "skill" / "SKILL.md"})


async def test_a_burst_of_changes_is_reported_once(root: Path) -> None:
    files = frozenset(root / f"f{number}" for number in range(300))
    async with watching(root, options=WatchOptions(mode=WatchMode.NATIVE, debounce=0.5)) as batches:
        for file in files:
            file.touch()
        assert await anext(batches) == files


async def test_a_file_saved_through_a_temporary_file_is_reported(root: Path) -> None:
    (root / "SKILL.md").touch()
    async with watching(root) as batches:
        (root / "new.tmp").write_text("x", encoding="utf-8")
        (root / "new.tmp").replace(root / "SKILL.md")
        await until(batches, {root / "SKILL.md"})


async def test_a_removed_file_and_a_removed_folder_are_reported(root: Path) -> None:
    (root / "file").touch()
    (root / "folder").mkdir()
    async with watching(root) as batches:
        (root / "file").unlink()
        (root / "folder").rmdir()
        await until(batches, {root / "file", root / "folder"})


async def test_a_folder_moved_in_is_reported_and_watched_from_then_on(root: Path, tmp_path: Path) -> None:
    (tmp_path / "made" / "deep").mkdir(parents=True)
    async with watching(root) as batches:
        (tmp_path / "made").rename(root / "moved")
        await until(batches, {root / "moved"})
        (root / "moved" / "deep" / "SKILL.md").touch()
        await until(batches, {root / "moved" / "deep" / "SKILL.md"})


async def test_a_folder_moved_out_is_reported(root: Path, tmp_path: Path) -> None:
    (root / "folder").mkdir()
    async with watching(root) as batches:
        (root / "folder").rename(tmp_path / "elsewhere")
        await until(batches, {root / "folder"})


async def test_a_new_folder_is_watched_at_once(root: Path) -> None:
    async with watching(root) as batches:
        (root / "a" / "b").mkdir(parents=True)
        await until(batches, {root / "a"})
        (root / "a" / "b" / "SKILL.md").touch()
        await until(batches, {root / "a" / "b" / "SKILL.md"})


async def test_a_replaced_root_is_watched_anew(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with watching(root) as batches:
        root.rename(tmp_path / "old")
        (tmp_path / "other").rename(root)
        while await anext(batches) is not None:
            pass
        (root / "SKILL.md").touch()
        await until(batches, {root / "SKILL.md"})


async def test_a_missing_root_is_watched_once_it_is_created(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "later"
    async with watching(root) as batches:
        root.mkdir()
        while await anext(batches) is not None:
            pass
        (root / "SKILL.md").touch()
        await until(batches, {root / "SKILL.md"})


async def test_several_roots_are_watched_together(root: Path, tmp_path: Path) -> None:
    other = tmp_path.resolve() / "other"
    other.mkdir()
    async with watching(root, other) as batches:
        (root / "a").touch()
        (other / "b").touch()
        await until(batches, {root / "a", other / "b"})


async def test_ignored_names_are_not_reported(root: Path) -> None:
    (root / ".git").mkdir()
    (root / "node_modules").mkdir()
    async with watching(root) as batches:
        for name in (".git/index", "node_modules/x", "a~", ".SKILL.md.swp", "4913"):
            (root / name).touch()
        (root / "SKILL.md").touch()
        assert await anext(batches) == frozenset({root / "SKILL.md"})


async def test_hidden_folders_above_the_root_hide_nothing(tmp_path: Path) -> None:
    root = tmp_path.resolve() / ".claude" / "skills"
    root.mkdir(parents=True)
    async with watching(root) as batches:
        (root / "SKILL.md").touch()
        await until(batches, {root / "SKILL.md"})


async def touch_without_end(root: Path) -> None:
    number = 0
    while True:
        (root / f"f{number}").touch()
        number += 1
        await anyio.sleep(0.02)


async def test_an_endless_burst_is_reported_in_parts(root: Path) -> None:
    options = WatchOptions(mode=WatchMode.NATIVE, debounce=0.1)
    async with watching(root, options=options) as batches, anyio.create_task_group() as writing:
        writing.start_soon(touch_without_end, root)
        assert await anext(batches)
        writing.cancel_scope.cancel()


async def test_watching_ends_at_once_when_it_is_off(root: Path) -> None:
    with anyio.fail_after(5):
        assert [batch async for batch in watch([root], WatchOptions(mode=WatchMode.OFF))] == []


async def test_polling_reports_at_each_interval_that_anything_may_have_changed(root: Path) -> None:
    async with watching(root, options=WatchOptions(mode=WatchMode.POLL, poll_interval=0.01)) as batches:
        assert [await anext(batches) for _ in range(5)] == [None] * 5


async def test_watching_nothing_waits(root: Path) -> None:
    async with watching(options=QUICK) as batches:
        (root / "file").touch()
        with anyio.move_on_after(0.3) as scope:
            await anext(batches)
    assert scope.cancelled_caught


@pytest.mark.parametrize("mode", [WatchMode.AUTO, WatchMode.NATIVE, WatchMode.POLL])
async def test_reloading_the_reported_paths_brings_a_library_up_to_date(
    mode: WatchMode, root: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    library = load(root)
    options = WatchOptions(mode=mode, debounce=0.05, poll_interval=0.05)
    async with watching(root, options=options) as batches:
        write_skill(root, "a")
        while not library.catalog.active:
            library.reload(await anext(batches))
        (write_skill(root, "b", name="a", description="New.") / "SKILL.md").replace(root / "a" / "SKILL.md")
        while [skill.description for skill in library.catalog.active] != ["New."]:
            library.reload(await anext(batches))
        shutil.rmtree(root / "a")
        while library.catalog.active:
            library.reload(await anext(batches))


async def test_a_root_removed_and_recreated_at_once_is_watched_anew(root: Path) -> None:
    (root / "a").mkdir()
    async with watching(root) as batches:
        shutil.rmtree(root)
        root.mkdir()
        while await anext(batches) is not None:
            pass
        (root / "b").mkdir()
        await until(batches, {root / "b"})


async def test_a_root_below_the_hidden_folder_of_another_root_is_watched(root: Path) -> None:
    hidden = root / ".hidden" / "skills"
    hidden.mkdir(parents=True)
    async with watching(root, hidden) as batches:
        (root / ".hidden" / "other").mkdir()
        (hidden / "a").mkdir()
        assert await anext(batches) == frozenset({hidden / "a"})


async def test_polling_rests_longer_the_longer_a_comparison_takes(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    clock = iter([0.0, 2.0, 2.0])  # when an item was given out, and when the next one was asked for
    monkeypatch.setattr("skills_core.live.watcher.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("skills_core.live.watcher.anyio.sleep", rest)
    async with aclosing(watch([root], WatchOptions(mode=WatchMode.POLL, poll_interval=1))) as batches:
        for _ in range(2):
            assert await anext(batches) is None
    (rested,) = rests
    assert rested >= 19 * 2
    assert "polling every" in caplog.text


async def test_a_root_deleted_before_the_first_item_is_reported_when_recreated(root: Path, tmp_path: Path) -> None:
    async def go() -> None:
        await anyio.sleep(0.2)
        root.rename(tmp_path / "away")

    options = WatchOptions(mode=WatchMode.NATIVE, debounce=0.5, poll_interval=0.1)
    with anyio.fail_after(5):
        async with aclosing(watch([root], options)) as batches, anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            assert await anext(batches) is None
            (tmp_path / "away").rename(root)
            assert await anext(batches) is None
