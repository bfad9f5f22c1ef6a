"""The command that tells what clients show of a catalog: `visibility`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.console import NO, WRONG_USE, fail, print_json
from server.config.bootstrap import open_with_settings
from server.config.machine import state_home
from skills_core.errors import did_you_mean, similar_to

if TYPE_CHECKING:
    from server.clients import ClientProfile

__all__ = ["visibility"]


def visibility(
    directories: Directories = None,
    *,
    client: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Only this client, such as claude-code; may be repeated.")
    ] = None,
    window: Annotated[
        int, typer.Option(min=1000, help="Tokens of the model's context, where a client's budget is a share of it.")
    ] = 200_000,
    fail_on_hidden: Annotated[
        bool, typer.Option("--fail-on-hidden", help="Exit with 1 where a client does not show a skill wholly.")
    ] = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Tell what each client will show of the skills, which clash, and what would change that."""
    from server.hosting.usage import read_counts, usage_file
    from server.listing.snapshot import Snapshot
    from server.scripts.factory import offers_scripts, script_setup
    from server.visibility.json_report import overview_object
    from server.visibility.report import overview

    clients = _chosen(client or ())
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
    used = read_counts(usage_file(state_home())) if settings.usage else {}
    scripts = script_setup(settings) if offers_scripts(settings) else None
    found = overview(Snapshot(library.catalog, settings, used, scripts=scripts), clients, window)
    if as_json:
        print_json(overview_object(found))
    else:
        from server.cli.tables import console_for_people
        from server.visibility.text_report import print_overview

        print_overview(console_for_people(), found)
    if fail_on_hidden and any(view.hides for view in found.views):
        raise SystemExit(NO)


def _chosen(keys: list[str] | tuple[str, ...]) -> list[ClientProfile]:
    from server.clients import KNOWN_CLIENTS, UNKNOWN

    known = {client.key: client for client in (*KNOWN_CLIENTS, UNKNOWN)}
    for key in keys:
        if key not in known:
            hint = did_you_mean(similar_to(key, known), "; did") or f"; known are {', '.join(known)}"
            fail(f"--client {key[:100]!r} is not known{hint}", WRONG_USE)
    return [known[key] for key in dict.fromkeys(keys)] or list(KNOWN_CLIENTS)
