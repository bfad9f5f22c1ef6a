"""The command `guard`: a hook that agents run before each tool call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.commands.options import (
    ConventionFiles,
    Directories,
    FollowSymlinks,
    GitIgnored,
    Strict,
    TrustWorkspace,
)
from server.cli.console import EXIT_USAGE, fail


def guard(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    skill: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Apply only the patterns of this skill and of your settings; repeatable."),
    ] = None,
    no_skills: Annotated[bool, typer.Option("--no-skills", help="Apply only the patterns of your settings.")] = False,
    never_ask: Annotated[
        bool, typer.Option("--never-ask", help="Deny calls that need confirmation; for agents whose hooks cannot ask.")
    ] = False,
    project: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The project of the call.", show_default="the working directory of the call"),
    ] = None,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
    conventions: ConventionFiles = None,
    gitignore: GitIgnored = False,
) -> None:
    """Check a tool call as the PreToolUse hook of an agent.

    Reads the call as JSON from stdin. Prints the decision deny or ask as JSON, or nothing if the call is allowed.
    """
    from server.capabilities.guard.hook import HookOptions, answer_call

    options = HookOptions(
        tuple(directories or ()),
        tuple(skill or ()),
        no_skills=no_skills,
        never_ask=never_ask,
        project=project,
        strict=strict,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
        conventions=conventions,
        gitignore=gitignore,
    )
    if options.contradiction:
        fail(options.contradiction, EXIT_USAGE)
    raise SystemExit(answer_call(options))
