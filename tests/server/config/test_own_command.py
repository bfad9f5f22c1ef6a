"""Printed command lines call this copy so that a shell finds it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from server.config.machine import own_command


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "a clone" / ".venv" / "bin" / "skillserve"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(file)])
    monkeypatch.setenv("PATH", "")
    return file


def test_a_copy_that_the_shell_does_not_find_is_called_by_its_path(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_command() == f"'{program}'"
    monkeypatch.chdir(program.parents[2])
    assert own_command() == ".venv/bin/skillserve"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows finds programs by their suffix")
def test_a_copy_on_the_path_is_called_by_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_command() == "skillserve"


def test_another_program_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["-m"])
    assert own_command() == "skillserve"
