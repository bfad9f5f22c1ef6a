"""The command `audit`: look for what is dangerous or weak in skills, without a model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_text
from skills_core.audit.findings import Severity


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def audit(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Folders of skills, single skill folders or SKILL.md files."),
    ],
    *,
    output: Annotated[
        Format | None,
        typer.Option("--format", help="Print text, one JSON object, or a SARIF 2.1.0 log.", show_default="text"),
    ] = None,
    as_json: AsJson = False,
    rules: Annotated[
        list[str] | None, typer.Option("--rule", metavar="RULE", help="Apply only this rule; repeatable.")
    ] = None,
    min_severity: Annotated[
        Severity, typer.Option("--min-severity", help="Print findings of this severity and above.")
    ] = Severity.NOTE,
    no_suppressions: Annotated[
        bool,
        typer.Option(
            "--no-suppressions", help="Ignore the comments by which skills accept findings. For skills of others."
        ),
    ] = False,
) -> None:
    """Look for attacks and weak writing in every file of skills.

    The audit finds hidden text, injected instructions, dangerous commands, grants that are too wide and more. It asks
    no model and runs nothing. The exit code is 1 if there is an error that no suppression covers.
    """
    from server.capabilities.audit import report

    if as_json and output not in {None, Format.JSON}:
        fail(f"--json contradicts --format {output}; use one of them", EXIT_USAGE)
    output = Format.JSON if as_json else output or Format.TEXT
    applied = report.chosen_rules(rules or ())
    audited = [each for path in paths for each in report.audit_path(path, applied, suppressions=not no_suppressions)]
    shown = [report.shows(each, min_severity) for each in audited]
    if output is Format.JSON:
        print_json(report.audit_object(shown))
    elif output is Format.SARIF:
        print_json(report.sarif_object(shown, applied))
    else:
        for line in report.audit_lines(shown):
            print_text(line)
    if any(each.has_error for each in audited):
        raise typer.Exit(EXIT_NO)
