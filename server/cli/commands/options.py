"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from server.cli.completion import skill_names
from server.cli.console import EXIT_USAGE, fail
from server.cli.help_pages import OptionGroup
from server.config.settings.skills import Conventions
from server.config.values import home_path
from skills_core.runs.tools import WorkspaceTool

Directories = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DIR",
        help="Folders of skills, highest precedence first.",
        show_default="the configured and standard folders",
    ),
]
SkillName = Annotated[str, typer.Argument(metavar="NAME", help="The skill's name.", autocompletion=skill_names)]
Improved = Annotated[
    list[str] | None,
    typer.Option(
        "--improve",
        metavar="SOURCE",
        help="Improve the skills of this folder or scope after runs with a failed tool call; repeatable.",
        rich_help_panel=OptionGroup.CHANGES,
    ),
]
Reviewed = Annotated[
    bool,
    typer.Option(
        "--review",
        help="Leave corrections too as proposals for `history accept`, instead of making them.",
        rich_help_panel=OptionGroup.CHANGES,
    ),
]
ImproveCost = Annotated[
    float | None,
    typer.Option(
        "--improve-max-cost",
        metavar="USD",
        help="Dollars that improvements may cost within 24 hours.",
        show_default="no bound",
        rich_help_panel=OptionGroup.CHANGES,
    ),
]
ImproveRequests = Annotated[
    int | None,
    typer.Option(
        "--improve-max-requests",
        metavar="N",
        help="Requests that improvements may make within 24 hours.",
        show_default="no bound",
        rich_help_panel=OptionGroup.CHANGES,
    ),
]
ImproveSeconds = Annotated[
    int | None,
    typer.Option(
        "--improve-max-seconds",
        metavar="S",
        help="Seconds that improvements may work within 24 hours.",
        show_default="no bound",
        rich_help_panel=OptionGroup.CHANGES,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
FollowSymlinks = Annotated[
    bool,
    typer.Option(
        "--follow-symlinks",
        help="Follow symbolic links to skill folders, and links that stay inside one.",
        rich_help_panel=OptionGroup.SKILLS,
    ),
]
ConventionFiles = Annotated[
    Conventions | None,
    typer.Option(
        "--conventions",
        help="Treat files such as AGENTS.md as skills: in named folders, also in the project, or never (off).",
        show_default="named",
        rich_help_panel=OptionGroup.SKILLS,
    ),
]
GitIgnored = Annotated[
    bool, typer.Option("--gitignore", help="Skip files that git ignores.", rich_help_panel=OptionGroup.SKILLS)
]
TrustWorkspace = Annotated[
    bool,
    typer.Option(
        "--trust-workspace",
        help="Trust the project in the working directory while this command runs.",
        rich_help_panel=OptionGroup.SKILLS,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Treat every violation of the skill format as an error, not as a warning.",
        rich_help_panel=OptionGroup.SKILLS,
    ),
]
NoAdapt = Annotated[
    bool,
    typer.Option(
        "--no-adapt",
        help="Omit the client's own names for the tools and files that a skill mentions.",
        rich_help_panel="What clients get",
    ),
]
Embeddings = Annotated[
    bool,
    typer.Option(
        "--embeddings",
        help="Search by meaning too, with a small model that is fetched at its first use.",
        rich_help_panel="What clients get",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL", help="The model that runs skills: anthropic:NAME, openai:NAME or http(s)://HOST/v1#NAME."
    ),
]
RunId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        help="Your own ID for the run. The same ID again continues the run, or prints its recorded result.",
        show_default="a random ID",
    ),
]
RequireSandbox = Annotated[
    bool,
    typer.Option(
        "--require-sandbox",
        help="Refuse to run scripts if no complete sandbox is available.",
        rich_help_panel=OptionGroup.RUNS,
    ),
]
Param = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Set a parameter of the skill; repeatable.")
]

RunTool = Annotated[
    list[WorkspaceTool] | None,
    typer.Option(
        "--run-tool",
        metavar="TOOL",
        help=f"Let runs use a tool: {', '.join(WorkspaceTool)}; repeatable.",
        rich_help_panel=OptionGroup.RUNS,
    ),
]
Workspace = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="The folder that workspace tools (--run-tool) may read and write.",
        rich_help_panel=OptionGroup.RUNS,
    ),
]
McpServers = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A JSON file of MCP servers (mcpServers); runs may use their tools.",
        rich_help_panel=OptionGroup.RUNS,
    ),
]
SkillTool = Annotated[
    list[str] | None,
    typer.Option(
        "--skill-tool",
        metavar="SKILL/TOOL",
        help="Allow a tool that a skill declares, or all with SKILL/*; repeatable.",
        rich_help_panel=OptionGroup.RUNS,
    ),
]


def expand_paths(app: typer.Typer) -> None:
    """Let all commands of an application expand `~` in their paths: a client that starts one has no shell to do it."""
    for each in app.registered_commands:
        if each.callback is not None:
            each.callback = _with_expanded_paths(each.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            expand_paths(group.typer_instance)


def _with_expanded_paths(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def expanding(**values: object) -> object:
        return command(**{name: _expanded(value) for name, value in values.items()})

    return expanding


def _expanded(value: object) -> object:
    if isinstance(value, list):
        return [_expanded(each) for each in value]
    return home_path(value) if isinstance(value, Path) else value


def parse_name_values(pairs: list[str] | None, flag: str = "--param") -> dict[str, str]:
    """Parse the values of a repeatable NAME=VALUE option; exit with a message if one is malformed."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            fail(f"{flag} {pair!r}: expected NAME=VALUE", EXIT_USAGE)
        values[key] = value
    return values
