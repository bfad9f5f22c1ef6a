"""The command `bridge`: write stubs of the skills where a client looks for skills of its own, or remove them."""

from __future__ import annotations

from typing import Annotated

import typer

from server.capabilities.bridge.settings import Bridged
from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.console import EXIT_NO, print_json, print_text
from server.transport.client_commands import USUAL_NAME

ClientName = Annotated[Bridged, typer.Argument(metavar="CLIENT", help="The client, such as claude-code or codex.")]
ServerName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="What the client calls this server.", show_default=USUAL_NAME),
]
Remove = Annotated[bool, typer.Option("--remove", help="Remove the stubs of this server.")]


def bridge(
    client: ClientName,
    directories: Directories = None,
    *,
    name: ServerName = None,
    remove: Remove = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Write stubs of the skills where a client looks for its own.

    The client then lists the skills as its own, and a stub says to load the skill from this server. What somebody else
    wrote or edited is left alone. `serve --bridge CLIENT` keeps the stubs in step with the skills.
    """
    from server.capabilities.bridge.actions import remove_stubs, write_stubs
    from server.capabilities.bridge.clients import bridged_clients

    chosen = bridged_clients()[client]
    if remove:
        outcome = remove_stubs(chosen, name)
    else:
        flags = {"follow_symlinks": follow_symlinks, "trust_workspace": trust_workspace}
        outcome = write_stubs(chosen, directories, name, **flags)
    report = outcome.report
    if as_json:
        print_json(
            {
                "client": chosen.key,
                "server": outcome.server,
                "folder": str(report.folder),
                "written": report.written,
                "removed": report.removed,
                "current": report.current,
                "kept": report.kept,
                "left_out": outcome.left_out,
                "fault": report.fault or None,
            }
        )
    else:
        print_text("\n".join([chosen.title, *(f"  {line}" for line in outcome.lines())]))
    if report.fault or (remove and report.kept):
        raise SystemExit(EXIT_NO)
