"""The options of `eval` and `triggers` that choose the agent under test."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Agent", "AgentChoice", "AgentHome", "AgentModel", "ViaChoice", "Way"]


class AgentChoice(StrEnum):
    """The agents that can be tested."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    SKILLSERVE = "skillserve"


class Way(StrEnum):
    """How an agent gets the skill."""

    FOLDER = "folder"
    SERVER = "server"


Agent = Annotated[
    AgentChoice | None,
    typer.Option("--agent", help="The agent under test; skillserve is the server's own executor with --model."),
]
ViaChoice = Annotated[
    Way, typer.Option("--via", help="Whether the agent has the skill in its own folder, or from this server over MCP.")
]
AgentModel = Annotated[
    str | None, typer.Option("--agent-model", metavar="NAME", help="The model of the agent, as it names it.")
]
AgentHome = Annotated[
    Path | None,
    typer.Option(
        "--agent-home",
        metavar="DIR",
        help="A folder that each run has a copy of as its home, such as one with a login. Keys in variables such as "
        "ANTHROPIC_API_KEY need none.",
    ),
]
