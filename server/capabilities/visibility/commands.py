"""The command `visibility`: report what clients show of the skills."""

from __future__ import annotations

from typing import Annotated

import typer

from server.cli.client_lists import chosen_clients
from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.completion import client_names
from server.cli.console import EXIT_NO, print_json
from server.config.bootstrap import open_with_settings

Clients = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY[@VERSION]",
        help="Report on this client only, such as claude-code or claude-code@2.1.200; repeatable.",
        autocompletion=client_names,
    ),
]
Window = Annotated[
    int,
    typer.Option(
        min=1000,
        metavar="TOKENS",
        help="The size of the model's context window; the budgets of some clients are a share of it.",
    ),
]
FailOnHidden = Annotated[
    bool, typer.Option("--fail-on-hidden", help="Exit with code 1 if a client hides or shortens a skill.")
]
Table = Annotated[bool, typer.Option("--table", help="Print all figures, what would show more, and skills that clash.")]


def visibility(
    directories: Directories = None,
    *,
    client: Clients = None,
    window: Window = 200_000,
    fail_on_hidden: FailOnHidden = False,
    table: Table = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Report what each client shows of the skills.

    Clients shorten long lists and descriptions. --table also names skills that clash, and says how to show more.
    """
    from server.capabilities.visibility.json_report import report_object
    from server.capabilities.visibility.report import visibility_report
    from server.cli.client_lists import served_lists
    from server.clients.known import KNOWN_CLIENTS

    clients = chosen_clients(client or ()) or [(known, None) for known in KNOWN_CLIENTS]
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
    found = visibility_report(served_lists(library.catalog, settings), clients, window)
    if as_json:
        print_json(report_object(found))
    else:
        from server.capabilities.visibility.text_report import print_report, print_sentences
        from server.cli.tables import console_for_people

        (print_report if table else print_sentences)(console_for_people(), found)
    if fail_on_hidden and any(client.hides_skills for client in found.clients):
        raise SystemExit(EXIT_NO)
