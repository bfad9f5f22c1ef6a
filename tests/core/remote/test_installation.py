"""The installation of a verified skill: complete or not at all, and never over other content."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from skills_core import Library, Reason
from skills_core.disk import replacement
from skills_core.errors import InstallRefusedError
from skills_core.remote.installation import ORIGIN_FILE, Installed, install

MAIN = b"---\nname: one\ndescription: Does a thing.\n---\nDo it.\n"
FILES = {"SKILL.md": MAIN, "scripts/run.sh": b"#!/bin/sh\n", "a b/\xc3\xa9\xff.bin".encode().decode(): b"\0\xff"}

put = partial(install, server="https://example.com/mcp", uri="skill://one/SKILL.md")


def tree(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, whatever their names, the record aside."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    return {name: path.read_bytes() for name, path in files.items() if path.name != ORIGIN_FILE}


def refused(root: Path, folder: str, contents: Mapping[str, bytes] = FILES, **options: Any) -> InstallRefusedError:
    """Return the refusal, after checking that it changed nothing."""
    before = {path: path.lstat().st_mtime_ns for path in root.parent.rglob("*")}
    with pytest.raises(InstallRefusedError) as caught:
        put(root, folder, contents, **options)
    after = {path: path.lstat().st_mtime_ns for path in root.parent.rglob("*")}
    assert after.keys() == before.keys()
    assert {path for path in after if after[path] != before[path] and not path.is_dir()} == set()
    return caught.value


def test_every_file_is_written_with_a_record_of_its_origin(tmp_path: Path) -> None:
    assert put(tmp_path / "new" / "skills", "one", FILES) is Installed.WRITTEN
    folder = tmp_path / "new" / "skills" / "one"
    assert tree(folder) == FILES
    record = json.loads((folder / ORIGIN_FILE).read_text(encoding="utf-8"))
    assert record["server"] == "https://example.com/mcp"
    assert record["uri"] == "skill://one/SKILL.md"
    assert record["files"].keys() == FILES.keys()
    assert [path.name for path in (tmp_path / "new" / "skills").iterdir()] == ["one"]


def test_an_installed_skill_loads_without_its_record(tmp_path: Path, load: Callable[..., Library]) -> None:
    put(tmp_path, "one", FILES)
    (skill,) = load(tmp_path).catalog.skills
    assert skill.content.files.keys() == FILES.keys()


@pytest.mark.skipif(os.name == "nt", reason="there are no executable bits")
def test_no_file_is_executable_and_folders_have_the_users_default_mode(tmp_path: Path) -> None:
    put(tmp_path, "one", FILES)
    (tmp_path / "ordinary").mkdir()
    ordinary = stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)
    for path in (tmp_path / "one").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == ordinary if path.is_dir() else not mode & 0o111
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == ordinary


def test_an_unedited_copy_is_replaced_and_an_identical_one_is_kept(tmp_path: Path) -> None:
    put(tmp_path, "one", FILES)
    written = (tmp_path / "one" / "SKILL.md").stat()
    assert put(tmp_path, "one", FILES) is Installed.UNCHANGED
    assert os.path.samestat(written, (tmp_path / "one" / "SKILL.md").stat())
    newer = {"SKILL.md": MAIN + b"More.\n", "other.md": b"x"}
    assert put(tmp_path, "one", newer) is Installed.REPLACED
    assert tree(tmp_path / "one") == newer
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_files_created_by_systems_and_interpreters_are_no_edits(tmp_path: Path) -> None:
    put(tmp_path, "one", FILES)
    cache = tmp_path / "one" / "scripts" / "__pycache__"
    cache.mkdir()
    (cache / "x.pyc").write_bytes(b"x")
    (tmp_path / "one" / ".DS_Store").write_bytes(b"x")
    assert put(tmp_path, "one", {"SKILL.md": MAIN}) is Installed.REPLACED


def swap_for_a_link(folder: Path) -> None:
    (folder / "SKILL.md").rename(folder.parent / "kept.md")
    (folder / "SKILL.md").symlink_to(folder.parent / "kept.md")


EDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "changed": (lambda folder: (folder / "SKILL.md").write_bytes(MAIN.replace(b"Do it", b"Or so")), "SKILL.md"),
    "added": (lambda folder: (folder / "notes.md").write_bytes(b""), "notes.md"),
    "added and hidden": (lambda folder: (folder / ".env").write_bytes(b""), ".env"),
    "removed": (lambda folder: (folder / "scripts" / "run.sh").unlink(), "scripts/run.sh"),
}
if os.name != "nt":  # links need a privilege there
    EDITS["turned into a link"] = (swap_for_a_link, "SKILL.md")


@pytest.mark.parametrize(("edit", "named"), list(EDITS.values()), ids=EDITS)
def test_an_edited_copy_is_replaced_only_with_force(tmp_path: Path, edit: Callable[[Path], object], named: str) -> None:
    root = tmp_path / "skills"
    put(root, "one", FILES)
    edit(root / "one")
    error = refused(root, "one", {"SKILL.md": MAIN})
    assert error.reason is Reason.EDITED_COPY
    assert named in error.message
    assert "--force" in error.message
    assert put(root, "one", {"SKILL.md": MAIN}, force=True) is Installed.REPLACED
    assert tree(root / "one") == {"SKILL.md": MAIN}


def test_a_folder_of_another_origin_is_replaced_only_with_force(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    (root / "one").mkdir(parents=True)
    (root / "one" / "mine.md").write_bytes(b"mine")
    assert refused(root, "one").reason is Reason.FOLDER_TAKEN
    put(root, "two", FILES)
    error = refused(root, "two", server="https://other.example/mcp")
    assert error.reason is Reason.FOLDER_TAKEN
    assert "https://example.com/mcp" in error.message
    assert refused(root, "two", uri="skill://x/one/SKILL.md").reason is Reason.FOLDER_TAKEN
    assert put(root, "one", FILES, force=True) is Installed.REPLACED
    assert tree(root / "one") == FILES


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "server": 1}', b"[" * 10**6])
def test_an_unreadable_record_counts_as_missing(tmp_path: Path, record: bytes) -> None:
    root = tmp_path / "skills"
    put(root, "one", FILES)
    (root / "one" / ORIGIN_FILE).write_bytes(record)
    assert refused(root, "one").reason is Reason.FOLDER_TAKEN


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_or_file_in_the_way_is_refused_even_with_force(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "skills", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "one").symlink_to(elsewhere, target_is_directory=True)
    (root / "acme").symlink_to(elsewhere, target_is_directory=True)
    (root / "file").write_bytes(b"")
    for folder in ("one", "acme/one", "file", "file/one"):
        assert refused(root, folder, force=True).reason is Reason.FOLDER_TAKEN
    assert list(elsewhere.iterdir()) == []


def test_no_skill_is_written_into_the_folder_of_another_one(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    put(root, "acme", FILES)
    assert refused(root, "acme/one").reason is Reason.FOLDER_TAKEN
    put(root, "corp/one", FILES)
    assert refused(root, "corp").reason is Reason.FOLDER_TAKEN


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a\\..\\x", ".git/config", ORIGIN_FILE, "", "skill.md"])
def test_an_unsafe_path_is_refused_before_anything_is_written(tmp_path: Path, path: str) -> None:
    root = tmp_path / "skills"
    root.mkdir()
    error = refused(root, "one", {"SKILL.md": MAIN, path: b"x"})
    assert error.reason in {Reason.UNSUPPORTED_NAME, Reason.NAME_COLLISION}
    assert refused(root, "../one").reason is Reason.UNSUPPORTED_NAME


@pytest.mark.parametrize("fails", ["write", "rename"])
def test_a_failed_installation_leaves_everything_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    root = tmp_path / "skills"
    put(root, "acme/one", FILES)
    rename, opened = Path.rename, Path.open

    def failing_rename(self: Path, target: Path) -> Path:
        if fails == "rename" and target.name in {"one", "two"} and not self.name.endswith("-before"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    def failing_open(self: Path, *args: Any, **options: Any) -> Any:
        if fails == "write" and self.name == "last.md":
            raise OSError(28, "No space left on device")
        return opened(self, *args, **options)

    monkeypatch.setattr(replacement, "_system_exchange", lambda: None)
    monkeypatch.setattr(Path, "rename", failing_rename)
    monkeypatch.setattr(Path, "open", failing_open)
    newer = {**FILES, "last.md": b"x"}
    for folder in ("acme/one", "new/er/two"):
        error = refused(root, folder, newer)
        assert error.reason is Reason.UNWRITABLE
        assert "no space left" in error.message
    assert tree(root) == {f"acme/one/{path}": raw for path, raw in FILES.items()}
