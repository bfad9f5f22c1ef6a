"""A source that is loaded while it is scanned: at the end it is as if loaded at once, and no part has more."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skills_core.disk.sources import ScanBounds, SkillKind, Source
from skills_core.disk.tree import Tree
from skills_core.loading.discovery import LoadedSource, load_in_parts, load_source, reload_in_parts, reload_source

NAMES = ("a", "b", "a-b", "evals", "Evals", "references", ".skills", ".git", "dist", "node_modules", "z")
FILES = ("SKILL.md", "SKILL.md", "skill.md", "notes.md", "one.skill.md", "AGENTS.md", "data.txt", "x.bak", ".gitignore")
TEXTS = {
    ".gitignore": ("z\n", "*.txt\n!a\n", "a/\n"),
    "data.txt": ("some data",),
}
SKILLS = (
    "---\nname: a\ndescription: Does it.\n---\nDo it.\n",
    "---\nname: other\ndescription: Does it.\nreferences: [b/data.txt, a/notes.md]\n---\nDo it.\n",
    "No frontmatter.\n",
    "---\nname: [\n---\n",
)


@pytest.fixture(params=range(24))
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)  # noqa: S311 - for folders


def grow(folder: Path, chance: random.Random, root: Path, depth: int = 0) -> None:
    """Fill a folder with files, links and folders."""
    folder.mkdir()
    for name in chance.sample(FILES, chance.randrange(4)):
        (folder / name).write_text(chance.choice(TEXTS.get(name, SKILLS)))
    for name in chance.sample(NAMES, chance.randrange(1, 5)) if depth < 4 else ():
        if chance.random() < 0.8:
            grow(folder / name, chance, root, depth + 1)
        else:
            targets = [
                each for each in (*root.rglob("*"), root.parent / "nowhere", root.parent) if each != folder / name
            ]
            (folder / name).symlink_to(chance.choice(targets))


def sources(root: Path) -> Iterator[Source]:
    plain = Source(root)
    yield from (plain, replace(plain, kinds=frozenset(SkillKind)), replace(plain, gitignore=True))
    yield replace(plain, kinds=frozenset(SkillKind), follow_symlinks=True)
    yield replace(plain, bounds=ScanBounds(depth=2), kinds=frozenset(SkillKind))
    yield replace(plain, below=("*", "a"))


def parts_of(source: Source, *, main_only: bool) -> tuple[list[LoadedSource], LoadedSource]:
    *parts, last = (part.source() for part in load_in_parts(source, main_only=main_only))
    assert not any(part.complete for part in parts)
    return parts, last


@pytest.mark.parametrize("main_only", [False, True])
def test_parts_lead_to_what_a_load_at_once_has(chance: random.Random, tmp_path: Path, *, main_only: bool) -> None:
    grow(tmp_path / "root", chance, tmp_path / "root")
    for source in sources(tmp_path / "root"):
        parts, last = parts_of(source, main_only=main_only)
        # As one that was empty, a source is loaded after a scan of all folders.
        assert last == reload_source(LoadedSource(source, Tree(), main_only=main_only))
        for before, after in itertools.pairwise((*parts, last)):
            assert before.contents.items() <= after.contents.items()
            assert before.documents.items() <= after.documents.items()
            assert before.texts.items() <= after.texts.items()


def test_a_comparison_loads_a_folder_after_all_below_it_and_nothing_in_between(
    chance: random.Random, tmp_path: Path
) -> None:
    grow(tmp_path / "root", chance, tmp_path / "root")
    loaded = load_source(Source(tmp_path / "root"))
    for path in (tmp_path / "root").rglob("*"):
        if path.is_file():
            os.utime(path)
    folders = [part.folder for part in reload_in_parts(loaded) if part.folder is not None]
    for number, folder in enumerate(folders):
        below = [each for each in folders if folder != each and (not folder or each.startswith(f"{folder}/"))]
        assert sorted(folders[number - len(below) : number]) == sorted(below)


def test_a_bound_leaves_out_the_deepest_folders_at_the_end(chance: random.Random, tmp_path: Path) -> None:
    grow(tmp_path / "root", chance, tmp_path / "root")
    for bounds in (ScanBounds(folders=5), ScanBounds(entries=12)):
        source = Source(tmp_path / "root", bounds=bounds)
        assert parts_of(source, main_only=False)[1] == reload_source(LoadedSource(source, Tree()))


def test_a_skill_is_there_before_the_whole_source_is_scanned(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"skill-{number:02}").mkdir()
        (tmp_path / f"skill-{number:02}" / "SKILL.md").write_text(SKILLS[0])
    first = next(load_in_parts(Source(tmp_path))).source()
    assert [*first.contents] == ["skill-00"]
    assert first.tree.keys() == {"", "skill-00"}


def test_a_source_that_may_not_be_read_has_one_empty_part(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(SKILLS[0])
    source = Source(tmp_path, barred=True)
    assert parts_of(source, main_only=False) == ([], load_source(source))
