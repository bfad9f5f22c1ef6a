"""The command line.

Each command imports what it needs when it runs: `status` has no use for an MCP server.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

import typer

from server.cli.commands.guard import guard
from server.cli.commands.reload import reload
from server.cli.commands.remote import fetch, verify
from server.cli.commands.runs import run, runs
from server.cli.commands.script import script
from server.cli.commands.search import search
from server.cli.commands.serve import serve
from server.cli.commands.status import activate, show, status
from server.cli.commands.trust import trust
from server.cli.commands.validate import init, validate
from server.cli.commands.visibility import visibility
from server.cli.commands.workflow import app as workflow
from server.cli.console import WRONG_USE, fail
from server.config.settings import ConfigurationError
from skills_core.errors import SkillsError

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="The reference server for Agent Skills over MCP.",
)

_COMMANDS = (
    *(serve, status, search, visibility, show, activate, validate, init, trust, reload),
    *(guard, verify, fetch, run),
)
for command in _COMMANDS:
    app.command()(command)
# What stands behind the script's name is the script's.
app.command(context_settings={"allow_interspersed_args": False})(script)
app.add_typer(runs, name="runs")
app.add_typer(workflow, name="workflow")


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # Programs read UTF-8; a terminal that lacks a letter must not end a command.
        if isinstance(stream, TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    try:
        app(prog_name="skillserve")
    except (SkillsError, ConfigurationError) as error:
        fail(str(error), WRONG_USE)
