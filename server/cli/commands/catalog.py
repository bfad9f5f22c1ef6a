"""The command `catalog`: print the catalog of skills that a client receives."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.client_choice import name_and_version
from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.config.bootstrap import open_with_settings
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.clients import ClientProfile
    from server.listing.snapshot import Snapshot

__all__ = ["catalog"]


class CatalogFormat(StrEnum):
    """What the command prints; the values are those of `--format`."""

    TEXT = "text"
    DESCRIPTION = "description"
    INSTRUCTIONS = "instructions"
    NAMES = "names"
    XML = "xml"


def catalog(
    directories: Directories = None,
    *,
    client: Annotated[
        str | None,
        typer.Option(
            metavar="CLIENT[@VERSION]",
            help="Print what this client receives, given by its key or by the name that it sends; without a version, "
            "what its latest one receives.",
            show_default="any other client",
        ),
    ] = None,
    shown: Annotated[
        CatalogFormat,
        typer.Option(
            "--format",
            help="Print everything with headings (text), or only the description of activate_skill, the server's "
            "instructions, or the names in the enum; xml is the <available_skills> block of skills-ref to-prompt.",
        ),
    ] = CatalogFormat.TEXT,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Print the catalog of skills as a client receives it.

    It consists of the server's instructions and of the tool activate_skill: its description and the names in its enum.
    """
    from server.cli.served_lists import served_lists

    if as_json and shown is not CatalogFormat.TEXT:
        fail(f"--json prints everything, so it cannot be combined with --format {shown.value}", EXIT_USAGE)
    if client and shown is CatalogFormat.XML:
        fail("--format xml is the same for every client; leave out --client", EXIT_USAGE)
    profile = _profile(client)
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
    lists = served_lists(library.catalog, settings)
    if shown is CatalogFormat.XML:
        _print_xml(lists)
    else:
        _print_received(lists, profile, shown, as_json=as_json)
    if not library.catalog.offered:
        fail("no skill is offered to models, so clients receive no catalog", EXIT_NO)


def _profile(chosen: str | None) -> ClientProfile:
    from server.clients import KNOWN_CLIENTS, UNKNOWN, profile_called
    from skills_core.errors import did_you_mean, similar_to

    name, version = name_and_version(chosen or "")
    profile = profile_called(name, KNOWN_CLIENTS, version)
    if name and profile is UNKNOWN and name != UNKNOWN.key:
        hint = did_you_mean(similar_to(name, [client.key for client in KNOWN_CLIENTS]))
        shown = one_line(name)[:100]
        print_notice(f"no facts are known of a client {shown!r}; this is what every unknown client receives.{hint}")
    return profile


def _print_xml(lists: Snapshot) -> None:
    from skills_core.rendering import listing_order
    from skills_core.rendering.catalog import render_available_skills

    print_text(render_available_skills(listing_order(lists.catalog, lists.first)))


def _print_received(lists: Snapshot, client: ClientProfile, shown: CatalogFormat, *, as_json: bool) -> None:
    from server.visibility.visible_texts import activation_tool, instructions_for

    tool, instructions = activation_tool(lists, client), instructions_for(lists, client)
    if as_json:
        print_json({"client": client.key, "title": client.title, "instructions": instructions, "tool": tool})
    elif tool is not None:
        names = tool["inputSchema"]["properties"]["name"].get("enum", ())
        print_text(_text(shown, instructions or "", tool["description"], "\n".join(names)))


def _text(shown: CatalogFormat, instructions: str, description: str, names: str) -> str:
    parts = {
        CatalogFormat.INSTRUCTIONS: ("Instructions of the server", instructions),
        CatalogFormat.DESCRIPTION: ("Description of activate_skill", description),
        CatalogFormat.NAMES: ("Names in its enum", names),
    }
    if shown in parts:
        return parts[shown][1]
    return "\n\n".join(f"{heading}:\n{text}" for heading, text in parts.values())
