"""Sources that someone else has written, repositories of the user, and programs that write at the same time."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from skills_core.disk import files
from skills_core.disk.files import MAX_FILE_SIZE
from skills_core.errors import HistoryError
from skills_core.history import changes
from skills_core.history.changes import write_state as write_state_to_disk
from skills_core.history.history import History
from skills_core.history.store import existing_histories, move_history, open_history, work_tree_of
from skills_core.history.versions import is_left_out
from tests.core.history.folders import SKILL, history_of, read, write

needs_links = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


@needs_links
@pytest.mark.parametrize("name", ["SKILL.md", "scripts", ""])
def test_a_rollback_never_writes_through_a_link(name: str, source: Path, history: History) -> None:
    outside = source.parent / "outside"
    write(outside, {"SKILL.md": b"of another", "x.sh": b"of another"})
    before, others = read(source), read(outside)
    place = source / "a" / name if name else source / "a"
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(outside / "SKILL.md" if name == "SKILL.md" else outside)
    history.rollback("a", history.commits()[-1].rev)
    assert read(outside) == others
    assert read(source) == before


@needs_links
def test_a_folder_above_a_skill_that_became_a_link_is_refused(source: Path) -> None:
    write(source / "group" / "c", {"SKILL.md": b"1"})
    history = history_of(source)
    history.record_manual_edits()
    outside = source.parent / "outside"
    shutil.move(source / "group", outside)
    (source / "group").symlink_to(outside)
    with pytest.raises(HistoryError):
        history.rollback("group/c", history.commits()[-1].rev)
    assert (outside / "c" / "SKILL.md").read_bytes() == b"1"


@needs_links
def test_the_target_of_a_link_is_not_read(source: Path, history: History) -> None:
    (source.parent / "secret").write_text("the secret")
    (source / "a" / "link").symlink_to("../../secret")
    history.record_manual_edits()
    (source / "a" / "link").unlink()
    assert "the secret" not in history.diff("a")
    history.rollback("a")
    assert str((source / "a" / "link").readlink()) == "../../secret"


def test_a_repository_in_a_skill_is_left_alone(source: Path, history: History) -> None:
    """Neither its hooks and settings nor its work tree count; without the setting, it is not recorded at all."""
    skill = source / "cloned"
    write(
        skill, {"SKILL.md": b"1", ".git/config": b"[core]\n\thooksPath = .\n", ".git/hooks/post-commit": b"#!/bin/sh\n"}
    )
    assert history.record_manual_edits() is None
    told = open_history(source, source.parent / "state", work_trees=True)
    first = told.record_manual_edits()
    assert first is not None
    (skill / "SKILL.md").write_bytes(b"2")
    before = read(skill / ".git")
    told.rollback("cloned")
    assert (skill / "SKILL.md").read_bytes() == b"1"
    assert read(skill / ".git") == before
    told.close()


@pytest.mark.parametrize(
    "name", [".git", ".GIT", ".Git", "git~1", ".g\u200cit", ".git ", ".git.", ".env", ".env.local"]
)
def test_names_that_are_never_recorded(name: str) -> None:
    assert is_left_out(name)


@pytest.mark.parametrize("name", ["SKILL.md", ".gitignore", ".gitattributes", "git", ".github", "env", "a.env.md"])
def test_names_that_are_recorded(name: str) -> None:
    assert not is_left_out(name)


def test_what_is_not_recorded_is_neither_overwritten_nor_removed(source: Path, history: History) -> None:
    skill = source / "a"
    (skill / "data").write_bytes(b"small")
    history.record_manual_edits()
    version = history.commits()[0].rev
    (skill / "data").write_bytes(b"\0" * (MAX_FILE_SIZE + 1))
    (skill / "node_modules").mkdir()
    (skill / "node_modules" / "x.js").write_text("x")
    (skill / "SKILL.md").write_bytes(b"new")
    with pytest.raises(HistoryError, match=r"data: the file has .* bytes"):
        history.rollback("a", version)
    assert (skill / "SKILL.md").read_bytes() == b"new"
    (skill / "data").unlink()
    history.rollback("a", version)
    assert (skill / "node_modules" / "x.js").read_text() == "x"
    assert (skill / "data").read_bytes() == b"small"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no such files")
def test_a_special_file_does_not_block(source: Path, history: History) -> None:
    os.mkfifo(source / "a" / "pipe")
    (source / "a" / "SKILL.md").write_bytes(b"new")
    history.rollback("a")
    assert stat.S_ISFIFO((source / "a" / "pipe").stat().st_mode)
    assert b"Step 1." in (source / "a" / "SKILL.md").read_bytes()


def test_names_that_differ_in_case_alone_are_files_of_their_own(source: Path, history: History) -> None:
    (source / "a" / "SKILL.md").rename(source / "a" / "Skill.md")
    before = read(source)
    version = history.record_manual_edits()
    assert version is not None
    history.rollback("a")
    history.rollback("a", version.rev)
    assert read(source) == before


@pytest.mark.parametrize("kind", ["folder", "file", "above", "bare", "damaged"])
def test_a_repository_of_the_user_is_found(kind: str, tmp_path: Path) -> None:
    source = tmp_path / "repository" / "skills"
    source.mkdir(parents=True)
    place = {"above": source.parent, "bare": source.parent}.get(kind, source)
    if kind == "file":
        (place / ".git").write_text("gitdir: ../elsewhere\n")
    elif kind == "bare":
        write(place, {"HEAD": b"", "objects": None, "refs": None, "skills": None})
    else:
        (place / ".git").mkdir()
    assert work_tree_of(source) == place
    with pytest.raises(HistoryError, match="git repository"):
        open_history(source, tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_folder_that_contains_its_own_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="contains its own history"):
        open_history(tmp_path, tmp_path / "state")


def test_a_repository_that_was_not_completed_is_made_anew(source: Path) -> None:
    history = history_of(source)
    history.close()
    begun = history.repository.rename(history.repository.with_name("repository.git.0123456789abcdef"))
    (begun / "HEAD").unlink()
    with history_of(source) as again:
        assert again.record_manual_edits() is not None
    assert not begun.exists()


def test_settings_and_hooks_of_git_have_no_effect(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    hook = b"#!/bin/sh\ntouch %s\n" % os.fsencode(tmp_path / "ran")
    write(
        home, {".gitconfig": b"[core]\n\tautocrlf = true\n\thooksPath = %s\n" % os.fsencode(home), "post-commit": hook}
    )
    (home / "post-commit").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    (source / "a" / "x.txt").write_bytes(b"one\r\ntwo\n")
    (source / "a" / ".gitattributes").write_text("*.txt text eol=crlf filter=evil\n")
    history = history_of(source)
    history.record_manual_edits()
    before = read(source)
    for place in (home, history.repository / "hooks"):
        place.mkdir(exist_ok=True)
        (place / "reference-transaction").write_bytes(hook)
        (place / "reference-transaction").chmod(0o755)
    (source / "a" / "x.txt").write_bytes(b"changed")
    history.rollback("a")
    assert read(source) == before
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_itself_can_read_the_history(source: Path, history: History) -> None:
    (source / "a" / "empty").mkdir(mode=0o700)
    history.record_manual_edits()
    git = ["git", f"--git-dir={history.repository}"]
    checked = subprocess.run([*git, "fsck", "--strict"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr.strip()) == (0, ""), checked.stderr
    shown = subprocess.run([*git, "show", "main:a/SKILL.md"], capture_output=True, check=True)
    assert shown.stdout == SKILL % (b"a", 1)
    subprocess.run([*git, "gc", "--quiet", "--prune=now"], check=True)
    before = read(source)
    (source / "a" / "SKILL.md").write_bytes(b"new")
    with history_of(source) as again:
        assert again.rollback("a") is not None
        assert len(again.commits()) == 4
    assert read(source) == before


def test_changes_of_several_threads_are_all_recorded(source: Path) -> None:
    for number in range(6):
        write(source / f"s{number}", {"SKILL.md": b"0"})
    history_of(source).record_manual_edits()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with history_of(source) as own:
                own.change(f"s{number}", {"SKILL.md": b"1"}, "improvement", "m", f"t{number}")
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with history_of(source) as history:
        found = history.commits()
        assert sorted(str(each.trace_id) for each in found if each.cause == "improvement") == [
            f"t{n}" for n in range(6)
        ]
        assert history.record_manual_edits() is None


@pytest.mark.parametrize("unrecorded", [False, True])
def test_an_edit_that_is_saved_during_a_rollback_is_not_lost(
    unrecorded: bool,  # noqa: FBT001 - a parameter
    source: Path,
    history: History,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the folder is exchanged or its entries are replaced, the edit is in the history or still on disk."""
    if unrecorded:
        (source / "a" / ".env").write_text("keeps the folder from being exchanged")
    (source / "a" / "SKILL.md").write_bytes(b"new")
    history.record_manual_edits()
    real: Callable[..., None] = write_state_to_disk
    edits = iter([b"saved by an editor"])

    def write_state(*arguments: object) -> None:
        for text in edits:
            (source / "a" / "scripts" / "x.sh").write_bytes(text)
            (source / "a" / "late.txt").write_bytes(text)
        real(*arguments)

    monkeypatch.setattr(changes, "write_state", write_state)
    history.rollback("a", history.commits()[-1].rev)
    assert b"Step 1." in (source / "a" / "SKILL.md").read_bytes()
    versions = [history.diff("a", commit.rev) for commit in history.commits("a")]
    on_disk = (source / "a" / "late.txt").exists()
    assert on_disk or any("saved by an editor" in diff for diff in versions)
    assert history.record_manual_edits() is None


