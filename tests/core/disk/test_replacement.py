"""A folder is replaced in one step where the system can, and otherwise restored if a step fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skills_core.disk import replacement
from skills_core.disk.replacement import replace_folder


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
