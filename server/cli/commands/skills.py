"""The commands that show skills: `activate`, `catalog`, `list`, `show` and `status`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.client_lists import name_and_version
from server.cli.commands.options import (
    AsJson,
    ConventionFiles,
    Directories,
    FollowSymlinks,
    GitIgnored,
    NoAdapt,
    Param,
    SkillName,
    Strict,
    TrustWorkspace,
    parse_name_values,
)
from server.cli.completion import client_names, role_names
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.config.bootstrap import open_with_settings
from server.config.settings.skills import SkillFolder
from server.hosting.status import (
    StatusFilter,
    capability_lines,
    diagnostic_lines,
    display_path,
    index_lines,
    index_object,
    skill_object,
    status_object,
)
from server.protocol.recipients import known_names, recipient_called
from skills_core.diagnostics import Reason, counted, one_line, printable
from skills_core.disk.sources import Scope
from skills_core.errors import UnknownSkillError, did_you_mean, similar_to
from skills_core.rendering.activation import activation_inputs, render_activation, render_request
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from server.config.settings.model import Settings
    from server.hosting.views import SeenByRoles
    from server.listing.snapshot import Snapshot
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


def activate(
    name: SkillName,
    directories: Directories = None,
    *,
    param: Param = None,
    client: Annotated[
        str | None,
        typer.Option(
            metavar="CLIENT",
            help="Print the text for this client, given by its key or name.",
            show_default="any client",
            autocompletion=client_names,
        ),
    ] = None,
    follow_symlinks: FollowSymlinks = False,
    no_adapt: NoAdapt = False,
) -> None:
    """Print what a model receives when it activates a skill."""
    parameters = parse_name_values(param)
    try:
        library, settings = open_with_settings(directories, follow_symlinks=follow_symlinks, no_adapt=no_adapt)
        skill = library.catalog.skill(name)
    except UnknownSkillError as error:
        fail(str(error), EXIT_NO)
    near = settings.clients.skill_folder is not SkillFolder.NEVER
    recipient = recipient_called(client, settings, local=near)
    if recipient is None:
        known = ", ".join(known_names(settings))
        fail(f"--client: unknown client {one_line(client or '')[:200]!r}; expected one of {known}", EXIT_USAGE)
    values, message = activation_inputs(skill, parameters)
    print_text(render_activation(skill, values, recipient))
    if message:
        print_text(render_request(skill, message))


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
            help="Print what this client receives, given by its key or name; without a version, the latest one.",
            show_default="any other client",
            autocompletion=client_names,
        ),
    ] = None,
    shown: Annotated[
        CatalogFormat,
        typer.Option(
            "--format",
            help="Print everything with headings (text), or one part; xml is the block of skills-ref to-prompt.",
        ),
    ] = CatalogFormat.TEXT,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Print the catalog of skills as a client receives it.

    It consists of the server's instructions and of the tool activate_skill: its description and the names in its enum.
    """
    from server.cli.client_lists import served_lists

    if as_json and shown is not CatalogFormat.TEXT:
        fail(f"--json prints everything, so it cannot be combined with --format {shown.value}", EXIT_USAGE)
    if client and shown is CatalogFormat.XML:
        fail("--format xml is the same for every client; leave out --client", EXIT_USAGE)
    profile = _profile_of(client)
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
    lists = served_lists(library.catalog, settings)
    if shown is CatalogFormat.XML:
        _print_xml(lists)
    else:
        _print_received(lists, profile, shown, as_json=as_json)
    if not library.catalog.offered:
        fail("no skill is offered to models, so clients receive no catalog; `skillserve status` says why", EXIT_NO)


def _profile_of(chosen: str | None) -> ClientProfile:
    from server.clients.known import KNOWN_CLIENTS, find_client
    from server.clients.profile import UNKNOWN
    from skills_core.errors import did_you_mean, similar_to

    name, version = name_and_version(chosen or "")
    profile = find_client(name or "", version)
    if name and profile is UNKNOWN and name != UNKNOWN.key:
        hint = did_you_mean(similar_to(name, [client.key for client in KNOWN_CLIENTS]))
        shown = one_line(name)[:100]
        print_notice(f"no facts are known of a client {shown!r}; this is what every unknown client receives.{hint}")
    return profile


def _print_xml(lists: Snapshot) -> None:
    from skills_core.rendering.catalog import listing_order, render_available_skills

    print_text(render_available_skills(listing_order(lists.catalog, lists.first)))


def _print_received(lists: Snapshot, client: ClientProfile, shown: CatalogFormat, *, as_json: bool) -> None:
    from server.clients.layout import activation_tool, instructions_for

    tool, instructions = activation_tool(lists, client), instructions_for(lists, client)
    if as_json:
        print_json({"client": client.key, "title": client.title, "instructions": instructions, "tool": tool})
    elif tool is not None:
        names = tool["inputSchema"]["properties"]["name"].get("enum", ())
        print_text(_catalog_text(shown, instructions or "", tool["description"], "\n".join(names)))