@pytest.mark.parametrize("missing", ["handles", "exchange"])
def test_a_rollback_works_on_systems_that_have_less(
    missing: str, source: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "handles":
        monkeypatch.setattr(files, "_HANDLES", False)
    else:
        monkeypatch.setattr(changes, "exchange_within", lambda *_: False)
    before = read(source)
    (source / "a" / "SKILL.md").write_bytes(b"new")
    shutil.rmtree(source / "a" / "scripts")
    history.rollback("a")
    assert {path: content for path, (_, content) in read(source).items()} == {
        path: content for path, (_, content) in before.items()
    }
    shutil.rmtree(source / "a")
    history.rollback("a")
    assert read(source).keys() == before.keys()


def test_a_write_that_fails_leaves_the_old_version(
    source: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "a" / ".env").write_text("keeps the folder from being exchanged")
    (source / "a" / "SKILL.md").write_bytes(b"new")
    (source / "a" / "scripts" / "x.sh").write_bytes(b"new")
    history.record_manual_edits()
    before, count = read(source), len(history.commits())
    real: Callable[..., None] = os.replace
    failures = iter([None, OSError(28, "No space left on device")])

    def replace(old: str, new: str, **more: int) -> None:
        if str(new).endswith(("SKILL.md", "x.sh")) and (error := next(failures, None)) is not None:
            raise error
        real(old, new, **more)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(HistoryError, match="no space left"):
        history.rollback("a", history.commits()[-1].rev)
    assert (read(source), len(history.commits())) == (before, count)


def test_a_damaged_history_says_so(source: Path, history: History) -> None:
    head = history.commits()[0].rev
    place = history.repository / "objects" / head[:2] / head[2:]
    place.chmod(0o600)
    place.write_bytes(b"")
    with history_of(source) as again, pytest.raises(HistoryError, match="damaged"):
        again.commits()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_the_folder_of_histories_is_private_even_if_it_was_not(source: Path, history: History) -> None:
    folder = history.repository.parent
    for place in (folder, folder.parent):
        place.chmod(0o777)
    history_of(source).close()
    assert [stat.S_IMODE(place.stat().st_mode) for place in (folder, folder.parent)] == [0o700, 0o700]


def test_a_history_follows_a_source_that_was_moved(source: Path, history: History) -> None:
    state, moved = source.parent / "state", source.parent / "moved"
    source.rename(moved)
    with pytest.raises(HistoryError, match="no history"):
        open_history(moved, state, create=False)
    move_history(source, moved, state)
    assert [*existing_histories(state)] == [moved]
    (moved / "a" / "SKILL.md").write_bytes(b"new")
    with history_of(moved) as again:
        assert again.rollback("a") is not None
    write(source, {})
    history_of(source).close()
    with pytest.raises(HistoryError, match="would be lost"):
        move_history(moved, source, state)
    assert history.repository.name == "repository.git"
