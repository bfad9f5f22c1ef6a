"""`skillserve` alone at a terminal says what is there and what to do next, and shows nothing of a stranger's skills."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from server.capabilities.doctor.welcome import Findings, FoundClient, FoundFolder, next_steps, screen
from skills_core.disk.sources import Places
from tests.conftest import write_skill
from tests.server.sessions import REPOSITORY, server_environment

if sys.platform != "win32":
    import pty

HOME = Path("/home/me")
PLACES = Places(HOME, HOME / "project", HOME / ".config")
MINE = FoundFolder(HOME / ".claude/skills", 3)
STRANGE = FoundFolder(HOME / "project/.claude/skills", 3, trusted=False)
ASIDE = FoundFolder(HOME / "my skills", 2)
WITH, WITHOUT, UNREAD = FoundClient("Codex", True), FoundClient("Cursor", False), FoundClient("Zed", None)


@pytest.mark.parametrize(
    ("found", "commands"),
    [
        (Findings(), ["init my-skill --to ~/.agents/skills"]),
        (Findings(clients=[WITHOUT]), ["init my-skill --to ~/.agents/skills"]),
        (Findings([MINE]), ["serve --transport http"]),
        (Findings([MINE], clients=[WITH, WITHOUT]), ["connect"]),
        (Findings([MINE], clients=[WITH]), ["status", "doctor"]),
        (Findings([MINE], clients=[UNREAD]), ["doctor"]),
        (Findings([STRANGE], clients=[WITHOUT]), ["init my-skill --to ~/.agents/skills", "trust"]),
        (Findings(others=[ASIDE]), ["serve ~/'my skills' --transport http"]),
        (
            Findings(others=[ASIDE], clients=[WITHOUT]),
            ["connect ~/'my skills'", "serve ~/'my skills' --transport http"],
        ),
        (Findings([FoundFolder(MINE.place, 2, broken=1)], clients=[WITHOUT]), ["connect", "status"]),
        (Findings([FoundFolder(MINE.place, 1, broken=1)]), ["init my-skill --to ~/.agents/skills", "status"]),
    ],
)
def test_the_next_step_follows_from_what_is_there(found: Findings, commands: list[str]) -> None:
    steps = [step.command.removeprefix("skillserve ") for step in next_steps(found, PLACES)]
    assert steps == [*commands, "--help"]


def test_the_screen_fits_sixty_columns_and_has_no_control_characters() -> None:
    here = FoundFolder(HOME / "project" / "skills", 3, trusted=False)
    text = screen(Findings([MINE, STRANGE], [ASIDE, here], [WITH, WITHOUT, UNREAD]), PLACES)
    assert all(len(line) <= 60 for line in text.split("\n"))
    hostile = FoundFolder(HOME / "project" / "a\x1b[2J\nb" / ".claude/skills", 3, trusted=False)
    text = screen(Findings([hostile], [hostile], [WITH, WITHOUT, UNREAD]), PLACES)
    assert all(line.isprintable() for line in text.split("\n"))


def at_terminal(home: Path, here: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Run the command with a terminal as its stdin and stdout; return the exit code and what was shown."""
    controller, terminal = pty.openpty()
    settings = {"HOME": str(home), "TERM": "xterm", "PATH": os.defpath, "PYTHONPATH": str(REPOSITORY), **variables}
    environment = {**server_environment(), **settings}
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "server", *words]
    process = subprocess.Popen(
        command, cwd=here, env=environment, stdin=terminal, stdout=terminal, stderr=subprocess.STDOUT
    )
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(controller, 65536):
            shown += chunk
    except OSError:
        # The terminal of an ended process cannot be read.
        pass
    finally:
        os.close(controller)
    return process.wait(60), shown.decode()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")


@posix
def test_a_first_user_is_told_to_write_a_skill(home: Path) -> None:
    code, shown = at_terminal(home, home, NO_COLOR="1")
    assert code == 0
    assert "none in the usual folders" in shown
    assert "skillserve init my-skill --to ~/.agents/skills" in shown
    assert "\x1b" not in shown


@posix
def test_skills_and_clients_that_are_there_are_found_and_the_step_named_connects_them(home: Path) -> None:
    write_skill(home / ".claude" / "skills", "one")
    write_skill(home / ".claude" / "skills", "bad", description="")
    write_skill(home / "skills", "two")
    (home / ".cursor").mkdir()
    code, shown = at_terminal(home, home)
    assert code == 0
    assert "~/.claude/skills  2 skills, 1 broken" in shown
    assert "~/skills          1 skill, not served by default" in shown
    assert re.search(r"Cursor +not connected", shown)
    assert "skillserve connect\r\n      give your skills to " in shown
    assert "\x1b[1mNext\x1b[0m" in shown


@posix
def test_skills_of_a_stranger_are_counted_and_nothing_of_them_is_shown(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "checkout"
    (project / ".git").mkdir(parents=True)
    for name in ("evil", "evil\x1b[31m"):
        write_skill(project / ".claude" / "skills", name, description="EVIL\x1b]0;x\x07")
        write_skill(project / "skills", name)
    (project / "skillserve.toml").write_text("[discovery]\nsources = ['evil\x1b']\n")
    (project / ".skills").symlink_to(home)
    (project / ".github").mkdir()
    (project / ".github" / "skills").symlink_to("/")
    code, shown = at_terminal(home, project, NO_COLOR="1")
    assert code == 0
    assert "./.claude/skills  2 skills, project not trusted" in shown
    assert "./skills          2 skills, not served by default" in shown
    assert "skillserve trust" in shown
    assert "evil" not in shown.lower()
    assert "\x1b" not in shown
    assert ".github" not in shown


@posix
def test_a_wrong_setting_is_named(home: Path) -> None:
    code, shown = at_terminal(home, home, SKILLSERVE_MODEL="nonsense", SKILLSERVE_PORT="x")
    assert code == 2
    assert "SKILLSERVE_PORT" in shown


@posix
def test_with_words_or_without_a_terminal_the_command_is_as_before(home: Path) -> None:
    assert "Usage: " in at_terminal(home, home, "--help")[1]
    command = [sys.executable, "-m", "server"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=server_environment(HOME=str(home)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Usage: skillserve" in done.stdout + done.stderr
