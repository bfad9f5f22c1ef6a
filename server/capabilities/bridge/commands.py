"""The command `bridge`: write stubs of the skills where a client looks for skills of its own, or remove them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.capabilities.bridge.settings import Bridged
from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.console import EXIT_NO, print_json, print_text
from server.config.bootstrap import open_with_settings
from server.config.machine import current_places
from server.transport.client_commands import USUAL_NAME
from skills_core.diagnostics import counted, one_line

if TYPE_CHECKING:
    from server.capabilities.bridge.stub_folder import StubReport

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
    """Write a stub of each skill where a client looks for skills of its own, or remove them.

    The client then lists the skills as its own, and a stub says to load the skill from this server. What somebody else
    wrote or edited is left alone. `serve --bridge CLIENT` keeps the stubs in step with the skills.
    """
    from server.capabilities.bridge.clients import bridged_clients
    from server.capabilities.bridge.stub_folder import sync_stubs
    from server.capabilities.bridge.stubs import WantedStubs, local_catalog, server_name, wanted_stubs

    chosen, home = bridged_clients()[client], current_places().home
    if remove:
        stubs, server = WantedStubs(), name or USUAL_NAME
    else:
        library, settings = open_with_settings(
            directories, server_name=name, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
        )
        seen = local_catalog(library.catalog, settings)
        stubs, server = wanted_stubs(chosen, seen, settings, home), server_name(settings)
    report = sync_stubs(chosen.place(home), stubs.texts, server)
    if as_json:
        print_json(_object(client, server, report, stubs.left_out))
    else:
        print_text("\n".join([f"{chosen.title}: {_shown(report.folder, home)}", *_lines(report, stubs.left_out)]))
    if report.fault or (remove and report.kept):
        raise SystemExit(EXIT_NO)


def _object(client: Bridged, server: str, report: StubReport, left_out: dict[str, str]) -> dict[str, object]:
    return {
        "client": client.value,
        "server": server,
        "folder": str(report.folder),
        "written": report.written,
        "removed": report.removed,
        "current": report.current,
        "kept": report.kept,
        "left_out": left_out,
        "fault": report.fault or None,
    }


def _lines(report: StubReport, left_out: dict[str, str]) -> list[str]:
    done = f"{counted(len(report.written), 'stub')} written, {len(report.removed)} removed, {report.current} up to date"
    lines = [done, *(f"{name} is left as it is: {why}" for name, why in report.kept.items())]
    lines += [f"{key} has no stub: {why}" for key, why in left_out.items()]
    lines += [f"nothing more can be written: {report.fault}"] if report.fault else []
    return [f"  {one_line(line)}" for line in lines]


def _shown(folder: Path, home: Path) -> str:
    return one_line(f"~/{folder.relative_to(home).as_posix()}" if folder.is_relative_to(home) else str(folder))
