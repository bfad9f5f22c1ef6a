"""The command `activate`: print the activation text of a skill."""

from __future__ import annotations

from typing import Annotated

import typer

from server.cli.commands.options import Directories, FollowSymlinks, NoAdapt, Param, parse_name_values
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_text
from server.config.bootstrap import open_with_settings
from server.config.settings import SkillFolder
from server.protocol.activation.recipients import known_names, recipient_called
from skills_core.diagnostics import one_line
from skills_core.errors import UnknownSkillError
from skills_core.rendering import activation_inputs, render_activation, render_request

__all__ = ["activate"]


def activate(
    name: Annotated[str, typer.Argument(help="The skill's name.")],
    directories: Directories = None,
    *,
    param: Param = None,
    client: Annotated[
        str | None,
        typer.Option(
            metavar="CLIENT",
            help="Print the text for this client, given by its key or name.",
            show_default="any client",
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
