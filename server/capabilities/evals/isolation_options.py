"""The options that say what of this disk an agent has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

_AGENT: Final = "The agent under test"
# The section of the help.

AgentHome = Annotated[
    Path | None,
    typer.Option(
        "--agent-home",
        metavar="DIR",
        help="A folder, such as one with a login, that each run has a copy of as its home.",
        rich_help_panel=_AGENT,
    ),
]
Readable = Annotated[
    list[Path] | None,
    typer.Option(
        "--readable",
        metavar="PATH",
        help="A file or folder that the isolated agent may read besides its program and the system; repeatable.",
        rich_help_panel=_AGENT,
    ),
]
NoIsolation = Annotated[
    bool,
    typer.Option(
        "--no-isolation",
        help="Let the agent read this whole disk, for one that cannot work in a sandbox; the results say so.",
        rich_help_panel=_AGENT,
    ),
]
