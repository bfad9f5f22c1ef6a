"""What `make serve` and `make install` show while pip works."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from tools.install_packages import follow

REPOSITORY = Path(__file__).parents[2]
LINES = [
    "Obtaining file:///here\n",
    "  Installing build dependencies: started\n",
    "Collecting anyio>=4.9 (from here)\n",
    "  Downloading anyio-4.16.0-py3-none-any.whl (115 kB)\n",
    "Requirement already satisfied: idna\n",
    "Collecting \x1b[31mname\n",
    "Installing collected packages: anyio\n",
    "Successfully installed anyio-4.16.0\n",
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_one_line_with_the_package_in_hand() -> None:
    terminal = Terminal()
    assert follow(LINES, terminal) == LINES
    assert "\n" not in terminal.getvalue()
    assert [text.removesuffix("\x1b[K").strip() for text in terminal.getvalue().split("\r")] == [
        "",
        "package 1: collecting anyio",
        "package 1: downloading anyio-4.16.0-py3-none-any.whl",
        "installing 1 packages",
        "",
    ]


def test_a_log_sees_none_of_it() -> None:
    log = io.StringIO()
    assert follow(LINES, log) == LINES
    assert log.getvalue() == ""


def test_where_pip_fails_all_that_it_said_is_shown_with_its_exit_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.install_packages", "nothing", str(tmp_path / "no-such-folder/x.whl")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no-such-folder" in done.stderr
    assert done.stdout.startswith("Installing nothing into ")
