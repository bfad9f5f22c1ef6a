"""Commits, diffs and rollbacks of a source."""

from __future__ import annotations

import os
import shutil
import stat
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core.errors import HistoryError
from skills_core.history.history import History
from tests.core.history.folders import SKILL, history_of, read, write
from tests.thoroughness import examples

TWO = SKILL % (b"a", 2)


def edit(source: Path, skill: str = "a", content: bytes = TWO) -> None:
    (source / skill / "SKILL.md").write_bytes(content)


def causes(history: History, name: str | None = None) -> list[str]:
    return [commit.cause for commit in history.commits(name)]


def test_a_change_of_ours_is_one_commit_with_cause_trace_and_skill(source: Path, history: History) -> None:
    with history.changing(["a"], "improvement", "Use run_command", "trace-1"):
        edit(source)
    commit = history.commits("a")[0]
    assert (commit.cause, commit.message, commit.trace_id, commit.skills) == (
        "improvement",
        "Use run_command",
        "trace-1",
        ("a",),
    )
    assert datetime.fromisoformat(commit.when).utcoffset() is not None
    assert causes(history, "a") == ["improvement", "initial"]
    assert causes(history, "b") == ["initial"]


def test_what_was_edited_by_hand_before_a_change_is_a_commit_of_its_own(source: Path, history: History) -> None:
    edit(source, content=b"by hand")
    with history.changing(["a"], "improvement", "Improve"):
        edit(source)
    assert causes(history, "a") == ["improvement", "manual", "initial"]
    history.rollback("a")
    assert (source / "a" / "SKILL.md").read_bytes() == b"by hand"


def test_nothing_is_committed_if_nothing_has_changed(history: History) -> None:
    assert history.record_manual_edits() is None
    assert history.record(["a"], "fix", "nothing") is None
    assert len(history.commits()) == 1


def test_a_manual_commit_names_the_skills_that_changed(source: Path, history: History) -> None:
    edit(source)
    write(source / "group" / "c", {"SKILL.md": b"new", "x/y.txt": b""})
    (source / "shared.txt").write_text("for all")
    commit = history.record_manual_edits()
    assert commit is not None
    assert commit.skills == ("a", "group/c", "shared.txt")
    assert history.find("c") == "group/c"


def test_a_rollback_restores_bytes_modes_links_and_empty_folders(source: Path, history: History) -> None:
    skill = source / "a"
    (skill / "run.sh").write_bytes(b"#!\r\n\0\xff")
    (skill / "run.sh").chmod(0o750)
    (skill / "private").mkdir(mode=0o700)
    (skill / "link").symlink_to("SKILL.md")
    (skill / ".gitignore").write_text("*\n")
    (skill / ".gitattributes").write_text("* text=auto eol=lf\n")
    (skill / "a\nb \\ ü.txt").write_text("odd")
    os.mkdir(os.fsencode(skill) + b"/\xff")  # noqa: PTH102
    before = read(skill)
    version = history.record(["a"], "improvement", "one")
    assert version is not None
    write(skill, {"SKILL.md": TWO, "private": b"a file", "run.sh/below": b""})
    assert history.rollback("a", version.rev[:8]) is not None
    assert read(skill) == before
    assert causes(history, "a") == ["rollback", "manual", "improvement", "initial"]


def test_a_rollback_without_a_commit_undoes_the_newest_change_and_a_second_one_that(
    source: Path, history: History
) -> None:
    one = read(source)
    edit(source)
    history.record(["a"], "improvement", "two")
    two = read(source)
    history.rollback("a")
    assert read(source) == one
    history.rollback("a")
    assert read(source) == two


def test_a_rollback_to_the_present_version_changes_nothing(source: Path, history: History) -> None:
    before = read(source)
    assert history.rollback("a", history.commits()[0].rev) is None
    assert (read(source), len(history.commits())) == (before, 1)


def test_a_removed_skill_comes_back(source: Path, history: History) -> None:
    before = read(source)
    shutil.rmtree(source / "a")
    assert history.find("a") == "a"
    history.rollback("a")
    assert read(source) == before


def test_a_source_that_is_one_skill_is_rolled_back_as_a_whole(source: Path) -> None:
    history = history_of(source / "a")
    history.record_manual_edits()
    before = read(source / "a")
    edit(source)
    (source / "a" / "scripts" / "x.sh").unlink()
    assert history.find("a") == ""
    history.rollback("")
    assert read(source / "a") == before


