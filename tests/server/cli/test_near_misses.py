"""What the command line says about a command or an option that does not exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from server.cli import near_misses
from server.cli.app import app
from server.cli.near_misses import unknown_command, unknown_option
from tests.documented_commands import CommandLine, fault_of
from tests.server.cli.test_cli import run

ROOT: Any = typer.main.get_command(app)


def meant(*words: str) -> list[str]:
    return re.findall(r"`([^`]*)`", unknown_command(ROOT, "skillserve", [*words]))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["statsu"], ["skillserve status"]),
        (["serv"], ["skillserve serve"]),
        (["Status"], ["skillserve status"]),
        (["ls"], ["skillserve list"]),
        (["install"], ["skillserve plugin install", "skillserve connect"]),
        (["add"], ["skillserve plugin install", "skillserve connect"]),
        (["run-server"], ["skillserve serve"]),
        (["format"], ["skillserve validate --fix"]),
        (["inspect"], ["skillserve show", "skillserve catalog"]),
        (["version"], ["skillserve --version"]),
        (["help"], ["skillserve --help"]),
        (["help", "serve"], ["skillserve serve --help"]),
        (["generate-shell-completion", "bash"], ["skillserve --show-completion"]),
        (["accept"], ["skillserve history accept"]),
        (["daemon"], ["skillserve schedule daemon"]),
        (["xyzzy"], ["skillserve --help"]),
    ],
)
def test_an_unknown_command_is_answered_with_the_one_that_is_meant(words: list[str], expected: list[str]) -> None:
    assert meant(*words) == expected


@pytest.mark.parametrize(
    ("group", "word", "expected"),
    [
        ("plugin", "add", "install"),
        ("plugin", "rm", "remove"),
        ("plugin", "instal", "install"),
        ("token", "create", "add"),
        ("token", "delete", "revoke"),
        ("schedule", "new", "add"),
        ("runs", "ls", "list"),
        ("workflow", "check", "validate"),
        ("config", "validate", "check"),
    ],
)
def test_a_word_of_the_same_meaning_leads_to_the_command_of_a_group(group: str, word: str, expected: str) -> None:
    message = unknown_command(ROOT.commands[group], f"skillserve {group}", [word])
    assert f"Did you mean `skillserve {group} {expected}`?" in message


@pytest.mark.parametrize("word", near_misses._MEANT)
def test_what_a_word_of_another_tool_leads_to_exists_while_the_word_does_not(word: str) -> None:
    assert word not in ROOT.commands
    assert meant(word) == [f"skillserve {each}" for each in near_misses._MEANT[word]]
    for each in meant(word):
        assert fault_of(CommandLine(tuple(each.split()), "", 1, whole=False)) is None


def test_a_folder_alone_is_answered_with_the_command_that_serves_it(tmp_path: Path) -> None:
    message = unknown_command(ROOT, "skillserve", [str(tmp_path)])
    assert f"skillserve serve {tmp_path}"[:60] in message


@pytest.mark.parametrize(
    ("command", "option", "expected"),
    [
        ("serve", "--prot", "`--port`"),
        ("serve", "--stdio", "`--transport stdio`"),
        ("serve", "--http", "`--transport http`"),
        ("serve", "-v", "`--log-level debug`"),
        ("serve", "-p", "`--port`"),
        ("serve", "--directory", "`DIR`"),
        ("status", "--role", "`--as`"),
        ("list", "--jsn", "`--json`"),
        ("list", "--zzzz", "`skillserve list --help`"),
    ],
)
def test_an_unknown_option_is_answered_with_the_nearest_one_of_its_command(
    command: str, option: str, expected: str
) -> None:
    assert expected in unknown_option(ROOT.commands[command], f"skillserve {command}", option)


def test_an_option_before_its_command_is_told_where_it_belongs() -> None:
    assert "follow the command" in unknown_option(ROOT, "skillserve", "--port")
    assert "`skillserve serve`" in unknown_option(ROOT, "skillserve", "--port")
    assert "`skillserve --version`" in unknown_option(ROOT, "skillserve", "-V")


@given(st.text(min_size=1, max_size=300))
def test_what_was_typed_is_shown_on_one_line_without_control_characters(word: str) -> None:
    for message in (
        unknown_command(ROOT, "skillserve", [word, word]),
        unknown_option(ROOT.commands["serve"], "skillserve serve", f"--{word}"),
    ):
        assert message.isprintable() or not word.isprintable()
        assert "\n" not in message
        assert "\x1b" not in message
        assert len(message) < 600


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["statsu"], "Did you mean `skillserve status`?"),
        (["serve", "--prot", "1"], "Did you mean `--port`?"),
        (["serve", "--prot", "1", "--log-format", "json"], "Did you mean `--port`?"),
        (["plugin", "add", "x"], "Did you mean `skillserve plugin install`?"),
    ],
)
def test_the_command_line_ends_with_wrong_usage_and_says_what_is_meant(words: list[str], expected: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert expected in done.stderr.replace('\\"', '"')
