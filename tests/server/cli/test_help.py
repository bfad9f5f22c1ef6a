"""The help of the command line: every command and parameter is described, and the summaries fit their list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from server.cli.app import app
from server.cli.help_pages import Command, CommandGroup, Group, parameters_in_sections, section_of, summary_of
from tests.server.cli.test_cli import run

MAX_SUMMARY = 64
"""Longest summary that the list of commands shows whole at 80 columns."""

MAX_TEXT = 110
"""Longest help of an option: two lines at 80 columns, beside the widest names."""


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command below a group, with its words."""
    for name, child in command.commands.items():
        yield f"{path}{name}", child
        if hasattr(child, "commands"):
            yield from commands(child, f"{path}{name} ")


ROOT: Any = typer.main.get_command(app)
COMMANDS = dict(commands(ROOT))


def context_of(name: str, columns: int) -> Any:
    context = ROOT.make_context("skillserve", ["serve"])
    *groups, last = [name] if name in ROOT.commands else name.split()
    for group in groups:
        context = typer.Context(context.command.commands[group], parent=context, info_name=group)
    context = typer.Context(context.command.commands[last], parent=context, info_name=last)
    context.terminal_width = min(columns, 100)
    return context


def help_of(name: str, columns: int) -> str:
    return str(context_of(name, columns).get_help())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_a_summary_of_one_line(name: str) -> None:
    summary = COMMANDS[name].help.partition("\n\n")[0]
    assert summary.endswith(".")
    assert len(summary) <= MAX_SUMMARY


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_of_a_command_has_a_help_text(name: str) -> None:
    parameters = COMMANDS[name].params
    assert [each.name for each in parameters if each.name != "help" and not (each.help or "").endswith(".")] == []


def page(*words: str, columns: int = 80) -> str:
    done = run(*words, COLUMNS=str(columns))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_command_is_in_one_of_the_five_groups_of_the_help() -> None:
    sections = {name: section_of(each) for name, each in ROOT.commands.items()}
    assert set(sections.values()) == set(CommandGroup)
    lines = page("--help").splitlines()
    headings = [line.removesuffix(":") for line in lines if re.fullmatch(r"[A-Z].*:", line) and "Usage" not in line]
    assert headings == [*CommandGroup, "Options"]
    below = dict(re.findall(r"^  ([a-z][a-z -]*?)  +(\S.*)$", "\n".join(lines), re.MULTILINE))
    assert below == {name: summary_of(each) for name, each in ROOT.commands.items()}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_h_and_help_are_the_same(name: str) -> None:
    command = COMMANDS.get(name, ROOT)
    parent = typer.main.get_command(app).make_context("skillserve", ["serve"])
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    assert context.help_option_names == ["-h", "--help"]
    assert [{*each.opts} for each in command.get_params(context) if each.name == "help"] == [{"-h", "--help"}]


def test_every_command_and_group_has_our_pages() -> None:
    assert isinstance(ROOT, Group)
    assert [name for name, each in COMMANDS.items() if not isinstance(each, Command | Group)] == []


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_a_page_is_wider_than_the_terminal(name: str, columns: int) -> None:
    text = help_of(name, columns)
    assert [line for line in text.splitlines() if len(line) > min(columns, 100) and " " in line.strip()] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_an_option_takes_two_lines_and_its_default(name: str) -> None:
    context = context_of(name, 80)
    records = [row for rows in parameters_in_sections(COMMANDS[name], context).values() for row in rows]
    assert [row for row in records if len(row[1].partition("  [")[0]) > MAX_TEXT] == []
    assert [row for row in records if "<=" in row[1] or "[default: (" in row[1] or "list[" in row[0]] == []


def test_the_ten_options_of_serve_that_matter_come_first() -> None:
    sections = parameters_in_sections(COMMANDS["serve"], context_of("serve", 80))
    assert [*sections][:2] == ["Arguments", "Options"]
    first = [names.split()[0] for names, _ in sections["Options"]]
    assert len(first) == 11
    assert {"--transport", "--host", "--port", "--tool", "--model"} < {*first}
    assert first[-1] == "-h,"
    assert len(sections) > 5


def test_the_texts_of_all_sections_of_a_page_begin_in_one_column() -> None:
    lines = [line for line in help_of("status", 80).splitlines() if re.match(r"  -\S+( [A-Z]+)?  ", line)]
    assert len({re.match(r"  \S+( [A-Z]+)? {2,}", line).end() for line in lines}) == 1  # type: ignore[union-attr]
