"""Coding agents under test: how each is started, given a skill, and read.

Each module describes one command line: its command, the folder from which it takes skills, its settings for a run, and
what its output means. Nothing here starts a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from skills_core.evals.agents.claude import CLAUDE
from skills_core.evals.agents.codex import CODEX
from skills_core.evals.agents.gemini import GEMINI
from skills_core.evals.agents.kind import AgentKind, Setup
from skills_core.evals.agents.opencode import OPENCODE

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import AgentRights, TranscriptBuilder


AGENTS: Final[Mapping[str, AgentKind]] = {agent.name: agent for agent in (CLAUDE, CODEX, GEMINI, OPENCODE)}


def _no_setup(_: tuple[str, ...] | None, __: AgentRights) -> Setup:
    return Setup()


def _read_event(event: Mapping[str, Any], into: TranscriptBuilder) -> None:
    # An event of one agent has fields that no reader of another one looks for.
    for agent in AGENTS.values():
        agent.read_event(event, into)


ANY_AGENT: Final = AgentKind(
    name="command",
    title="the command",
    command=(),
    prompt=(),
    model_option=(),
    skills_folder=".agents/skills",
    other_folders=tuple(
        dict.fromkeys(folder for agent in AGENTS.values() for folder in agent.folders if folder != ".agents/skills")
    ),
    setup=_no_setup,
    read_event=_read_event,
    variables=tuple(name for agent in AGENTS.values() for name in agent.variables),
)
"""An agent that is started by a command of the user, and prints what one of the known agents prints."""
