"""The command `script`: run a script of a skill."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import AsJson, FollowSymlinks, RequireSandbox, TrustWorkspace
from server.cli.console import EXIT_NO, fail, print_json, print_notice
from server.config.bootstrap import open_library, settings_of
from server.config.machine import Machine, current_places
from skills_core.diagnostics import one_line
from skills_core.errors import ScriptRefusedError, SkillChangedError, UnknownFileError, UnknownSkillError

if TYPE_CHECKING:
    from server.scripts.report import ScriptReport
    from skills_core.run.scripts.runner import ScriptResult

__all__ = ["script"]


SkillFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="A folder of skills; repeatable.",
        show_default="the configured and standard folders",
    ),
]
Stdin = Annotated[
    typer.FileBinaryRead | None,
    typer.Option(metavar="FILE", help="Read the script's stdin from this file; - for stdin.", show_default="empty"),
]
Workspace = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The working directory of the script, where it may write.",
        show_default="an empty temporary folder",
    ),
]


def script(  # noqa: PLR0913 - one parameter for each flag
    skill: Annotated[str, typer.Argument(help="The skill's name.")],
    path: Annotated[str, typer.Argument(help="The script's path, relative to the skill's folder.")],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments for the script.")] = None,
    *,
    directories: SkillFolders = None,
    stdin: Stdin = None,
    workspace: Workspace = None,
    network: Annotated[bool, typer.Option("--network", help="Allow network access from the sandbox.")] = False,
    require_sandbox: RequireSandbox = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Run a script of a skill, in a sandbox if available.

    Options go before the skill's name. Everything after the path is passed to the script.
    """
    from server.scripts.factory import script_setup, variables_of
    from server.scripts.report import report_of
    from server.transport.signals import until_signalled
    from skills_core.run.scripts.runner import ScriptRunner

    machine = Machine(current_places())
    flags = {
        "follow_symlinks": follow_symlinks,
        "trust_workspace": trust_workspace,
        "require_sandbox": require_sandbox,
        "script_network": network,
        "script_workspace": str(workspace.absolute()) if workspace else None,
    }
    settings = settings_of(machine, flags)
    runner = ScriptRunner(script_setup(settings))
    catalog = open_library(directories, settings, machine).catalog
    try:
        owner = catalog.skill(skill)
        file = catalog.file_of(owner, path)
        data = stdin.read() if stdin else b""
        if not runner.setup.refuses and (warning := runner.setup.isolation.warning):
            print_notice(f"warning: {warning}")
        variables = variables_of(owner)
        result = until_signalled(partial(runner.run, owner, file.path, args or (), stdin=data, variables=variables))
    except (UnknownSkillError, UnknownFileError, ScriptRefusedError, SkillChangedError) as error:
        fail(str(error), EXIT_NO)
    _print_report(report_of(owner, file.path, runner.setup.isolation.kind, result), result, as_json=as_json)


def _print_report(report: ScriptReport, result: ScriptResult, *, as_json: bool) -> None:
    if as_json:
        print_json({**report.facts, "stdout": report.stdout, "stderr": report.stderr})
    else:
        _print_bytes(result.finished.stdout, result.finished.stderr)
    if not report.succeeded:
        fail(one_line(report.summary), EXIT_NO)


def _print_bytes(stdout: bytes, stderr: bytes) -> None:
    for stream, raw in ((sys.stdout, stdout), (sys.stderr, stderr)):
        stream.flush()
        stream.buffer.write(raw)
        stream.flush()
