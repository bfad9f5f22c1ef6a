"""The commands `history` and `rollback`, and the commands that record what they change."""

from __future__ import annotations

import shutil
import stat
from datetime import datetime
from pathlib import Path

import pytest

from server.capabilities.evals.triggers.trigger_test import apply_description
from server.capabilities.history.histories import recorded_change
from tests.capabilities.history.helpers import commits, run, write_skill

ON = {"SKILLSERVE_HISTORY": "explicit"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_skill(tmp_path / "source", "deploy")
    return tmp_path / "source"


def test_history_and_rollback_by_name(source: Path, tmp_path: Path) -> None:
    assert [each["cause"] for each in commits(tmp_path, "deploy", source, **ON)] == ["initial"]
    main = source / "deploy" / "SKILL.md"
    before = main.read_bytes()
    write_skill(source, "deploy", 2)
    newest, first = commits(tmp_path, "deploy", source, **ON)
    assert {"rev", "when", "cause", "message"} <= newest.keys()
    assert (newest["cause"], first["cause"]) == ("manual", "initial")
    assert datetime.fromisoformat(newest["when"]).utcoffset() is not None
    shown = run(tmp_path, "history", "diff", "deploy", source, **ON)
    assert "-Step 1.\n+Step 2.\n" in shown.stdout
    done = run(tmp_path, "rollback", "deploy", first["rev"][:7], source, **ON)
    assert (done.returncode, "rollback" in done.stdout) == (0, True)
    assert main.read_bytes() == before
    # What was recorded stays readable when the setting is gone.
    assert [each["cause"] for each in commits(tmp_path, "deploy", source)] == ["rollback", "manual", "initial"]
    assert run(tmp_path, "rollback", "deploy", source).returncode == 0
    assert b"Step 2." in main.read_bytes()


def test_without_the_setting_there_is_no_history(source: Path, tmp_path: Path) -> None:
    for command in (["history", "deploy"], ["rollback", "deploy"], ["history", "diff", "deploy"], ["history"]):
        where = [f"./{source.name}"] if command == ["history"] else [str(source)]
        done = run(tmp_path, *command, *where, SKILLSERVE_HISTORY_AUTOMATIC="false")
        assert (done.returncode, done.stdout) == (1, "")
        assert "history.sources" in done.stderr
    assert not (tmp_path / "xdg_state_home" / "skillserve" / "history").exists()


def test_the_history_of_a_folder_begins_when_it_is_asked_for(source: Path, tmp_path: Path) -> None:
    assert run(tmp_path, "history", f"./{source.name}").returncode == 1
    assert [each["cause"] for each in commits(tmp_path, "deploy", source)] == ["initial"]
    (source / "deploy" / "SKILL.md").write_text("broken")
    assert run(tmp_path, "rollback", "deploy", source).returncode == 0
    assert [each["cause"] for each in commits(tmp_path, "deploy", source)] == ["rollback", "manual", "initial"]


def test_errors_say_what_was_expected(source: Path, tmp_path: Path) -> None:
    commits(tmp_path, "deploy", source, **ON)
    for arguments, code, text in (
        (["rollback", "deploy", "nonsense"], 2, "at least 4 of its digits"),
        (["rollback", "deploy", ""], 2, "at least 4 of its digits"),
        (["rollback", "deploy", "beef", source], 1, "there is no such commit"),
        (["rollback", "deploy", source], 1, "no earlier version"),
        (["history", "depoy", source], 1, "Did you mean 'deploy'"),
        (["history", "move", "nowhere", source], 1, "no history is kept of this folder"),
    ):
        done = run(tmp_path, *arguments, **ON)
        assert (done.returncode, text in done.stderr) == (code, True), done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_removed_skill_and_a_moved_source(source: Path, tmp_path: Path) -> None:
    commits(tmp_path, "deploy", source, **ON)
    shutil.rmtree(source / "deploy")
    assert run(tmp_path, "rollback", "deploy", source, **ON).returncode == 0
    moved = source.rename(tmp_path / "moved")
    assert run(tmp_path, "history", "move", source, moved).returncode == 0
    assert [each["cause"] for each in commits(tmp_path, "deploy", moved)] == ["rollback", "manual", "initial"]
    assert [each["source"] for each in commits(tmp_path, "./moved")] == [str(moved)] * 3


def test_a_restored_version_that_is_not_valid_is_reported(source: Path, tmp_path: Path) -> None:
    main = write_skill(source, "deploy")
    good = main.read_bytes()
    main.write_bytes(b"no frontmatter")
    commits(tmp_path, source, **ON)
    main.write_bytes(good)
    done = run(tmp_path, "rollback", "deploy", source, **ON)
    assert (done.returncode, main.read_bytes()) == (0, b"no frontmatter")
    assert "the restored version is not valid: " in done.stderr
    assert "not valid" not in run(tmp_path, "rollback", "deploy", source, **ON).stderr


def test_commits_of_several_sources_name_them(source: Path, tmp_path: Path) -> None:
    write_skill(tmp_path / "other", "deploy")
    lines = run(tmp_path, "history", source, tmp_path / "other", **ON).stdout.splitlines()
    assert sorted(line.split()[-1] for line in lines) == [str(tmp_path / "other"), str(source)]


def test_the_users_own_repository_is_never_written_and_its_folder_only_if_told(source: Path, tmp_path: Path) -> None:
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    for command in (["history", "deploy", source], ["rollback", "deploy", source]):
        done = run(tmp_path, *command, **ON)
        assert (done.returncode, "git repository" in done.stderr) == (1, True)
    told = {**ON, "SKILLSERVE_HISTORY_WORK_TREES": "true"}
    write_skill(source, "deploy", 2)
    assert len(commits(tmp_path, "deploy", source, **told)) == 1
    assert [each.name for each in git.iterdir()] == ["HEAD"]
    # Untold again, the history can be read, but nothing is written.
    assert len(commits(tmp_path, "deploy", source)) == 1
    write_skill(source, "deploy", 3)
    assert run(tmp_path, "rollback", "deploy", source).returncode == 1
    assert b"Step 3." in (source / "deploy" / "SKILL.md").read_bytes()


def test_init_and_validate_record_what_they_change(tmp_path: Path) -> None:
    config = tmp_path / "xdg_config_home" / "skillserve"
    config.mkdir(parents=True)
    (config / "skillserve.toml").write_text('[history]\nsources = ["../../source"]\n')
    source = tmp_path / "source"
    source.mkdir()
    assert run(tmp_path, "init", "fresh", "--to", source).returncode == 0
    assert [each["cause"] for each in commits(tmp_path, "fresh", source)] == ["init"]
    broken = "---\nname: Other Name\ndescription: Does it: well. Use when asked.\n---\nx\n"
    (source / "fresh" / "SKILL.md").write_text(broken)
    assert run(tmp_path, "validate", "--fix", source / "fresh").returncode == 0
    assert [each["cause"] for each in commits(tmp_path, "fresh", source)] == ["validate-fix", "manual", "init"]
    run(tmp_path, "rollback", "fresh", source)
    assert (source / "fresh" / "SKILL.md").read_text() == broken
    assert run(tmp_path, "init", "elsewhere", "--to", tmp_path / "other").returncode == 0


def test_the_state_is_for_this_user_alone(source: Path, tmp_path: Path) -> None:
    commits(tmp_path, "deploy", source, **ON)
    top = tmp_path / "xdg_state_home" / "skillserve" / "history"
    for folder in (top, *top.iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.fixture
def here(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The source, which has a history by the settings of this process."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("SKILLSERVE_HISTORY", str(source))
    monkeypatch.chdir(tmp_path)
    return source


def test_a_description_that_is_applied_is_recorded(here: Path, tmp_path: Path) -> None:
    found = {
        "description": "Does a thing. Use when asked.",
        "decision": {"adopted": True, "description": "Does more. Use when asked."},
    }
    apply_description(here / "deploy", found)
    assert [each["cause"] for each in commits(tmp_path, "deploy", here)] == ["description", "initial"]


def test_a_change_that_fails_is_recorded_as_what_it_left(here: Path, tmp_path: Path) -> None:
    def fail_halfway() -> None:
        with recorded_change([here / "deploy"], "improvement", "m"):
            write_skill(here, "deploy", 2)
            raise RuntimeError("stopped halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        fail_halfway()
    on = {"SKILLSERVE_HISTORY": str(here)}
    assert [each["cause"] for each in commits(tmp_path, "deploy", here, **on)] == ["manual", "initial"]


def test_a_change_of_ours_carries_trace_and_cause(here: Path, tmp_path: Path) -> None:
    with recorded_change([here / "deploy"], "improvement", "Name the right tool", "run-7"):
        write_skill(here, "deploy", 2)
    found = commits(tmp_path, "deploy", here)
    assert [(each["cause"], each["trace_id"]) for each in found] == [("improvement", "run-7"), ("initial", None)]
