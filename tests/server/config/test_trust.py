"""Projects that are trusted, and servers that are told of no directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from server.cli.commands.config import trust
from server.config.machine import Machine, TrustError, TrustFile, current_places
from tests.conftest import write_skill
from tests.server.sessions import REPOSITORY, server_environment

posix = pytest.mark.skipif(os.name == "nt", reason="the user's folders are found from other variables there")


@pytest.fixture
def file(tmp_path: Path) -> TrustFile:
    return TrustFile(tmp_path / "config" / "trusted.json")


def test_a_folder_is_trusted_until_it_is_removed(file: TrustFile, tmp_path: Path) -> None:
    assert file.folders() == ()
    file.add(tmp_path)
    file.add(tmp_path / ".." / tmp_path.name)
    assert file.folders() == (tmp_path.resolve(),)
    assert not file.remove(tmp_path / "other")
    assert file.remove(tmp_path)
    assert file.folders() == ()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 2, "trusted": []}', '{"version": 1, "trusted": [1]}'])
def test_a_file_that_is_no_such_list_is_told_of_and_never_overwritten(
    text: str, file: TrustFile, tmp_path: Path
) -> None:
    file.path.parent.mkdir()
    file.path.write_text(text)
    with pytest.raises(TrustError):
        file.folders()
    with pytest.raises(TrustError):
        file.add(tmp_path)
    assert file.path.read_text() == text


def test_of_projects_that_are_trusted_at_the_same_time_none_is_lost(file: TrustFile, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from server.config.machine import TrustFile; sys.stdin.readline();"
        "[TrustFile(Path(sys.argv[1])).add(Path(each)) for each in sys.argv[2:]]"
    )
    folders = [[str(tmp_path / f"{process}-{number}") for number in range(5)] for process in range(4)]
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(file.path), *each], stdin=subprocess.PIPE, cwd=REPOSITORY)
        for each in folders
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0] * 4
    assert {str(folder) for folder in file.folders()} == {
        str(Path(each).resolve()) for some in folders for each in some
    }


@posix
def test_a_list_that_is_a_link_stays_one_and_one_that_is_no_file_is_told_of(file: TrustFile, tmp_path: Path) -> None:
    file.path.parent.mkdir()
    (tmp_path / "elsewhere").write_text('{"version": 1, "trusted": []}')
    file.path.symlink_to(tmp_path / "elsewhere")
    file.add(tmp_path)
    assert file.path.is_symlink()
    assert file.folders() == (tmp_path.resolve(),)
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(TrustError, match="not a regular file"):
        file.folders()


@pytest.fixture
def user(tmp_path: Path) -> dict[str, Path]:
    """A user with a skill, in a project with another one."""
    home, project = tmp_path.resolve() / "home", tmp_path.resolve() / "project"
    write_skill(home / ".agents" / "skills", "mine")
    write_skill(project / ".agents" / "skills", "theirs")
    (project / ".git").mkdir()
    (project / "sub").mkdir()
    return {"home": home, "project": project}


def run(user: dict[str, Path], *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = server_environment(HOME=str(user["home"]))
    environment.pop("XDG_CONFIG_HOME", None)
    return subprocess.run(
        [sys.executable, "-m", "server", *arguments],
        cwd=user["project"] / "sub",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def states(user: dict[str, Path], *flags: str) -> dict[str, Any]:
    answer = run(user, "status", "--json", *flags)
    assert answer.returncode == 0, answer.stderr
    return {skill["name"]: (skill["state"], skill["reason"]) for skill in brought(answer.stdout)}


def brought(status: str) -> list[dict[str, Any]]:
    """Return the skills that did not come with the product."""
    return [skill for skill in json.loads(status)["skills"] if skill["scope"] != "bundled"]


@posix
def test_a_projects_skills_are_served_once_it_is_trusted(user: dict[str, Path]) -> None:
    assert states(user) == {"mine": ("active", None), "theirs": ("excluded", "untrusted_project")}
    assert states(user, "--trust-workspace")["theirs"] == ("active", None)
    assert run(user, "trust").stdout == f"trusted: {user['project']}\n"
    assert run(user, "trust", "--list").stdout == f"{user['project']}\n"
    assert states(user)["theirs"] == ("active", None)
    assert run(user, "trust", "--remove").returncode == 0
    assert run(user, "trust", "--remove").returncode == 1
    assert states(user)["theirs"] == ("excluded", "untrusted_project")


@posix
def test_a_directory_that_is_named_needs_no_trust(user: dict[str, Path]) -> None:
    assert states(user, str(user["project"] / ".agents" / "skills")) == {"theirs": ("active", None)}


@posix
def test_trusting_what_is_no_directory_is_wrong_use(user: dict[str, Path]) -> None:
    assert run(user, "trust", "absent").returncode == 2


@posix
def test_a_list_that_cannot_be_read_trusts_nothing_and_is_told_of(user: dict[str, Path]) -> None:
    run(user, "trust")
    (user["home"] / ".config" / "skillserve" / "trusted.json").write_text("{")
    answer = run(user, "status")
    assert "untrusted_project" in answer.stdout + answer.stderr
    assert "trusted.json" in answer.stdout + answer.stderr


@posix
def test_commands_work_where_the_working_directory_is_gone(user: dict[str, Path], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    environment = server_environment(HOME=str(user["home"]))
    command = f"rmdir {gone}; exec {sys.executable} -m server status --json"
    answer = subprocess.run(
        ["sh", "-c", command], cwd=gone, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert [skill["name"] for skill in brought(answer.stdout)] == ["mine"]


@posix
def test_a_home_that_is_a_link_and_kept_in_git_is_no_project_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "disk" / "user" / "downloads"
    here.mkdir(parents=True)
    (here.parent / ".git").mkdir()
    (tmp_path / "home").symlink_to(here.parent)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(here)
    trust()
    machine = Machine(current_places())
    assert machine.trust.folders() == (here.resolve(),)
    assert machine.trusts_project()


@posix
def test_what_is_trusted_is_shown_without_what_moves_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "\x1b]0;title\x07\u202ename"
    folder.mkdir()
    told: list[str] = []
    monkeypatch.setattr("server.cli.commands.config.print_text", told.append)
    trust(folder)
    trust(as_list=True)
    trust(folder, remove=True)
    shown = str(tmp_path.resolve() / "\\x1b]0;title\\x07\\u202ename")
    assert told == [f"trusted: {shown}", shown, f"no longer trusted: {shown}"]
    with pytest.raises(SystemExit):
        trust(folder, remove=True)
    assert capsys.readouterr().err.startswith(f"skillserve: {shown} is not trusted")