def test_a_single_document_has_versions_too(source: Path, history: History) -> None:
    document = source / "notes.skill.md"
    document.write_text("one")
    document.chmod(0o600)
    history.record_manual_edits()
    document.write_text("two")
    document.chmod(0o644)
    history.rollback("notes.skill.md")
    assert (document.read_text(), stat.S_IMODE(document.stat().st_mode)) == ("one", 0o600)


def test_the_diff_shows_what_the_rollback_takes_back(source: Path, history: History) -> None:
    edit(source, content=b"an \x1b[31mescape\n")
    expected = ["--- a/a/SKILL.md", "+++ b/a/SKILL.md"]
    unrecorded = history.diff("a")
    assert unrecorded.splitlines()[:2] == expected
    assert "+an \\x1b[31mescape\n" in unrecorded
    history.record_manual_edits()
    assert history.diff("a") == unrecorded
    assert history.diff("b", history.commits()[-1].rev) == ""


def test_a_whole_change_of_files_is_made_at_once(source: Path, history: History) -> None:
    done = history.change("a", {"SKILL.md": TWO, "scripts/x.sh": None, "new/file.txt": b"x"}, "improvement", "m", "t")
    assert done is not None
    files = {name: content for name, (_, content) in read(source / "a").items() if content is not None}
    assert files == {"SKILL.md": TWO, "new/file.txt": b"x"}
    assert causes(history, "a") == ["improvement", "initial"]


@pytest.mark.parametrize(
    "path", ["../b/SKILL.md", "/etc/x", "a//b", "", ".git/config", ".GIT/hooks/x", "scripts", "x\0"]
)
def test_a_change_cannot_leave_the_skill(path: str, source: Path, history: History) -> None:
    before = read(source)
    with pytest.raises(HistoryError):
        history.change("a", {path: b"x"}, "improvement", "m")
    assert read(source) == before


@pytest.mark.parametrize(
    ("rev", "why"), [("beef", "no such commit"), ("abc", "at least 4"), ("--all", "no such"), ("HEAD~1", "no such")]
)
def test_an_unknown_commit_is_explained(rev: str, why: str, history: History) -> None:
    with pytest.raises(HistoryError, match=why):
        history.rollback("a", rev)


def test_the_first_version_has_none_before_it(history: History) -> None:
    with pytest.raises(HistoryError, match="no earlier version"):
        history.rollback("a")
    with pytest.raises(HistoryError, match="Did you mean 'a'"):
        history.find("aa")


def test_a_message_cannot_add_a_trailer(source: Path, history: History) -> None:
    edit(source)
    history.record(["a"], "improvement", "x\n\nCause: manual\nTrace-Id: forged", "t\nSkill: b")
    commit = history.commits("a")[0]
    assert (commit.cause, commit.skills) == ("improvement", ("a",))
    assert "forged" not in str(commit.trace_id)


names = st.sampled_from(["SKILL.md", "skill.txt", "x", "x/y", "x/z/deep.py", "é\n.md", "sp ace", ".hidden", "-rf"])
contents = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"", b"\r\n", b"a\nb\r\n", b"$Id$", b"\0"]))
versions = st.lists(
    st.tuples(st.dictionaries(names, contents, max_size=6), st.sampled_from([0o644, 0o600, 0o755, 0o444, 0o711])),
    min_size=2,
    max_size=5,
)


def can_exist(files: dict[str, bytes | None]) -> bool:
    return not any(
        content is not None and any(other.startswith(f"{name}/") for other in files) for name, content in files.items()
    )


@settings(max_examples=examples(15), deadline=None)
@given(versions=versions, left_out=st.booleans())
def test_each_version_can_be_restored_byte_for_byte(
    versions: list[tuple[dict[str, bytes | None], int]],
    left_out: bool,  # noqa: FBT001 - hypothesis chooses it
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    source = tmp_path_factory.mktemp("any") / "source"
    write(source / "other", {"SKILL.md": b"stays"})
    history = history_of(source)
    history.record_manual_edits()
    recorded = []
    for files, mode in versions:
        if can_exist(files):
            write(source / "a", files)
            for name, content in files.items():
                if content is not None:
                    (source / "a" / name).chmod(mode)
            if left_out:
                # With a file that is not recorded, the entries are replaced one by one.
                (source / "a" / ".env").write_bytes(b"secret")
            history.record(["a"], "improvement", "a version")
            recorded.append((history.commits()[0].rev, read(source)))
    for rev, expected in [*recorded, *reversed(recorded)]:
        history.rollback("a", rev)
        assert read(source) == expected
    history.close()
