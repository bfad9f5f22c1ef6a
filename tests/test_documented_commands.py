"""Every command line that a page, a bundled skill or a message shows is one that the command line accepts."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.command_shapes import ShellLine, fault_of_line, shell_lines
from tests.documented_commands import (
    CommandLine,
    command_lines,
    commands_in_source,
    fault_of,
    make_targets,
    options_of,
)

REPOSITORY = Path(__file__).parents[1]
SOURCES = ("server", "skills_core")

PAGES = sorted(
    {
        *(REPOSITORY / "docs").rglob("*.md"),
        *(page for source in SOURCES for page in (REPOSITORY / source).rglob("*.md")),
        *(page for folder in ("bench", "conformance", "deploy") for page in (REPOSITORY / folder).glob("*.md")),
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
    }
)


def shown(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


FOUND = [command for page in PAGES for command in command_lines(page, shown(page))]
OURS = [command for command in FOUND if command.words[0] == "skillserve"]
MAKE = [command for command in FOUND if command.words[0] == "make"]
LINES = [line for page in PAGES for line in shell_lines(page.read_text(encoding="utf-8"), shown(page))]


@cache
def in_source() -> list[CommandLine]:
    return [
        command
        for source in SOURCES
        for module in sorted((REPOSITORY / source).rglob("*.py"))
        for command in commands_in_source(module, shown(module))
    ]


def line(text: str, *, whole: bool = True) -> CommandLine:
    return CommandLine(tuple(text.split()), "page.md", 1, whole)


@pytest.mark.parametrize("page", sorted({command.page for command in OURS}))
def test_each_command_line_of_a_page_is_accepted_by_the_parser(page: str) -> None:
    faults = {str(command): fault_of(command) for command in OURS if command.page == page}
    assert {command: fault for command, fault in faults.items() if fault} == {}


def test_each_command_that_a_message_or_a_docstring_names_is_accepted_by_the_parser() -> None:
    faults = {str(command): fault_of(command) for command in in_source()}
    assert {command: fault for command, fault in faults.items() if fault} == {}


def test_each_target_of_make_that_a_page_names_exists() -> None:
    targets = make_targets(REPOSITORY / "Makefile")
    missing = [
        str(command)
        for command in MAKE
        for word in command.words[1:]
        if not re.search(r"=|^-", word) and word not in targets
    ]
    assert missing == []


def test_there_are_commands_to_check() -> None:
    assert len(OURS) > 350
    assert len([command for command in OURS if command.whole]) > 150
    assert len(MAKE) > 15
    assert len(in_source()) > 50
    assert {command.words[1] for command in OURS} >= {
        "serve",
        "eval",
        "schedule",
        "history",
        "token",
        "plugin",
        "drift",
    }


def test_any_other_name_of_an_option_or_a_command_is_refused() -> None:
    """The check is not empty: each command is refused when one of its options, or its command, has another name."""
    accepted: list[str] = []
    tried = 0
    for command in OURS:
        for number in (1, *options_of(command)):
            name, equals, value = command.words[number].partition("=")
            wrong = (*command.words[:number], f"{name}-x{equals}{value}", *command.words[number + 1 :])
            tried += 1
            if fault_of(replace(command, words=wrong)) is None:
                accepted.append(f"{command}: {wrong[number]}")
    assert tried > 500
    assert accepted == []


@pytest.mark.parametrize(
    "text",
    [
        "run x --run-tool list_files",
        "run x --run-tool=list_files",
        "search q --limit many",
        "search q --limit 0",
        "search",
        "status --state activ",
        "no-such-command",
        "schedule stop NAME",
        "NAME status",
        "status --NAME",
        "plugin install NAME",
        "audit-log sign",
    ],
)
def test_a_command_line_that_does_not_work_is_refused(text: str) -> None:
    assert fault_of(line(f"skillserve {text}")) is not None


@pytest.mark.parametrize(
    "text",
    [
        "search QUERY [DIR…] --limit N --min-score SCORE",
        "run NAME --run-tool TOOL --model MODEL",
        "schedule pause|resume NAME",
        "drift FILE [DIR…] [--tolerance SHARE] [--update]",
        "status --help",
        "--version",
    ],
)
def test_placeholders_stand_for_values_and_alternatives_are_tried(text: str) -> None:
    assert fault_of(line(f"skillserve {text}")) is None


def test_a_mention_may_leave_out_what_a_command_requires() -> None:
    assert fault_of(line("skillserve run --model", whole=False)) is None
    assert fault_of(line("skillserve run --modell", whole=False)) is not None
    assert fault_of(line("skillserve run --model")) is not None


def test_commands_are_found_in_blocks_spans_pipes_and_entries_of_clients(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Use `skillserve status --json` or `A=1 skillserve x`, not `skillserve.toml`.\n\n"
        "```sh\n$ skillserve run a \\\n    --model MODEL > out.json  # why\n"
        "echo x | X=1 .venv/bin/skillserve guard && make lint types\n"
        "cat > f <<'EOF'\nskillserve no command\nEOF\nskillserve show a; skillserve reload\n```\n\n"
        '```json\n{"command": "/p/skillserve", "args": ["serve", "DIR"]}\n```\n\n'
        "```\nskillserve: an error\nskillserve status\n```\n",
        encoding="utf-8",
    )
    found = [(command.line, " ".join(command.words), command.whole) for command in command_lines(page, "page.md")]
    assert sorted(found) == [
        (1, "skillserve status --json", False),
        (4, "skillserve run a --model MODEL", True),
        (6, "make lint types", True),
        (6, "skillserve guard", True),
        (10, "skillserve reload", True),
        (10, "skillserve show a", True),
        (14, "skillserve serve DIR", True),
        (19, "skillserve status", True),
    ]


@pytest.mark.parametrize("page", sorted({line.page for line in LINES}))
def test_each_line_of_a_block_of_commands_is_one_that_its_programs_accept(page: str) -> None:
    faults = {str(each): fault_of_line(each) for each in LINES if each.page == page}
    assert {text: fault for text, fault in faults.items() if fault} == {}


def test_there_are_lines_of_each_kind_of_program() -> None:
    assert len(LINES) > 150
    programs = {each.text.split()[0] for each in LINES}
    assert programs >= {"claude", "docker", "kubectl", "make", "skillserve", "systemctl", "uv", "uvx"}


def test_no_line_of_another_program_takes_an_option_of_another_name() -> None:
    tried = 0
    for each in LINES:
        for match in re.finditer(r"(?<= )--[a-z][a-z-]*", each.text):
            words_before = each.text[: match.start()]
            if re.search(r"\b(?:skillserve|make|echo|printf) ", words_before) or "'" in words_before:
                continue
            wrong = ShellLine(f"{words_before}--x{match[0]}{each.text[match.end() :]}", each.page, each.line)
            tried += 1
            assert fault_of_line(wrong) is not None, str(wrong)
    assert tried > 20


@pytest.mark.parametrize(
    "text",
    [
        "no-such-program",
        "skillserve no-such-command",
        "make no-such-target",
        "ls | skillserve status --no-such-option",
        "TOKEN=$(docker exec NAME skillserve no-such-command)",
        "docker exec NAME",
        "docker exec NAME skillserve status --no-such-option",
        "docker compose --file deploy/no-such-file.yaml up",
        "docker compose stop-it-all",
        "claude mcp add skills -- skillserve serve --no-such-option",
        "claude mcp add skills",
        "claude mcp add --transport",
        "uvx --from . skillserve no-such-command",
        "uvx --from . no-such-program",
        "uv tool install",
        "deploy/compose/no-such-script.sh",
        ".venv/bin/python -m conformance.no_such_module",
        ".venv/bin/python bench/run.py --no-such-option",
        "curl 'http://127.0.0.1",
    ],
)
def test_a_line_that_no_rule_accepts_has_a_fault(text: str) -> None:
    assert fault_of_line(ShellLine(text, "page.md", 1)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "A=1 skillserve status > out.json && make lint types",
        "uvx --from . skillserve serve DIR",
        "uv tool install '.[run]'",
        "claude mcp add skills -- /p/skillserve serve /p/skills   # why",
        "docker compose --file deploy/compose/compose.yaml exec -T skillserve-1 skillserve reload",
        "TOKEN=$(kubectl --namespace n exec deploy/skillserve -- skillserve token add anna)",
        ".venv/bin/python bench/run.py --quick",
    ],
)
def test_a_line_that_works_has_no_fault(text: str) -> None:
    assert fault_of_line(ShellLine(text, "page.md", 1)) is None


def test_lines_are_those_of_commands_and_not_of_what_they_print() -> None:
    commands = "```sh\na\n# why\nb \\\n  c\n```\n\n"
    output = "```text\nout of a program\ndocker up\nT=$(docker x)\n$ a b\n```\n\n"
    page = f"{commands}{output}```json\n{{}}\n```\n\nUse `uv tool\ninstall .`.\n"
    found = [(each.line, each.text.split()) for each in shell_lines(page, "page.md")]
    assert found == [
        *((2, ["a"]), (4, ["b", "c"]), (10, ["docker", "up"]), (11, ["T=$(docker", "x)"]), (12, ["a", "b"])),
        (19, ["uv", "tool", "install", "."]),
    ]
