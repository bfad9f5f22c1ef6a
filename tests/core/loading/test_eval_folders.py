"""What looks like a skill among the eval files of a skill is an input of its tests, and is not loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core import Library
from skills_core.disk.sources import explicit_sources
from skills_core.loading.discovery import find_skill_files, load_source, reload_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def test_a_skill_among_the_eval_files_of_a_skill_is_none(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    inputs = ["a/evals/files/x", "a/evals/y", "a/Evals/z", "b/inner/evals/w"]
    for folder in ("a", "b/inner", *inputs):
        write_skill(tmp_path, folder)
    # Folders of a collection, a skill of that name, and a folder that is not directly in a skill's.
    others = ["evals/c", "deep/evals/d", "b/evals", "b/evals/e", "a/examples/evals/f"]
    for folder in others:
        write_skill(tmp_path, folder)
    library = load(tmp_path)
    paths = {skill.content.place for skill in library.catalog.skills}
    assert paths == {"a", "b/inner", *others}
    assert set(find_skill_files(explicit_sources([tmp_path])[0])) == {f"{path}/SKILL.md" for path in paths}


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_among_the_eval_files_is_settled_again_when_the_skill_comes_or_goes(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    whole: bool,  # noqa: FBT001 - a case of the table
) -> None:
    loaded = load_source(explicit_sources([tmp_path])[0])

    def places(paths: Sequence[str]) -> list[str]:
        nonlocal loaded
        loaded = reload_source(loaded, None if whole else paths)
        assert [*loaded.contents] == [*load_source(loaded.source).contents]
        return [*loaded.contents]

    write_skill(tmp_path, "a/evals/files/x")
    assert places(["a/evals/files/x/SKILL.md"]) == ["a/evals/files/x"]
    write_skill(tmp_path, "a")
    assert places(["a/SKILL.md"]) == ["a"]
    write_skill(tmp_path, "a/evals")
    assert places(["a/evals/SKILL.md"]) == ["a", "a/evals", "a/evals/files/x"]
    (tmp_path / "a" / "evals" / "SKILL.md").unlink()
    assert places(["a/evals/SKILL.md"]) == ["a"]
    (tmp_path / "a" / "SKILL.md").unlink()
    assert places(["a/SKILL.md"]) == ["a/evals/files/x"]
