"""The commands `config` and `trust`: check the configuration, and manage trusted projects."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.help_pages import CommandLine
from server.config.machine import Machine, current_places
from skills_core.diagnostics import counted, one_line
from skills_core.disk.sources import project_of

if TYPE_CHECKING:
    from server.cli.config_check.finding import ConfigFinding

config = CommandLine(help="Check the configuration.", no_args_is_help=True)


@config.callback()
def _group() -> None:
    """Keep `check` a command of its own."""


@config.command()
def check(*, as_json: AsJson = False) -> None:
    """Check all files of settings and the environment variables.

    Every fault is reported, with what to do, also what a server would refuse when it starts. Nothing is started or
    changed, and no network is used. The exit code is 1 if there is an error; a warning names what has no effect or is
    risky.
    """
    from server.cli.config_check.check import check_configuration
    from server.config.machine import Machine, current_places

    report = check_configuration(Machine(current_places()), os.environ)
    if as_json:
        files = [asdict(each) for each in report.files]
        print_json({"ok": not report.errors, "findings": [asdict(each) for each in report.findings], "files": files})
    else:
        own, *_ = report.files
        if not own.exists:
            # Who has written another file finds out here.
            print_text(one_line(f"{own.path}: {own.purpose} (does not exist)"))
        for each in report.files:
            if each.exists:
                print_text(one_line(f"{each.path}: {each.purpose}"))
        for finding in report.findings:
            print_text(_text(finding))
        warnings = len(report.findings) - report.errors
        print_text(f"{counted(report.errors, 'error')}, {counted(warnings, 'warning')}")
    if report.errors:
        raise typer.Exit(EXIT_NO)


def _text(finding: ConfigFinding) -> str:
    where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    key = "" if finding.key is None else f"{finding.key}: "
    return f"{one_line(f'{where}: {finding.level}: {key}{finding.message}')}\n    {one_line(finding.advice)}"


def trust(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A folder of the project.", show_default="the working directory")
    ] = Path(),
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the project from the trusted projects.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="List the trusted projects.")] = False,
) -> None:
    """Trust a project, so that its skills and settings are used.

    Servers and commands use them when they run in the project.
    """
    machine = Machine(current_places())
    file = machine.trust
    if as_list:
        folders = file.folders()
        for folder in folders:
            print_text(one_line(str(folder)))
        if not folders:
            print_notice(f"no project is trusted in {file.path}; `skillserve trust PATH` trusts one")
        return
    if not path.is_dir() and not remove:
        fail(f"{path}: there is no such directory", EXIT_USAGE)
    folder = project_of(path.resolve(), machine.places.home)
    if not remove:
        file.add(folder)
        print_text(one_line(f"trusted: {folder}"))
    elif file.remove(folder):
        print_text(one_line(f"no longer trusted: {folder}"))
    else:
        fail(f"{folder} is not trusted; `skillserve trust --list` shows the trusted projects", EXIT_NO)
