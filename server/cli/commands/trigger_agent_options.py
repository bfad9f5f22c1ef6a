"""The options of `triggers` that concern agents and the optimization of a description."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AgentCommandTemplate",
    "Apply",
    "DryRun",
    "Holdout",
    "Jobs",
    "MaxCalls",
    "Optimize",
    "Rounds",
    "RunSeconds",
    "Runs",
    "Seed",
    "Threshold",
    "TriggerWorkspace",
]


AgentCommandTemplate = Annotated[
    str | None,
    typer.Option(
        "--agent-command",
        metavar="TEMPLATE",
        help="A shell command that starts the agent, with {prompt} for the query and {skill} for the folder of the "
        "skill. Its output is read as that of --agent, or of any known agent.",
    ),
]
Runs = Annotated[int, typer.Option("--runs", min=1, max=100, metavar="N", help="Number of runs of each query.")]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="A query triggers if a larger share of its runs loads the skill.",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, metavar="N", help="Number of runs at once.")]
RunSeconds = Annotated[
    float, typer.Option("--timeout", min=1.0, max=3600.0, metavar="SECONDS", help="Seconds after which a run is ended.")
]
MaxCalls = Annotated[
    int,
    typer.Option(
        "--max-calls",
        min=1,
        max=1000,
        metavar="N",
        help="Number of tool calls after which an agent counts as working without the skill.",
    ),
]
Optimize = Annotated[
    bool,
    typer.Option(
        "--optimize", help="Revise the description with --model, and choose by queries that the model never sees."
    ),
]
Rounds = Annotated[int, typer.Option("--rounds", min=1, max=5, metavar="N", help="Most revisions of the description.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the split into training, validation and test.")]
Apply = Annotated[
    bool,
    typer.Option(
        "--apply",
        help="Write the adopted description into SKILL.md, and change nothing else. Without --optimize: that of the "
        "last optimization.",
    ),
]
Holdout = Annotated[
    Path | None,
    typer.Option("--holdout", metavar="FILE", help="Fresh queries for a last check, after everything is decided."),
]
TriggerWorkspace = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        metavar="DIR",
        help="The folder for results.",
        show_default="SKILL-workspace beside the skill's folder",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how many runs there are at most, and run nothing.")]