def _catalog_text(shown: CatalogFormat, instructions: str, description: str, names: str) -> str:
    parts = {
        CatalogFormat.INSTRUCTIONS: ("Instructions of the server", instructions),
        CatalogFormat.DESCRIPTION: ("Description of activate_skill", description),
        CatalogFormat.NAMES: ("Names in its enum", names),
    }
    if shown in parts:
        return parts[shown][1]
    return "\n\n".join(f"{heading}:\n{text}" for heading, text in parts.values())


def show(
    name: SkillName,
    directories: Directories = None,
    *,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
) -> None:
    """Show the fields, files and diagnostics of a skill."""
    catalog = open_with_settings(directories, follow_symlinks=follow_symlinks)[0].catalog
    found = [skill for skill in catalog.skills if name in {skill.key, skill.path, *skill.content.names}]
    if not found:
        similar = similar_to(name, (skill.key for skill in catalog.skills))
        hint = did_you_mean(similar, "; did") or "; `skillserve list` lists those that are served"
        fail(f"there is no skill {name[:200]!r}{hint}", EXIT_NO)
    if as_json:
        print_json({"skills": [_skill_document(skill_object(skill), skill) for skill in found]})
        return
    for skill in found:
        _print_skill(skill)


def _print_skill(skill: Skill) -> None:
    """Print the fields, files and diagnostics of a skill."""
    front = skill.frontmatter
    rows = {
        "name": skill.name,
        "state": skill.state.value + (f" ({skill.reason.value}: {skill.detail})" if skill.reason else ""),
        "description": front.description,
        "place": display_path(skill),
        "uri": skill.uri,
        "digest": skill.digest or "",
        "license": front.license or "",
        "version": front.version or "",
        "tags": ", ".join(front.tags),
        "allowed tools": " ".join(front.allowed_tools or ()),
    }
    lines = [f"{name + ':':<15}{value}" for name, value in rows.items() if value]
    lines += [
        "files:",
        *(f"  {file.size:>9}  {printable(file.path)}" for file in skill.content.files.values()),
    ]
    lines += [line for diagnostic in skill.diagnostics for line in diagnostic_lines(diagnostic)]
    print_text("\n".join(lines))


def _skill_document(document: dict[str, Any], skill: Skill) -> dict[str, Any]:
    files = [
        {
            "path": printable(file.path),
            "uri": skill.file_uri(file.path),
            "size": file.size,
            "digest": file.digest,
        }
        for file in skill.content.files.values()
    ]
    return {**document, "frontmatter": skill.frontmatter.raw, "files": files}


AsRole = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        metavar="ROLE",
        help="Show what a caller with this role sees; repeatable.",
        show_default="what the server's user sees",
        autocompletion=role_names,
    ),
]


def list_skills(
    directories: Directories = None,
    *,
    roles: AsRole = None,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """List the skills that are served, with their descriptions.

    `status` lists all skills, also those that are not served and why; `show` has all about one skill.
    """
    library, settings = open_with_settings(
        directories, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    )
    seen = _seen_by(roles, library.catalog, settings)
    catalog = seen.catalog if seen else library.catalog
    if as_json:
        described = [{"name": printable(each.key), "description": each.description} for each in catalog.active]
        print_json({"skills": described, **_role_object(seen)})
        return
    if seen:
        print_text(_role_line(seen, library.catalog))
    if not seen or catalog.active:
        from server.cli.tables import print_list

        print_list(catalog)


def _seen_by(roles: list[str] | None, catalog: Catalog, settings: Settings) -> SeenByRoles | None:
    """Return what callers with these roles see, None if none were asked for."""
    if not roles:
        return None
    from server.hosting.views import seen_by

    return seen_by(roles, catalog, settings)


def _role_line(seen: SeenByRoles, whole: Catalog) -> str:
    """Return how much of a catalog callers with some roles see, and which optional tools they may use."""
    names, tools = ", ".join(seen.roles), ", ".join(seen.tools) or "none"
    served = f"{len(seen.catalog.active):,} of {counted(len(whole.active), 'served skill')}"
    return one_line(f"A caller with the {_noun(seen)} {names} sees {served}. Optional tools: {tools}.")


def _noun(seen: SeenByRoles) -> str:
    return "role" if len(seen.roles) == 1 else "roles"


def _role_object(seen: SeenByRoles | None) -> dict[str, Any]:
    return {"as": {"roles": [*seen.roles], "tools": [*seen.tools]}} if seen else {}


def status(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    roles: AsRole = None,
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
    """List all skills with their states and the reasons for them.

    `list` is the short form: the skills that are served, with their descriptions.
    """
    library, settings = open_with_settings(
        directories,
        strict=strict,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
        conventions=conventions,
        gitignore=gitignore,
    )
    seen = _seen_by(roles, library.catalog, settings)
    catalog = seen.catalog if seen else library.catalog
    choice = StatusFilter(tuple(state or ()), tuple(reason or ()), tuple(scope or ()), tuple(name or ()))
    if as_json:
        index = index_object(library.index_state())
        print_json({**status_object(catalog, settings, choice), **index, **_role_object(seen)})
        return
    from server.cli.tables import print_status

    if seen:
        print_text(_role_line(seen, library.catalog))
    if not seen or catalog.skills:
        print_status(catalog, choice, [*index_lines(library.index_state()), *capability_lines(settings)])
