"""The options of commands that write reports and check gates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Ci", "Junit", "Markdown", "MaxRegression", "MinPassRate"]

Ci = Annotated[
    bool,
    typer.Option("--ci", help="Print plain lines, without a progress bar, a table or colours, for the log of a job."),
]

Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the newest results as JUnit XML.")]

Markdown = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a summary as Markdown.")]

MinPassRate = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, metavar="RATE", help="Exit with code 1 if the pass rate is lower, or cannot be measured."
    ),
]

MaxRegression = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="RATE",
        help="Exit with code 1 if the pass rate is lower than the baseline's by more than this, or cannot be compared.",
    ),
]
