"""Generate the reference of commands from the help of the command line."""

from __future__ import annotations

import html
import itertools
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.main import get_command

from server.capabilities.guard.hook_call import BLOCKED
from server.cli.app import app
from server.cli.console import EXIT_EMPTY, EXIT_LIMIT, EXIT_NO, EXIT_NOT_RUN, EXIT_USAGE
from server.cli.help_pages import CommandGroup, parameters_in_sections, section_of, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["commands_page"]

_HEAD: Final = f"""# Commands

<!-- Generated from the command line by `make reference`; do not edit. -->

Arguments and options of all commands, with the help texts of `-h`. Options that are settings can also be set
[by an environment variable or in a file](settings.md). `skillserve --version` prints the version, whatever the settings
are.

| Exit code | Meaning |
|---|---|
| 0 | The command succeeded. |
| {EXIT_NO} | The answer is no: a skill is invalid or unknown, nothing was found, no server answered, a run failed. |
| {EXIT_USAGE} | Wrong use: an unknown option, an invalid setting, a directory that does not exist. |
| {EXIT_EMPTY} | `skillserve audit-log verify`: there is no record to verify. |
| 4 | `eval`, `triggers`: a [bound of the costs](../guides/evaluate-a-skill.md#bound-the-costs) was reached. |

The exit code of a command that a signal ends is 128 plus the number of the signal.
[`skillserve script`](#skillserve-script) exits with the code of its script, with {EXIT_LIMIT} if the script reached a
limit, and with {EXIT_NOT_RUN} if it was not run.
"""

_EXIT_CODES: Final = {
    "guard": f"Exit codes: 0 if stdout has the decision, or is empty if the host decides; {BLOCKED} blocks the call.",
}


def commands_page() -> str:
    """Return the page: the commands in the sections of `skillserve --help`."""
    root: Any = get_command(app)
    lines = [_HEAD]
    for section in CommandGroup:
        commands = {name: each for name, each in root.commands.items() if section_of(each) == section}
        lines += [f"## {section}\n", "| Command | Meaning |", "|---|---|"]
        lines += [
            f"| [`{name}`](#skillserve-{_first_of(name, each)}) | {_cell(_text(summary_of(each)))} |"
            for name, each in commands.items()
        ]
        lines += ["", *_group(commands, "skillserve")]
    return "\n".join(lines)


def _first_of(name: str, command: Any) -> str:  # noqa: ANN401 - typer does not export the type
    """Return the end of the anchor of a command, or of the first command of a group."""
    return "-".join([*name.split(), *itertools.islice(getattr(command, "commands", ()), 1)])


def _group(commands: Mapping[str, Any], name: str) -> Iterator[str]:
    for key, command in commands.items():
        if hasattr(command, "commands"):
            yield from _group(command.commands, f"{name} {key}")
        else:
            yield from _command(command, f"{name} {key}")


def _command(command: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    context = typer.Context(command, info_name=name)
    yield f"### {name}\n\n{_text(command.help)}\n"
    yield f"```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    for title, records in parameters_in_sections(command, context).items():
        rows = [f"| {_code(names)} | {_cell(_text(words))} |" for names, words in records if names != "--help"]
        if rows:
            yield "\n".join([f"| {title} | Meaning |", "|---|---|", *rows, ""])
    if exit_codes := _EXIT_CODES.get(name.removeprefix("skillserve ")):
        yield f"{exit_codes}\n"


def _text(words: str | None) -> str:
    """Return a help text on one line, escaped so that Markdown shows `<` literally."""
    return " ".join((words or "").split()).replace("<", "&lt;")


def _code(text: str) -> str:
    """Return code for a table cell; as HTML if it contains `|`, which Markdown programs escape differently."""
    return f"<code>{_cell(html.escape(text, quote=False))}</code>" if "|" in text else f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")
