"""`skillserve --version`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from server import __version__
from tests.server.sessions import REPOSITORY, server_environment


def run(*arguments: str, cwd: Path = REPOSITORY, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=server_environment(**environment),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "server/__init__.py"
    assert f'__version__ = "{__version__}"' in (REPOSITORY / "server/__init__.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [("--version",), ("--version", "status"), ("--version", "no-such-command")])
def test_the_version_is_printed_and_nothing_else_happens(arguments: tuple[str, ...]) -> None:
    done = run("-m", "server", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"skillserve {__version__}\n", "")


def test_the_version_is_printed_whatever_the_settings_are(tmp_path: Path) -> None:
    (tmp_path / "skillserve.toml").write_text("not TOML [")
    environment = {"PYTHONPATH": str(REPOSITORY), "SKILLSERVE_PORT": "no port", "SKILLSERVE_NO_SUCH": "x"}
    done = run("-m", "server", "--version", cwd=tmp_path, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"skillserve {__version__}\n", "")


def test_the_version_is_printed_without_importing_a_library() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--version']; from server.__main__ import main; main();"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'typer', 'mcp', 'msgspec', 'skills_core'}))"
    )
    assert run("-c", code).stdout.splitlines()[1:] == ["[]"]


def test_the_help_names_the_option() -> None:
    assert "--version" in run("-m", "server", "--help").stdout
