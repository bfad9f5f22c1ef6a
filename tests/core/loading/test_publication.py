"""The Skills extension publishes a skill only with a complete manifest."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core import Library, Reason, Skill, State
from skills_core.disk.files import MAX_FILE_SIZE, Location, Reader
from skills_core.disk.folders import is_ignored
from skills_core.disk.scan import scan
from skills_core.disk.sources import ScanBounds, Source, explicit_sources
from skills_core.loading import discovery
from skills_core.loading.discovery import load_source
from tests.temporary import TEMPORARY
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

posix = pytest.mark.skipif(os.name == "nt", reason="links, pipes and modes are different there")

LARGE = 8 * 1024**3


def make_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(LARGE)


def make_deep(path: Path, levels: int) -> None:
    """Write a file `levels` below `path` step by step, because the whole path is too long for the system."""
    here = os.open(path.parent, os.O_RDONLY)
    name = path.name
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, name = below, "d"
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def remove_deep(path: Path) -> None:
    """Remove what `make_deep` wrote: it is nested too deep for the cleanup of pytest."""
    while (path / "d").is_dir():
        (path / "d").rename(path.with_name("below"))
        path.rmdir()
        path.with_name("below").rename(path)


def unpublished(skill: Skill) -> str:
    """Return why a skill is not published; check that it is active."""
    (why,) = [found.message for found in skill.diagnostics if found.code is Reason.NOT_PUBLISHED]
    assert not skill.content.published
    assert skill.state is State.ACTIVE
    return why


@posix
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_large, Reason.TOO_LARGE),
        (lambda path: make_deep(path, 40), Reason.SCAN_LIMIT),
        (lambda path: make_deep(path, 1000), Reason.SCAN_LIMIT),
        (os.mkfifo, Reason.SPECIAL_FILE),
        (lambda path: path.symlink_to("SKILL.md"), Reason.SYMLINK),
        (lambda path: path.symlink_to("nowhere"), Reason.SYMLINK),
        (lambda path: path.symlink_to("."), Reason.SYMLINK),
    ],
    ids=["large", "40-levels", "1000-levels", "pipe", "link", "dangling-link", "folder-link"],
)
def test_a_skill_with_an_incomplete_manifest_is_not_published_and_names_the_missing_file(
    make: Callable[[Path], None],
    reason: Reason,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    folder = write_skill(tmp_path, "a", files={"kept.md": "x"})
    make(folder / "odd")
    try:
        skill = only(load(tmp_path))
    finally:
        remove_deep(folder / "odd")
    assert "odd" in unpublished(skill)
    assert reason in unpublished(skill)
    assert reason in {found.code for found in skill.diagnostics}
    assert "kept.md" in skill.content.files


@posix
@pytest.mark.parametrize("odd", ["file", "folder"])
def test_an_unreadable_file_makes_a_manifest_incomplete_until_it_is_read(
    odd: str,
    unprivileged: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    folder = write_skill(unprivileged, "a", files={"file": "x", "folder/in": "x"})
    (folder / odd).chmod(0)
    library = load(unprivileged)
    for changed in (None, [], [folder / odd], [folder / "SKILL.md"]):
        assert odd in unpublished(only(library))
        library.reload(changed)
    assert odd in unpublished(only(library))
    (folder / odd).chmod(0o755)
    library.reload()
    assert only(library).content.published
    assert set(only(library).content.files) == {"SKILL.md", "file", "folder/in"}


@posix
def test_a_folder_never_listed_makes_the_manifest_of_a_known_skill_incomplete(
    unprivileged: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    folder = write_skill(unprivileged, "a")
    library = load(unprivileged)
    assert only(library).content.published
    (folder / "new").mkdir()
    (folder / "new" / "in").write_text("x")
    (folder / "new").chmod(0)
    for changed in ([folder / "new"], [], None, [folder / "SKILL.md"]):
        library.reload(changed)
        assert "new" in unpublished(only(library))
    (folder / "new").chmod(0o755)
    library.reload([])
    assert set(only(library).content.files) == {"SKILL.md", "new/in"}
    assert only(library).content.published


def test_a_bound_on_folders_makes_the_manifest_it_cuts_incomplete(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path, "a", files={f"{number}/file": "x" for number in range(5)})
    (skill,) = load_source(Source(tmp_path.resolve(), bounds=ScanBounds(folders=4))).contents.values()
    assert not skill.published
    (whole,) = load_source(Source(tmp_path.resolve(), bounds=ScanBounds(folders=7))).contents.values()
    assert whole.published


@posix
def test_too_many_files_make_the_manifest_incomplete(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    folder = write_skill(tmp_path, "a", files={"zz/last.md": "x"})
    for number in range(4096):
        (folder / f"{number:04}").symlink_to("SKILL.md")
    assert "zz/last.md" not in only(load(tmp_path)).content.files
    assert "and 4093 more" in unpublished(only(load(tmp_path)))


def test_ignored_names_do_not_make_a_manifest_incomplete(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    left_out = {".env": "x", ".git/config": "x", "node_modules/x/y.js": "x", "__pycache__/a.pyc": "x", "a.md~": "x"}
    write_skill(tmp_path, "a", files={"b.md": "x", "c.log": "x", **left_out})
    (tmp_path / ".gitignore").write_text("*.log\n")
    (content,) = load_source(*explicit_sources([tmp_path], gitignore=True)).contents.values()
    assert set(content.files) == {"SKILL.md", "b.md"}
    assert content.published


@posix
@pytest.mark.parametrize("place", [".gitignore", "a/.gitignore"])
def test_unreadable_ignore_rules_hide_all_they_may_hide(
    place: str, unprivileged: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(unprivileged, "a", files={"secret.log": "x", "deep/secret.log": "x"})
    (unprivileged / place).write_text("*.log\n")
    (unprivileged / place).chmod(0)
    source = explicit_sources([unprivileged], gitignore=True)
    loaded = load_source(*source)
    served = [file for content in loaded.contents.values() for file in content.files]
    assert not [file for file in served if file.endswith("secret.log")]
    assert [problem.code for problem in loaded.problems] == [Reason.PERMISSION_DENIED]
    (unprivileged / place).chmod(0o644)
    (content,) = load_source(*source).contents.values()
    assert set(content.files) == {"SKILL.md"}
    assert content.published


class Racing(Reader):
    """A reader that runs an action right after a folder was listed, or right before a file is read."""

    happens: Callable[[Location], None] = staticmethod(lambda _: None)

    def read(self, location: Location, limit: int = MAX_FILE_SIZE) -> Any:
        type(self).happens(location)
        return super().read(location, limit)

    def _handle(self, root: Path, folder: str) -> int:
        type(self).happens(Location(root, folder))
        return super()._handle(root, folder)


@posix
@pytest.mark.parametrize("path", ["b.md", "folder"])
@pytest.mark.parametrize("becomes", ["absent", "link"])
def test_an_entry_deleted_during_the_scan_is_absent_and_its_replacement_is_missing(
    path: str, becomes: str, tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_skill(tmp_path, "a", files={"b.md": "x", "folder/c.md": "x"})

    def happens(location: Location) -> None:
        if location.path == folder / path and not location.path.is_symlink() and location.path.exists():
            location.path.rename(tmp_path / "moved")
            if becomes == "link":
                location.path.symlink_to(tmp_path / "moved")

    monkeypatch.setattr(Racing, "happens", happens)
    monkeypatch.setattr(discovery, "Reader", Racing)
    monkeypatch.setattr("skills_core.disk.scan.Reader", Racing)
    (content,) = load_source(Source(tmp_path.resolve())).contents.values()
    assert not [file for file in content.files if file.startswith(path)]
    assert content.published is (becomes == "absent")


ENTRIES = st.sampled_from(["plain", "empty", "large", "link", "pipe", "hidden", "ignored", "folder", "shut-out"])
NAMES = st.text(st.characters(exclude_characters="/\0\\", codec="utf-8"), min_size=1, max_size=12).filter(
    lambda name: name not in {".", ".."} and len(name.encode()) < 200
)
TREES = st.dictionaries(NAMES, st.tuples(ENTRIES, st.lists(NAMES, max_size=4)), max_size=6)


def grow(folder: Path, tree: dict[str, tuple[str, list[str]]]) -> None:
    for name, (kind, parts) in tree.items():
        place = folder.joinpath(*parts)
        try:
            place.mkdir(parents=True, exist_ok=True)
            make(kind, place / name)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # two of them have the same place


def make(kind: str, path: Path) -> None:
    match kind:
        case "plain" | "empty":
            path.write_bytes(b"x" * (kind == "plain"))
        case "large":
            make_large(path)
        case "link":
            path.symlink_to("SKILL.md")
        case "pipe":
            os.mkfifo(path)
        case "hidden" | "ignored":
            path.with_name(f".{path.name}" if kind == "hidden" else f"{path.name}.bak").write_bytes(b"x")
        case _:
            path.mkdir()


def belonging(folder: Path, within: str = "") -> Iterator[str]:
    """Yield the entries of a folder that are not ignored, by a walk independent of the product."""
    for entry in os.scandir(folder):
        if is_ignored(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from belonging(Path(entry.path), f"{within}{entry.name}/")
        else:
            yield within + entry.name


@posix
@settings(max_examples=examples(60))
@given(tree=TREES, depth=st.integers(2, 7), folders=st.integers(3, 12))
def test_a_published_manifest_lists_all_files_of_the_folder(
    tree: dict[str, tuple[str, list[str]]], depth: int, folders: int, write_skill: Callable[..., Path]
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as place:
        root = Path(place).resolve()
        folder = write_skill(root, "a")
        grow(folder, tree)
        source = Source(root, bounds=ScanBounds(depth, folders))
        contents = load_source(source).contents
        content = contents["a"]
        complete = set(content.files) == set(belonging(folder))
        assert not content.published or complete
        # What else keeps a skill from being published does not come up in these trees.
        assert content.published or not complete or scan(source).bounded
