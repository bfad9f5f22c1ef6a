"""The command line application: register all commands and run them.

Commands import their dependencies when they run, so that `status` does not load an MCP server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NoReturn

import typer

from server import __version__
from server.capabilities import CAPABILITIES
from server.cli.commands.config import config, trust
from server.cli.commands.options import expand_paths
from server.cli.commands.search import drift, search
from server.cli.commands.serve import serve
from server.cli.commands.skills import activate, catalog, list_skills, show, status
from server.cli.console import fail, print_text
from server.cli.help_pages import CommandGroup, CommandLine, UsageError
from server.cli.start_server import asked_format, command_process, end_with_line
from server.config.machine import current_places
from server.config.settings.server import LogFormat
from server.requests import CommandRecord


def _record(result: object, **_: object) -> object:
    """Let capabilities record what a command has changed."""
    if isinstance(result, CommandRecord):
        for each in CAPABILITIES:
            if each.record_command is not None:
                each.record_command(result)
    return result


app = CommandLine(
    result_callback=_record,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Serve Agent Skills over MCP, and check, search and run them.",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it
    if wanted:
        print_text(f"skillserve {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_SECTIONS: Final[Mapping[CommandGroup, Mapping[str, Callable[..., object]]]] = {
    CommandGroup.SERVE: {"serve": serve, "list": list_skills, "status": status, "show": show, "activate": activate},
    CommandGroup.MEASURE: {"search": search, "drift": drift, "catalog": catalog},
    CommandGroup.OPERATE: {"trust": trust},
}
for section, commands in _SECTIONS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=section)(command)
app.add_typer(config, name="config", rich_help_panel=CommandGroup.OPERATE)
for each in CAPABILITIES:
    if each.commands is not None:
        each.commands(app)
expand_paths(app)


def main() -> None:
    """Run the command line and exit."""
    with command_process():
        if sys.argv[1:2] == ["serve"]:
            _serve()
        app(prog_name="skillserve")


def _serve() -> NoReturn:
    """Run `serve`; write the error of a wrong command line in the format of the log, as collectors of logs expect."""
    try:
        code = app(prog_name="skillserve", standalone_mode=False)
    except UsageError as error:
        if asked_format(_given_format(sys.argv[2:]), os.environ, current_places().config_home) is LogFormat.JSON:
            end_with_line(error.format_message() if hasattr(error, "format_message") else error)
        # The library shows its error.
        code = app(prog_name="skillserve")
    except typer.Abort:
        raise SystemExit(1) from None
    raise SystemExit(code)


def end_serving(error: Exception, code: int) -> NoReturn:
    """Exit with what ended a server, in the format of its log."""
    if asked_format(_given_format(sys.argv[2:]), os.environ, current_places().config_home) is LogFormat.JSON:
        end_with_line(error, code)
    fail(str(error), code)


def _given_format(words: Sequence[str]) -> object:
    """Return the value of `--log-format` on a command line of `serve` that is wrong elsewhere."""
    commands: Any = typer.main.get_command(app)
    command = commands.commands["serve"]
    return command.make_context("serve", [*words], resilient_parsing=True, ignore_unknown_options=True).params.get(
        "log_format"
    )
