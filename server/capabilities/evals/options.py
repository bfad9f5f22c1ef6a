"""Options of `eval` and `triggers`: what of this disk an agent has, what they may cost, what their results must be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from server.cli.help_pages import OptionGroup

_AGENT: Final = "The agent under test"
_COSTS: Final = "Costs"
# Sections of the help.

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

MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        min=0.000001,
        metavar="USD",
        help="Stop before more dollars are used in this workspace within 24 hours.",
        show_default="evals.max_cost",
        rich_help_panel=_COSTS,
    ),
]
MaxRequests = Annotated[
    int | None,
    typer.Option(
        "--max-requests",
        min=1,
        metavar="N",
        help="Stop before more requests are made; a start of a coding agent counts as one.",
        show_default="evals.max_requests",
        rich_help_panel=_COSTS,
    ),
]
MaxSeconds = Annotated[
    int | None,
    typer.Option(
        "--max-seconds",
        min=1,
        metavar="S",
        help="Begin nothing after so many seconds of work.",
        show_default="evals.max_seconds",
        rich_help_panel=_COSTS,
    ),
]
PriceIn = Annotated[
    float | None,
    typer.Option(
        "--price-in",
        min=0,
        metavar="USD",
        help="Price of a million input tokens of the agent, where it reports no cost.",
        show_default="runs.prices, then known prices",
        rich_help_panel=_COSTS,
    ),
]
PriceOut = Annotated[
    float | None,
    typer.Option(
        "--price-out",
        min=0,
        metavar="USD",
        help="Price of a million output tokens of the agent.",
        show_default="runs.prices, then known prices",
        rich_help_panel=_COSTS,
    ),
]
MinPassRate = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="RATE",
        help="Exit with code 1 if the pass rate is lower, or cannot be measured.",
        rich_help_panel=OptionGroup.REPORTS,
    ),
]

MaxRegression = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="RATE",
        help="Exit with code 1 if the pass rate is lower than the baseline's by more than this.",
        rich_help_panel=OptionGroup.REPORTS,
    ),
]

MinRecall = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="Exit with code 1 if a smaller share of the wanted queries finds the skill first.",
        rich_help_panel=OptionGroup.REPORTS,
    ),
]

MaxFalse = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="Exit with code 1 if a larger share of the unwanted queries finds the skill.",
        rich_help_panel=OptionGroup.REPORTS,
    ),
]
