"""The command that hosts run before each call of a tool: `guard`."""

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
from server.cli.console import WRONG_USE, fail
from server.hook.options import HookOptions

__all__ = ["guard"]

Project = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The project; by default the one that the call is made in.")
]


def guard(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    skill: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only the patterns of this skill count, and your own; may be repeated."),
    ] = None,
    no_skills: Annotated[bool, typer.Option("--no-skills", help="Only your own patterns count.")] = False,
    never_ask: Annotated[
        bool, typer.Option("--never-ask", help="Deny what you would be asked for; for hosts whose hooks cannot ask.")
    ] = False,
    project: Project = None,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
    conventions: ConventionFiles = None,
    gitignore: GitIgnored = False,
) -> None:
    """Answer a host's PreToolUse hook: JSON of a call on stdin, deny or ask on stdout, nothing where it may pass."""
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
        fail(options.contradiction, WRONG_USE)
    from server.hook.run import answer_call

    raise SystemExit(answer_call(options))
