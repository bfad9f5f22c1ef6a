"""Arguments and options of `triggers`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Catalogs", "Clients", "MaxFalse", "MinRecall", "NoModel", "QueryFile", "SkillDir", "WriteQueries"]

SkillDir = Annotated[Path, typer.Argument(metavar="SKILL_DIR", help="The folder of the skill.")]
NoModel = Annotated[bool, typer.Option("--no-model", help="Rank the skill by the server's search, without a model.")]
QueryFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file of queries.",
        show_default="evals/eval_queries.json or evals/trigger_queries.json of the skill",
    ),
]
Catalogs = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="A folder of skills to rank the skill among; repeatable, highest precedence first.",
        show_default="the configured and standard folders",
    ),
]
Clients = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY[@VERSION]",
        help="Tell whether this client shows the skill, such as claude-code; all for every known client; repeatable.",
        show_default="an unknown client",
    ),
]
MinRecall = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="Exit with code 1 if the skill is found first for a smaller share of the queries that should trigger.",
    ),
]
MaxFalse = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="Exit with code 1 if a larger share of the queries that should not trigger does.",
    ),
]
WriteQueries = Annotated[
    bool,
    typer.Option(
        "--write-queries", help="Draft twenty queries with the model into a new file of the skill, to be corrected."
    ),
]
