"""Completion in shells: the commands, and names of skills and clients; a shell evaluates what it is given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import write_skill
from tests.server.sessions import REPOSITORY, server_environment

pytestmark = pytest.mark.skipif(os.name == "nt", reason="shells of other systems")

HOSTILE = ("po$(touch pwned)", "po`touch pwned`", "po;touch pwned", "po touch", "-po", "po'x", 'po"x', "po*", "po\\x")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with skills, some with names that mean something to a shell."""
    folder = tmp_path / ".agents/skills"
    write_skill(folder, "postmortem")
    write_skill(folder, "other")
    for number, name in enumerate(HOSTILE):
        quoted = name.replace("'", "''")
        write_skill(folder, f"hostile-{number}", fields="").joinpath("SKILL.md").write_text(
            f"---\nname: '{quoted}'\ndescription: Does $(touch pwned) things.\n---\nBody.\n"
        )
    return tmp_path


def environment(home: Path, **more: str) -> dict[str, str]:
    own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "XDG_STATE_HOME": str(home / "state")}
    return server_environment(**own, **more)


def completed(home: Path, line: str, shell: str = "bash") -> list[str]:
    """Return what the program answers to the completion script of a shell."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = subprocess.run(
        [sys.executable, "-m", "server"],
        cwd=home,
        env=environment(home, _SKILLSERVE_COMPLETE=f"complete_{shell}", PYTHONPATH=str(REPOSITORY), **asked),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def test_commands_and_options_are_completed(home: Path) -> None:
    assert completed(home, "skillserve se") == ["serve", "search"]
    assert "--port" in completed(home, "skillserve serve --po")
    assert completed(home, "skillserve serve --watch p") == ["poll"]


@pytest.mark.parametrize("command", ["show", "activate", "run", "script", "rollback", "history log"])
def test_names_of_skills_are_completed_but_those_that_a_shell_would_evaluate(command: str, home: Path) -> None:
    assert completed(home, f"skillserve {command} po") == ["postmortem"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_no_text_of_a_skill_but_plain_names_reaches_a_shell(shell: str, home: Path) -> None:
    answer = "\n".join(completed(home, "skillserve show ", shell))
    assert "postmortem" in answer
    assert "touch" not in answer


def test_clients_and_roles_are_completed(home: Path) -> None:
    assert completed(home, "skillserve visibility --client claude-c") == ["claude-code"]
    file = home / ".config/skillserve/skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[access.roles]\nreader = ['*']\nother = ['*']\n")
    assert completed(home, "skillserve list --as re") == ["reader"]


def test_nothing_is_said_about_settings_that_cannot_be_used(home: Path) -> None:
    file = home / ".config/skillserve/skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[http\n")
    assert completed(home, "skillserve show po") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_works_in_it(shell: str, home: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    commands = home / "bin"
    commands.mkdir()
    (commands / "skillserve").write_text(f'#!/bin/sh\nexec {sys.executable} -m server "$@"\n')
    (commands / "skillserve").chmod(0o755)
    scripts = {
        "bash": 'eval "$(skillserve --show-completion)"\nCOMP_WORDS=(skillserve show po)\nCOMP_CWORD=2\n'
        '_skillserve_completion skillserve\necho "${COMPREPLY[@]}"\n',
        "fish": 'skillserve --show-completion | source\ncomplete -C "skillserve show po"\n',
        # Without a terminal zsh completes nothing; the function is defined, and its answer is tested above.
        "zsh": 'compdef() { echo "$1"; }\neval "$(skillserve --show-completion)"\n',
    }
    script = home / f"script.{shell}"
    script.write_text(scripts[shell])
    path = f"{commands}:{os.environ['PATH']}"
    done = subprocess.run(
        [program, str(script)],
        cwd=home,
        env=environment(home, PATH=path, PYTHONPATH=str(REPOSITORY)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["_skillserve_completion" if shell == "zsh" else "postmortem"], done.stderr
    assert not (home / "pwned").exists()
