"""The command `connect`: add this server to clients, or remove it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_text
from server.config.values import home_path
from server.transport.client_commands import USUAL_NAME
from skills_core.diagnostics import one_line
from skills_core.errors import similar_to

if TYPE_CHECKING:
    from server.capabilities.connect.changes import Change
    from server.capabilities.connect.clients import ClientFile

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# Clients put the name in front of the names of tools, which models see.

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CLIENT|DIR]...",
        help="Clients, such as claude-desktop or codex, and folders of skills; for a wrong one, all are listed.",
        show_default="the clients that are installed, the configured and standard folders",
    ),
]
Bridging = Annotated[
    bool | None,
    typer.Option(
        "--bridge/--no-bridge",
        help="Also write a stub of each skill where clients look for their own, or none.",
        show_default="for clients that show more so",
    ),
]


def connect(  # noqa: PLR0913 - one parameter for each flag
    words: Words = None,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="What the client calls this server.")] = USUAL_NAME,
    url: Annotated[
        str | None, typer.Option("--http", metavar="URL", help="Connect to a server that runs there, instead.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME: VALUE'",
            help="A header that clients send with --http, in which ${VARIABLE} is read by the client; repeatable.",
        ),
    ] = None,
    project: Annotated[bool, typer.Option("--project", help="Change the files of this project, not your own.")] = False,
    shown: Annotated[bool, typer.Option("--print", help="Print the entries, and change nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the server from the clients.")] = False,
    bridge: Bridging = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Change the files without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add this server to the configuration of clients, or remove it.

    Each change is shown first. A file is written as a whole or not at all, its comments stay, and what it was before is
    kept beside it. The server is started once, as the client will start it.
    """
    from server.capabilities.connect.changes import plan

    clients, folders = _chosen(words or ())
    headers = _headers(url, header or ())
    if url is not None and folders:
        fail("--http connects to a server that has its folders already: leave them out", EXIT_USAGE)
    if not remove and not _NAME.fullmatch(name):
        fail(f"--name {name!r}: expected letters, digits, hyphens and underscores, at most 64", EXIT_USAGE)
    if bridge and (url is not None or project):
        fail("--bridge is for your own files and a server that the client starts", EXIT_USAGE)
    changes = plan(clients, folders, name, url=url, headers=headers, project=project, remove=remove, bridge=bridge)
    if not changes:
        fail("no client that is known is installed here; name one, as in `skillserve connect cursor`", EXIT_NO)
    if as_json or shown:
        _print(changes, as_json=as_json)
        return
    made = [_made(change, folders, asks=not yes) for change in changes]
    if not all(made):
        raise SystemExit(EXIT_NO)


def _chosen(words: Sequence[str]) -> tuple[list[ClientFile], list[Path]]:
    """Return the clients and the folders among words; exit with a message if one is neither."""
    from server.capabilities.connect.clients import known_clients

    known = known_clients()
    folders = [home_path(word) for word in words if word not in known]
    for folder in folders:
        if not folder.is_dir():
            near = similar_to(str(folder), known)
            hint = f"; did you mean the client {near[0]}?" if near else ""
            fail(f"{folder}: neither a folder nor a client ({', '.join(known)}){hint}", EXIT_USAGE)
    return [known[word] for word in words if word in known], folders


def _made(change: Change, folders: Sequence[Path], *, asks: bool) -> bool:
    """Show a change and make it; return whether all is well, also where the user declines it."""
    from server.capabilities.connect.changes import apply
    from server.capabilities.connect.trial import try_server

    print_text(change.text())
    if change.fault:
        return False
    if not change.differs:
        return _with_stubs(change, folders)
    agreed = _asked(change) if asks else True
    if not agreed:
        return agreed is not None
    trial = None if change.removes else try_server(change.server, change.home)
    if trial is not None and not trial.works:
        print_text(f"  the server does not work as {change.client.title} will use it: {trial.message}")
        return False
    made = apply(change)
    if made.fault:
        print_text(f"  {one_line(made.fault)}; nothing was changed")
        return False
    print_text("\n".join(f"  {line}" for line in (trial and trial.message, f"done; {change.next}") if line))
    return _with_stubs(change, folders)


def _with_stubs(change: Change, folders: Sequence[Path]) -> bool:
    """Write the stubs of a client, or remove them; return whether all is well."""
    from server.capabilities.bridge.actions import remove_stubs, write_stubs

    if change.bridged is None:
        return True
    client, name = change.bridged, change.name
    outcome = remove_stubs(client, name) if change.removes else write_stubs(client, folders or None, name)
    report = outcome.report
    if report.differs or report.kept or report.fault:
        print_text("\n".join(f"  {line}" for line in outcome.lines()))
    return not report.fault and not (change.removes and report.kept)


def _asked(change: Change) -> bool | None:
    """Return whether the user agrees; None if nobody answers."""
    try:
        return typer.confirm(f"Write {one_line(str(change.file))}?", default=True)
    except typer.Abort:
        print_text("\n  nothing was changed: nobody answers; --yes does not ask")
        return None


def _print(changes: list[Change], *, as_json: bool) -> None:
    from server.capabilities.connect.clients import deeplink
    from server.capabilities.connect.documents import with_entry

    if as_json:
        print_json(
            {
                "clients": [
                    {
                        "client": each.client.key,
                        "file": str(each.file),
                        "path": [*each.client.path],
                        "entry": each.entry,
                        "deeplink": deeplink(each.client, each.name, each.entry),
                        "differs": each.differs,
                        "fault": each.fault or None,
                    }
                    for each in changes
                ]
            }
        )
        return
    for each in changes:
        print_text(one_line(f"{each.client.title}: {each.file}"))
        if each.entry is None:
            print_text(f"  {one_line(each.fault)}")
            continue
        print_text(with_entry("", each.client.format, each.path, each.entry, in_list=each.client.in_list).rstrip())
        for note in each.notes:
            print_text(f"  {note}")
        if link := deeplink(each.client, each.name, each.entry):
            print_text(f"or open {link}")


def _headers(url: str | None, given: Sequence[str]) -> dict[str, str]:
    """Return the headers by name; exit with a message if the address or one of them is invalid."""
    from server.wire.address import Address, AddressError

    if url is None and given:
        fail("--header goes with --http", EXIT_USAGE)
    try:
        return dict(Address.parse(url, given).headers) if url is not None else {}
    except AddressError as error:
        fail(f"--http: {error}", EXIT_USAGE)
