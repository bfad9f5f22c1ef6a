"""The command `config`: check the configuration."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, print_json, print_text
from skills_core.diagnostics import counted, one_line

if TYPE_CHECKING:
    from server.cli.config_check.finding import Finding

__all__ = ["config"]

config = typer.Typer(help="Check the configuration.", no_args_is_help=True)


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
        for each in report.files:
            if each.exists:
                print_text(one_line(f"{each.path}: {each.purpose}"))
        for finding in report.findings:
            print_text(_text(finding))
        warnings = len(report.findings) - report.errors
        print_text(f"{counted(report.errors, 'error')}, {counted(warnings, 'warning')}")
    if report.errors:
        raise typer.Exit(EXIT_NO)


def _text(finding: Finding) -> str:
    where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    key = "" if finding.key is None else f"{finding.key}: "
    return f"{one_line(f'{where}: {finding.level}: {key}{finding.message}')}\n    {one_line(finding.advice)}"
