"""Find out why it does not work: one list of what can be wrong, checked by `doctor` and told by a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capability import Capability

if TYPE_CHECKING:
    import typer


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.doctor.commands import doctor
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.OPERATE)(doctor)


def _greet() -> None:
    from server.capabilities.doctor.welcome import greet

    greet()


CAPABILITY: Final = Capability(name="doctor", commands=_add_commands, greet=_greet)
