"""Arguments and flags that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.console import WRONG_USE, fail
from server.config.settings import Conventions
from skills_core.run.tools.workspace_names import WorkspaceTool

__all__ = [
    "AsJson",
    "ConventionFiles",
    "Directories",
    "FollowSymlinks",
    "GitIgnored",
    "McpServers",
    "Model",
    "NoAdapt",
    "Param",
    "RequireSandbox",
    "RunId",
    "RunTool",
    "SkillTool",
    "Strict",
    "TrustWorkspace",
    "Workspace",
    "values_of",
]

Directories = Annotated[
    list[Path] | None,
    typer.Argument(metavar="DIR", help="Folders of skills, highest precedence first; by default the usual ones."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
FollowSymlinks = Annotated[
    bool, typer.Option("--follow-symlinks", help="Follow links to skill folders, and links that stay where they are.")
]
ConventionFiles = Annotated[
    Conventions | None,
    typer.Option("--conventions", help="Where files such as AGENTS.md are skills; in directories that are named."),
]
GitIgnored = Annotated[bool, typer.Option("--gitignore", help="Leave out what git ignores.")]
TrustWorkspace = Annotated[
    bool, typer.Option("--trust-workspace", help="Serve the skills of the project in the working directory.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Let every breach of a rule make a skill invalid.")]
NoAdapt = Annotated[
    bool, typer.Option("--no-adapt", help="Do not say what the tools and files that a skill names are called here.")
]
Model = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="anthropic:NAME, openai:NAME, or http(s)://HOST/v1#NAME."),
]
RunId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="A name for the run: the same command with it continues the run, or gives its outcome again.",
    ),
]
RequireSandbox = Annotated[bool, typer.Option("--require-sandbox", help="Run no script where no sandbox works.")]
Param = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter's value; may be repeated.")]

RunTool = Annotated[
    list[WorkspaceTool] | None,
    typer.Option("--run-tool", help="Let runs use this tool of the workspace; may be repeated."),
]
Workspace = Annotated[str | None, typer.Option(metavar="DIR", help="The folder that these tools are bound to.")]
McpServers = Annotated[
    str | None, typer.Option(metavar="FILE", help="JSON that names other MCP servers whose tools runs may use.")
]
SkillTool = Annotated[
    list[str] | None,
    typer.Option("--skill-tool", metavar="SKILL/TOOL", help="Carry out this tool of a skill; may be repeated."),
]


def values_of(pairs: list[str] | None, flag: str = "--param") -> dict[str, str]:
    """Return what a flag gives that may be repeated; one that is no NAME=VALUE ends the command."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            fail(f"{flag} {pair!r}: expected NAME=VALUE", WRONG_USE)
        values[key] = value
    return values
