"""`~` means the home directory in each command and setting, also where no shell has expanded it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from server.cli.app import app
from server.cli.serve_options import parse_plain_options
from server.config.values import home_path
from tests.conftest import write_skill
from tests.server.sessions import REPOSITORY, server_environment


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_skill(tmp_path / "home" / "skills", "review")
    return tmp_path / "home"


def run(home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a client does, without a shell."""
    environment = server_environment(HOME=str(home), USERPROFILE=str(home), **variables)
    command = [sys.executable, "-m", "server", *words]
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["status", "~/skills"],
        ["show", "review", "~/skills"],
        ["activate", "review", "~/skills"],
        ["validate", "~/skills/review"],
        ["audit", "~/skills"],
        ["catalog", "~/skills"],
        ["serve", "~/skills"],
        ["serve", "~/skills", "--port", "0"],
        ["serve", "~/skills", "--workspace", "~/skills"],
        ["serve", "~/skills", "--history", "~/skills"],
    ],
    ids=" ".join,
)
def test_a_command_expands_the_home_directory(words: list[str], home: Path) -> None:
    done = run(home, *words)
    assert done.returncode == 0, done.stderr


def test_the_folder_to_write_to_is_expanded(home: Path) -> None:
    assert run(home, "init", "other", "--to", "~/new").returncode == 0
    assert (home / "new" / "other" / "SKILL.md").is_file()


def test_a_variable_names_a_path_with_the_home_directory(home: Path) -> None:
    done = run(home, "config", "check", SKILLSERVE_WORKFLOWS="~/none.yaml")
    assert str(home / "none.yaml") in done.stdout


def test_what_does_not_exist_is_named_by_its_whole_path(home: Path) -> None:
    assert f"{home}/nothing: there is no such directory" in run(home, "status", "~/nothing").stderr
    assert f"{home}/nothing: there is no such directory" in run(home, "serve", "~/nothing").stderr
    assert f"{REPOSITORY}/nothing: there is no such directory" in run(home, "status", "nothing").stderr


def test_variables_are_left_as_they_are_and_the_error_says_so(home: Path) -> None:
    assert "variables are not replaced: write ~ or the whole path" in run(home, "status", "$HOME/skills").stderr
    write_skill(home / "$HOME", "odd")
    assert "odd" in run(home, "status", f"{home}/$HOME").stdout


def test_an_unknown_user_is_not_a_home_directory_and_not_a_crash(home: Path) -> None:
    done = run(home, "status", "~nobody-of-this-name/skills")
    assert "~nobody-of-this-name/skills: there is no such directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_command_expands_its_paths() -> None:
    def callbacks(group: typer.Typer) -> list[object]:
        own = [each.callback for each in group.registered_commands]
        inner = [each.typer_instance for each in group.registered_groups if each.typer_instance is not None]
        return [*own, *(callback for each in inner for callback in callbacks(each))]

    found = callbacks(app)
    assert len(found) > 20
    assert all(getattr(each, "__name__", "") and hasattr(each, "__wrapped__") for each in found)


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1))
def test_any_other_path_stays_as_it_is(text: str) -> None:
    if not text.startswith("~"):
        assert home_path(text) == Path(text)


@pytest.mark.skipif(sys.platform == "win32", reason="the library parses such words there")
def test_a_plain_command_line_expands_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    parsed = parse_plain_options(["~/skills", "a~b"])
    assert parsed is not None
    assert parsed[0] == [Path("/home/me/skills"), Path("a~b")]
