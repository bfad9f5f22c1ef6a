"""The command line.

Each command imports what it needs when it runs: `status` has no use for an MCP server.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

import typer

from server.commands.guarding import guard
from server.commands.looking import activate, show, status
from server.commands.reloading import reload
from server.commands.remote import fetch, verify
from server.commands.running import run, runs
from server.commands.scripts import script
from server.commands.searching import search
from server.commands.serving import serve
from server.commands.trusting import trust
from server.commands.visibility import visibility
from server.commands.workflows import app as workflow
from server.commands.writing import init, validate
from server.config import ConfigurationError
from server.console import WRONG_USE, fail
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
