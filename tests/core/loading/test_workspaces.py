"""Copies of skills in a workspace of test results are not skills; its marker identifies it, not its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core import Library
from skills_core.disk.folders import NOT_A_SOURCE
from skills_core.disk.sources import explicit_sources
from skills_core.loading.discovery import find_skill_files, load_source, reload_source

if TYPE_CHECKING:
    from collections.abc import Callable

COPIES = ("x-workspace/snapshots/iteration-1/x", "x-workspace/iteration-1/eval-1/with_skill/outputs/made")


@pytest.fixture
def served(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    for folder in ("x", *COPIES):
        write_skill(tmp_path, folder)
    return tmp_path


def mark(folder: Path) -> Path:
    marker = folder / NOT_A_SOURCE
    marker.write_text("{}\n")
    return marker


def test_only_a_folder_with_the_marker_is_left_out(served: Path, load: Callable[..., Library]) -> None:
    assert {skill.content.place for skill in load(served).catalog.skills} == {"x", *COPIES}
    mark(served / "x-workspace")
    assert [skill.content.place for skill in load(served).catalog.skills] == ["x"]
    assert [*find_skill_files(explicit_sources([served])[0])] == ["x/SKILL.md"]


def test_the_marker_hides_neither_a_skill_nor_a_folder_that_the_user_names(served: Path) -> None:
    mark(served / "x")
    workspace = served / "x-workspace"
    mark(workspace)
    assert [*find_skill_files(explicit_sources([served])[0])] == ["x/SKILL.md"]
    assert len([*find_skill_files(explicit_sources([workspace])[0])]) == len(COPIES)


def test_a_link_is_no_marker(served: Path) -> None:
    target = mark(served)
    (served / "x-workspace" / NOT_A_SOURCE).symlink_to(target)
    assert len([*find_skill_files(explicit_sources([served])[0])]) == 1 + len(COPIES)


@pytest.mark.parametrize("whole", [False, True])
def test_a_reload_follows_the_marker(served: Path, whole: bool) -> None:  # noqa: FBT001 - a case of the table
    loaded = load_source(explicit_sources([served])[0])
    path = f"x-workspace/{NOT_A_SOURCE}"
    marker = mark(served / "x-workspace")
    loaded = reload_source(loaded, None if whole else [path])
    assert [*loaded.contents] == ["x"]
    marker.unlink()
    loaded = reload_source(loaded, None if whole else [path])
    assert {*loaded.contents} == {"x", *COPIES}
