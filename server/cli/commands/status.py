"""The commands that look at skills: `status`, `show` and `activate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import (
    AsJson,
    ConventionFiles,
    Directories,
    FollowSymlinks,
    GitIgnored,
    NoAdapt,
    Param,
    Strict,
    TrustWorkspace,
    values_of,
)
from server.cli.console import NO, WRONG_USE, fail, print_json, print_text
from server.cli.validation_report import print_skill
from server.config.bootstrap import open_quietly, open_with_settings
from server.hosting.status import skill_object, status_object
from server.hosting.status_filter import StatusChoice
from server.protocol.activation.recipients import known_names, recipient_called
from skills_core.diagnostics import Reason, one_line, printable
from skills_core.errors import UnknownSkillError, did_you_mean, similar_to
from skills_core.rendering import activation_inputs, render_activation, render_request
from skills_core.skill import State
from skills_core.sources import Scope

if TYPE_CHECKING:
    from skills_core.skill import Skill

__all__ = ["activate", "show", "status"]


def status(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    state: Annotated[list[State] | None, typer.Option(help="Only skills in this state; may be repeated.")] = None,
    reason: Annotated[
        list[Reason] | None,
        typer.Option(metavar="CODE", help="Only skills with this reason for their state; may be repeated."),
    ] = None,
    scope: Annotated[list[Scope] | None, typer.Option(help="Only skills of such a source; may be repeated.")] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only skills with such a name, as in 'sql-*'; may be repeated."),
    ] = None,
    as_json: AsJson = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
    conventions: ConventionFiles = None,
    gitignore: GitIgnored = False,
) -> None:
    """Show every skill that was found, its state, and why."""
    library, settings = open_with_settings(
        directories,
        strict=strict,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
        conventions=conventions,
        gitignore=gitignore,
    )
    catalog = library.catalog
    choice = StatusChoice(tuple(state or ()), tuple(reason or ()), tuple(scope or ()), tuple(name or ()))
    if as_json:
        print_json(status_object(catalog, settings, choice))
        return
    from server.cli.tables import print_status
    from server.listing.runs import runs_object
    from server.scripts.factory import script_status

    print_status(catalog, choice, runs_object(settings), script_status(settings))


def show(
    name: Annotated[str, typer.Argument(help="The skill's name.")],
    directories: Directories = None,
    *,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
) -> None:
    """Show one skill: its fields, files and diagnostics."""
    catalog = open_quietly(directories, follow_symlinks=follow_symlinks).catalog
    found = [skill for skill in catalog.skills if name in {skill.key, skill.name, skill.path}]
    if not found:
        similar = similar_to(name, (skill.key for skill in catalog.skills))
        fail(f"there is no skill {name[:200]!r}{did_you_mean(similar, '; did')}", NO)
    if as_json:
        print_json({"skills": [_with_files(skill_object(skill), skill) for skill in found]})
        return
    for skill in found:
        print_skill(skill)


def activate(
    name: Annotated[str, typer.Argument(help="The skill's name.")],
    directories: Directories = None,
    *,
    param: Param = None,
    client: Annotated[
        str | None, typer.Option(metavar="CLIENT", help="The text for this client, by its key or name; for any.")
    ] = None,
    follow_symlinks: FollowSymlinks = False,
    no_adapt: NoAdapt = False,
) -> None:
    """Print the text that activating a skill hands to a model."""
    given = values_of(param)
    try:
        library, settings = open_with_settings(directories, follow_symlinks=follow_symlinks, no_adapt=no_adapt)
        skill = library.catalog.skill(name)
    except UnknownSkillError as error:
        fail(str(error), NO)
    recipient = recipient_called(client, settings, local=True)
    if recipient is None:
        known = ", ".join(known_names(settings))
        fail(f"--client {one_line(client or '')[:200]!r}: nothing is known of it; expected one of {known}", WRONG_USE)
    values, message = activation_inputs(skill, given)
    print_text(render_activation(skill, values, recipient))
    if message:
        print_text(render_request(skill, message))


def _with_files(described: dict[str, Any], skill: Skill) -> dict[str, Any]:
    files = [
        {
            "path": printable(file.path),
            "uri": skill.file_uri(file.path),
            "size": file.size,
            "digest": file.digest,
        }
        for file in skill.content.files.values()
    ]
    return {**described, "frontmatter": skill.frontmatter.raw, "files": files}
