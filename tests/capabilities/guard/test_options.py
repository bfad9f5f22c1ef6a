"""The command line of the hook: the plain parser agrees with the full one."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from server.capabilities.guard.hook import PLAIN_OPTIONS, SECONDS, HookOptions, parse_plain_options
from server.cli.app import app
from tests.capabilities.guard.helpers import DENYING, Hook, call
from tests.conftest import write_skill
from tests.server.sessions import REPOSITORY


@pytest.mark.parametrize(
    "words",
    [["--no-such-flag"], ["--skill"], ["--no-skills", "--skill", "x"], ["--no-skills", "."], ["--conventions", "x"]],
)
def test_wrong_options_block_the_call(hook: Hook, words: list[str]) -> None:
    done = hook.run(call(), *words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr


PLAIN: dict[str, HookOptions | None] = {
    "": HookOptions(),
    "a b": HookOptions((Path("a"), Path("b"))),
    "a --skill x --skill y --strict": HookOptions((Path("a"),), ("x", "y"), strict=True),
    "--no-skills --never-ask": HookOptions(no_skills=True, never_ask=True),
    "--project p --gitignore": HookOptions(project=Path("p"), gitignore=True),
    "--skill=x": None,
    "--skill": None,
    "--skill --strict": None,
    "--conventions all": None,
    "--help": None,
    "-- a": None,
    "-": None,
    "--no-skills a": None,
}


@pytest.mark.parametrize("words", PLAIN)
def test_a_plain_command_line_is_parsed_and_others_are_left_to_the_full_parser(words: str) -> None:
    assert parse_plain_options(words.split()) == PLAIN[words]


def test_the_plain_parser_knows_every_option_of_the_command() -> None:
    guard = get_command(app).commands["guard"]  # type: ignore[attr-defined]
    switches = {option for each in guard.params for option in each.opts if getattr(each, "is_flag", False)}
    with_value = {option for each in guard.params for option in each.opts} - switches - {"directories"}
    assert switches == {name for name, option in PLAIN_OPTIONS.items() if option.convert is None}
    assert with_value == PLAIN_OPTIONS.keys() - switches


def test_both_parsers_lead_to_the_same_answer(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    write_skill(skills, "other", fields="danger_patterns: [ls]")
    for command in ("ls", "rm -rf /", "git push"):
        plain = hook.ask(call(command), skills, "--skill", "care")
        assert hook.ask(call(command), skills, "--skill=care") == plain


def test_the_documented_host_settings_are_json_with_a_plain_command() -> None:
    text = (REPOSITORY / "docs" / "guides" / "guard-tool-calls.md").read_text(encoding="utf-8")
    settings = json.loads(text.partition("```json\n")[2].partition("```")[0])
    (group,) = settings["hooks"]["PreToolUse"]
    (entry,) = group["hooks"]
    plain, _, otherwise = entry["command"].partition(" || ")
    assert otherwise == "exit 2"
    program, command, *words = shlex.split(plain)
    assert (program, command, parse_plain_options(words)) == (
        "skillserve",
        "guard",
        HookOptions(project=Path("$CLAUDE_PROJECT_DIR")),
    )
    assert (entry["onFailure"], entry["timeout"] > SECONDS) == ("block", True)
    assert all(f"`{option}" in text for option in PLAIN_OPTIONS)
