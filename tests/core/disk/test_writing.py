"""A folder is replaced in one step where the system can, otherwise restored if a step fails, and removed whole."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core.disk import replacement, writing
from skills_core.disk.replacement import remove_tree, replace_folder
from skills_core.disk.writing import exclusive
from tests.thoroughness import examples

ROOT = Path(__file__).parents[3]

ADD = """
import sys
from pathlib import Path
from skills_core.disk import writing
if sys.argv[2] == "without":
    def no_locks(descriptor):
        raise OSError(95, "no locks on this disk")
    writing.try_lock = no_locks
path = Path(sys.argv[1])
sys.stdin.readline()
for _ in range(20):
    with writing.exclusive(path, 60):
        path.write_text(str(int(path.read_text()) + 1))
"""


@pytest.mark.parametrize("locking", ["with", "without"])
def test_concurrent_writers_lose_no_change(tmp_path: Path, locking: str) -> None:
    path = tmp_path / "count"
    path.write_text("0")
    command = [sys.executable, "-c", ADD, str(path), locking]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0] * 4
    assert path.read_text() == "80"


def test_waiting_for_a_held_lock_ends_with_a_timeout_error(tmp_path: Path) -> None:
    with exclusive(tmp_path / "file"), pytest.raises(TimeoutError), exclusive(tmp_path / "file", 0.05):
        pytest.fail("both hold it")
    with exclusive(tmp_path / "file", 0.05):
        pass


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOLCK, "no locks on this disk")

    monkeypatch.setattr(writing, "try_lock", refuse)


@pytest.mark.usefixtures("without_locks")
def test_without_locks_an_exclusive_file_is_used_and_expires(tmp_path: Path) -> None:
    held = tmp_path / "file.lock.held"
    with exclusive(tmp_path / "file"):
        assert held.exists()
        with pytest.raises(TimeoutError), exclusive(tmp_path / "file", 0.05):
            pytest.fail("both hold it")
    assert not held.exists()
    held.touch()
    os.utime(held, (0, 0))
    with exclusive(tmp_path / "file", 5):
        pass


@pytest.fixture(params=["exchange", "renames"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    way = str(request.param)
    if way == "renames":
        monkeypatch.setattr(replacement, "_system_exchange", lambda: None)
    elif sys.platform == "win32":
        pytest.skip("this system cannot exchange folders")
    return way


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    new, target = tmp_path / "new", tmp_path / "target"
    for folder in (new, target):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    return new, target, tmp_path / "aside"


def test_the_old_folder_is_kept_where_the_caller_learns(way: str, places: tuple[Path, Path, Path]) -> None:
    new, target, aside = places
    old = replace_folder(new, target, aside)
    assert old == (new if way == "exchange" else aside)
    assert (target / "file").read_text() == "new"
    assert (old / "file").read_text() == "target"
    assert sorted(path.name for path in target.parent.iterdir()) == sorted([old.name, "target"])


@pytest.mark.usefixtures("way")
def test_a_failure_leaves_the_old_folder_in_its_place(places: tuple[Path, Path, Path]) -> None:
    new, target, aside = places
    with pytest.raises(OSError, match="missing"):
        replace_folder(new.with_name("missing"), target, aside)
    assert (target / "file").read_text() == "target"
    assert not aside.exists()


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="these are modes and depths of POSIX")

NAMES = st.sampled_from(["a", "b", ".removed-0", ".removed-1", "é", " ", "x" * 60])
TREES = st.recursive(
    st.sampled_from(["file", "link", "dangling", "locked"]),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)
MODES = st.sampled_from([0o000, 0o100, 0o300, 0o500, 0o700])

Tree = str | dict[str, "Tree"]


@pytest.fixture(params=["handles", "paths"])
def access(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run as on systems with directory handles, and as on those without."""
    if request.param == "paths":
        monkeypatch.setattr(replacement, "_HANDLES", False)
    return str(request.param)


def make(place: Path, tree: Tree, outside: Path, mode: int = 0o700) -> None:
    if isinstance(tree, dict):
        place.mkdir()
        for name, inner in tree.items():
            make(place / name, inner, outside, mode)
        if sys.platform != "win32":
            place.chmod(mode)
    elif tree == "file" or sys.platform == "win32":
        place.write_text("x")
    elif tree == "locked":
        place.write_text("x")
        place.chmod(0)
    else:
        place.symlink_to(outside if tree == "link" else "nowhere")


def deep(root: Path, depth: int, name: str = "d") -> None:
    """Make folders in one another, deeper than any path can name."""
    before = os.open(".", os.O_RDONLY)
    root.mkdir()
    try:
        os.chdir(root)
        for _ in range(depth):
            Path(name).mkdir()
            os.chdir(name)
            Path("file").touch()
    finally:
        os.fchdir(before)
        os.close(before)


@settings(deadline=None, max_examples=examples(30))
@given(tree=st.dictionaries(NAMES, TREES, max_size=4), mode=MODES)
@pytest.mark.parametrize("handles", [True, False])
def test_any_content_of_a_folder_is_removed_and_link_targets_stay(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Tree], mode: int, *, handles: bool
) -> None:
    base = tmp_path_factory.mktemp("tree")
    outside = base / "outside"
    outside.mkdir(mode=0o755)
    (outside / "precious").write_text("precious")
    make(base / "root", tree, outside, mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacement, "_HANDLES", handles and replacement._HANDLES)
        assert remove_tree(base / "root") == ""
    assert not os.path.lexists(base / "root")
    assert (outside / "precious").read_text() == "precious"
    assert sys.platform == "win32" or stat.S_IMODE(outside.stat().st_mode) == 0o755


@POSIX
@pytest.mark.parametrize("name", ["d", "d" * 200])
def test_a_deep_tree_is_removed_without_recursion_long_paths_or_many_descriptors(
    access: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del access
    deep(tmp_path / "root", 1500, name)
    opened: set[int] = set()
    most = 0
    system_open: Callable[..., int] = os.open
    system_close = os.close

    def opening(*arguments: object, **more: object) -> int:
        nonlocal most
        opened.add(handle := system_open(*arguments, **more))
        most = max(most, len(opened))
        return handle

    def closing(handle: int) -> None:
        opened.discard(handle)
        system_close(handle)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "close", closing)
    assert remove_tree(tmp_path / "root") == ""
    monkeypatch.undo()
    assert not (tmp_path / "root").exists()
    assert most < 10


def test_a_missing_folder_counts_as_removed(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "none") == ""


@POSIX
def test_a_link_in_place_of_the_folder_is_not_followed_and_is_reported(access: str, tmp_path: Path) -> None:
    del access
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").touch()
    (tmp_path / "root").symlink_to(tmp_path / "other")
    assert "root" in remove_tree(tmp_path / "root")
    assert (tmp_path / "other" / "precious").exists()


@POSIX
def test_entries_that_cannot_be_removed_are_reported_and_the_rest_is_removed(
    access: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del access
    make(tmp_path / "root", {"a": "file", "stuck": "file", "b": {"c": "file"}}, tmp_path)
    unlink = replacement._unlink

    def refuse(place: Path, handle: int | None) -> None:
        if place.name == "stuck":
            raise PermissionError(1, "Operation not permitted", "stuck")
        unlink(place, handle)

    monkeypatch.setattr(replacement, "_unlink", refuse)
    assert "stuck: Operation not permitted" in remove_tree(tmp_path / "root")
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["stuck"]
