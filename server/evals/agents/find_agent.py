"""Find the agent that a user names on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.evals.agents.agent import AgentUnavailableError
from server.evals.agents.cli_agent import CliAgent
from server.evals.agents.run_folder import RunFolder, agent_environment
from skills_core.diagnostics import printable
from skills_core.evals.agents.all_agents import AGENTS, ANY_AGENT

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import Rights, Via

__all__ = ["check_no_twin", "find_agent"]

_VERSION_SECONDS: Final = 30


def find_agent(
    name: str | None,
    template: str | None,
    *,
    via: Via | None,
    rights: Rights,
    model: str | None = None,
    home: Path | None = None,
) -> CliAgent:
    """Return the agent of this name, or of the user's own command `template`.

    Raises:
        AgentUnavailableError: the agent is not installed, or the command cannot be used.
    """
    kind = AGENTS[name] if name is not None else ANY_AGENT
    if home is not None and not home.is_dir():
        raise AgentUnavailableError(f"{printable(str(home))}: expected a folder with the settings of the agent")
    if template is not None:
        if model is not None:
            raise AgentUnavailableError("name the model in the command of the agent, not by an option")
        return CliAgent(kind=kind, via=via, rights=rights, template=template, home=home)
    executable = shutil.which(kind.command[0])
    if executable is None:
        raise AgentUnavailableError(
            f"{kind.title} is not installed: there is no {kind.command[0]!r} on the PATH; install it, or name another "
            "agent or a command of your own"
        )
    version = _version_of(executable)
    return CliAgent(kind=kind, via=via, rights=rights, executable=executable, version=version, model=model, home=home)


def _version_of(executable: str) -> str:
    """Return what the agent says about its version; empty if it says nothing in time."""
    with tempfile.TemporaryDirectory(prefix="skillserve-", ignore_cleanup_errors=True) as root:
        folder = RunFolder(Path(root, "run"))
        folder.create({})
        try:
            said = subprocess.run(  # noqa: S603 - the agent that the user named
                [executable, "--version"],
                cwd=folder.work,
                env=agent_environment(folder, os.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return " ".join(said.stdout.decode("utf-8", "replace").split())[:100]


def check_no_twin(agent: CliAgent, skill: str) -> None:
    """Check that the agent would find no other skill of this name.

    Raises:
        AgentUnavailableError: it would.
    """
    if twins := agent.twins(skill):
        raise AgentUnavailableError(
            f"the agent would find another skill {skill} in {printable(str(twins[0]))}; it could win, and nothing "
            "would be measured. Remove it from the home of the agent (--agent-home)"
        )
