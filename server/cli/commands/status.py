"""The command `status`: list all skills with their states."""

from __future__ import annotations

from typing import Annotated

import typer

from server.cli.commands.options import (
    AsJson,
    ConventionFiles,
    Directories,
    FollowSymlinks,
    GitIgnored,
    Strict,
    TrustWorkspace,
)
from server.cli.console import print_json
from server.config.bootstrap import open_with_settings
from server.hosting.status import StatusFilter, audit_object, status_object
from skills_core.diagnostics import Reason
from skills_core.skill import State
from skills_core.sources import Scope

__all__ = ["status"]


def status(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    state: Annotated[list[State] | None, typer.Option(help="List only skills in this state; repeatable.")] = None,
    reason: Annotated[
        list[Reason] | None,
        typer.Option(metavar="CODE", help="List only skills with this reason code; repeatable."),
    ] = None,
    scope: Annotated[
        list[Scope] | None, typer.Option(help="List only skills from sources of this scope; repeatable.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="List only skills whose names match a pattern such as 'sql-*'; repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
    conventions: ConventionFiles = None,
    gitignore: GitIgnored = False,
) -> None:
    """List all skills with their states and the reasons for them."""
    library, settings = open_with_settings(
        directories,
        strict=strict,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
        conventions=conventions,
        gitignore=gitignore,
    )
    catalog = library.catalog
    choice = StatusFilter(tuple(state or ()), tuple(reason or ()), tuple(scope or ()), tuple(name or ()))
    if as_json:
        print_json(status_object(catalog, settings, choice))
        return
    from server.cli.tables import print_status
    from server.listing.runs import runs_object
    from server.scripts.factory import script_status

    print_status(catalog, choice, runs_object(settings), script_status(settings), audit_object(settings.audit))
