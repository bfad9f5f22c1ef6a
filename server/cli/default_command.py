"""Groups of commands with a default: what names no command belongs to it."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

__all__ = ["group_with_default"]


def group_with_default(name: str) -> type[TyperGroup]:
    """Return a kind of group in which arguments that begin with no command, or are none, are those of `name`."""

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer does not export the type
            """Insert the default command, unless a command or the help is asked for."""
            if not (args and (args[0] in self.commands or args[0] == "--help")):
                args = [name, *args]
            return super().parse_args(ctx, args)

    return Group
