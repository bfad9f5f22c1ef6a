"""The command `script`: run a script of a skill."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from server.cli.commands.options import AsJson, FollowSymlinks, RequireSandbox, TrustWorkspace
from server.cli.completion import skill_names
from server.cli.console import (
    EXIT_LIMIT,
    EXIT_NOT_RUN,
    discard_stream,
    fail,
    json_text,
    messages_may_be_lost,
    print_notice,
)
from server.config.bootstrap import open_library, settings_of
from server.config.machine import Machine, current_places
from skills_core.diagnostics import one_line
from skills_core.errors import ScriptRefusedError, SkillChangedError, UnknownFileError, UnknownSkillError
from skills_core.scripts.environment import WorkingDirectory

if TYPE_CHECKING:
    from skills_core.scripts.process import ProcessEnding
    from skills_core.scripts.runner import ScriptResult
    from skills_core.scripts.tools import ScriptReport


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
        help="A folder that the script starts in, and may read and write.",
        show_default="none",
    ),
]
Cwd = Annotated[
    WorkingDirectory | None,
    typer.Option(
        help="Start the script in its copy of the skill (skill), in --workspace, or in an empty folder (scratch).",
        show_default="the workspace if given, else skill",
    ),
]


def script(  # noqa: PLR0913 - one parameter for each flag
    skill: Annotated[str, typer.Argument(help="The skill's name.", autocompletion=skill_names)],
    path: Annotated[str, typer.Argument(help="The script's path, relative to the skill's folder.")],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments for the script.")] = None,
    *,
    directories: SkillFolders = None,
    stdin: Stdin = None,
    workspace: Workspace = None,
    cwd: Cwd = None,
    network: Annotated[bool, typer.Option("--network", help="Allow network access from the sandbox.")] = False,
    require_sandbox: RequireSandbox = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Run a script of a skill, in a sandbox if available.

    Options go before the skill's name. Everything after the path is passed to the script.

    The exit code is the script's, or 128 plus the number of the signal that ended it. It is 124 if the script reached
    a limit, 125 if it was not run or stdout cannot be written, and 2 for wrong use. Stderr explains any code but 0.
    """
    from server.capabilities.scripts.factory import script_setup, variables_of
    from skills_core.scripts.runner import ScriptRunner
    from skills_core.scripts.tools import report_of

    machine = Machine(current_places())
    flags = {
        "follow_symlinks": follow_symlinks,
        "trust_workspace": trust_workspace,
        "require_sandbox": require_sandbox,
        "script_cwd": cwd,
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
        result = _run(partial(runner.run, owner, file.path, args or (), stdin=data, variables=variables))
    except (UnknownSkillError, UnknownFileError, ScriptRefusedError, SkillChangedError) as error:
        fail(str(error), EXIT_NOT_RUN)
    _print_report(report_of(owner, file.path, runner.setup.isolation.kind, result), result, as_json=as_json)


def _run(work: Callable[[], Awaitable[ScriptResult]]) -> ScriptResult:
    """Return the result of a script, or exit after a signal to this process."""
    from server.transport.signals import SIGNAL_EXIT_BASE, until_signalled

    try:
        return until_signalled(work)
    except KeyboardInterrupt:
        code = SIGNAL_EXIT_BASE + signal.SIGINT
    except SystemExit as ended:
        code = int(ended.code or 0)
    number = signal.Signals(code - SIGNAL_EXIT_BASE)
    return fail(f"ended by signal {number.value} ({number.name}), and the script with it", code)


def _print_report(report: ScriptReport, result: ScriptResult, *, as_json: bool) -> None:
    stdout, stderr = result.finished.stdout, result.finished.stderr
    if as_json:
        text = json_text({**report.facts, "stdout": report.stdout, "stderr": report.stderr})
        stdout, stderr = f"{text}\n".encode("utf-8", "backslashreplace"), b""
    fault = _print_bytes(stdout, stderr)
    if not report.succeeded:
        fail(one_line(report.summary), _exit_code(report.ending, report.exit_code))
    if fault:
        fail(f"the script succeeded, but its output cannot be written to stdout: {fault}", EXIT_NOT_RUN)


def _print_bytes(stdout: bytes, stderr: bytes) -> str:
    """Print on both streams; return why stdout cannot be written, else an empty text."""
    fault = ""
    if sys.stdout is None:
        fault = "it is closed"
    else:
        try:
            _write(sys.stdout, stdout)
        except OSError as error:
            discard_stream(sys.stdout)
            fault = error.strerror or str(error)
    if sys.stderr is not None:
        with messages_may_be_lost():
            _write(sys.stderr, stderr)
    return fault


def _exit_code(ending: ProcessEnding, exit_code: int | None) -> int:
    """Return the exit code of the command for a script that failed."""
    from server.transport.signals import SIGNAL_EXIT_BASE
    from skills_core.scripts.process import ProcessEnding

    if ending is ProcessEnding.NOT_STARTED:
        return EXIT_NOT_RUN
    if exit_code is None:
        return EXIT_LIMIT
    if exit_code < 0:
        return SIGNAL_EXIT_BASE - exit_code
    # Windows has unsigned codes of 32 bits, and Python exits with signed ones.
    return exit_code - (1 << 32) if exit_code >= 1 << 31 else exit_code


def _write(stream: TextIO, raw: bytes) -> None:
    stream.flush()
    left = memoryview(raw)
    while left:
        # With PYTHONUNBUFFERED, a write to a pipe may end early.
        left = left[stream.buffer.write(left) :]
    stream.flush()
