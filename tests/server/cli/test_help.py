"""The help of the command line: every command and parameter is described, and the summaries fit their list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from server.cli.app import app

MAX_SUMMARY = 64
"""Longest summary that the list of commands shows whole at 80 columns."""


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command below a group, with its words."""
    for name, child in command.commands.items():
        yield f"{path}{name}", child
        if hasattr(child, "commands"):
            yield from commands(child, f"{path}{name} ")


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_a_summary_of_one_line(name: str) -> None:
    summary = COMMANDS[name].help.partition("\n\n")[0]
    assert summary.endswith(".")
    assert len(summary) <= MAX_SUMMARY


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_of_a_command_has_a_help_text(name: str) -> None:
    parameters = COMMANDS[name].params
    assert [each.name for each in parameters if each.name != "help" and not (each.help or "").endswith(".")] == []
