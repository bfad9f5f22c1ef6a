"""The agents that `skillserve triggers` and `eval` know: how each is led to the scripted model, and loads a skill."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.clients.client import KEY, PACKAGES, write_json
from conformance.clients.dialects.messages import Call
from conformance.clients.endpoint import MODEL
from conformance.processes import REPOSITORY
from conformance.suite import NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["TRIGGER_AGENTS", "TriggerAgent", "environment_of"]


@dataclass(frozen=True, slots=True)
class TriggerAgent:
    """An agent: its settings in a home for a model at an address, its variables, and how its model acts."""

    name: str
    write_home: Callable[[Path, str], None]
    variables: Callable[[str], Mapping[str, str]]
    load: Callable[[str], Call]
    """Loads a skill from the agent's own folder."""
    shell: Callable[[str], Call]
    """Runs a shell command."""
    model: str | None = None

    @property
    def programs(self) -> Path:
        """The folder with its executable."""
        return PACKAGES / self.name / "node_modules/.bin"


def _no_home(home: Path, address: str) -> None:
    del home, address


def _claude_variables(address: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


_CODEX = """\
model = {model}
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = {address}
wire_api = "responses"
env_key = "MODEL_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def _codex_home(home: Path, address: str) -> None:
    path = home / ".codex/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(_CODEX.format(model=json.dumps(MODEL), address=json.dumps(f"{address}/v1")), encoding="utf-8")


def _gemini_home(home: Path, address: str) -> None:
    del address
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    write_json(home / ".gemini/settings.json", settings)


def _opencode_home(home: Path, address: str) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{address}/v1", "apiKey": KEY},
        "models": {MODEL: {"limit": {"context": 200_000, "output": 8_000}}},
    }
    settings = {
        "model": f"scripted/{MODEL}",
        "small_model": f"scripted/{MODEL}",
        "provider": {"scripted": provider},
    }
    write_json(home / ".config/opencode/opencode.json", settings)


def _opencode_variables(address: str) -> dict[str, str]:
    del address
    disabled = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {f"OPENCODE_DISABLE_{name}": "1" for name in disabled}


TRIGGER_AGENTS = {
    agent.name: agent
    for agent in (
        TriggerAgent(
            "claude",
            _no_home,
            _claude_variables,
            lambda name: Call("Skill", {"skill": name}),
            lambda command: Call("Bash", {"command": command, "description": "Write the plan"}),
        ),
        TriggerAgent(
            "codex",
            _codex_home,
            lambda _: {"MODEL_KEY": KEY},
            lambda name: Call("exec_command", {"cmd": f"cat .agents/skills/{name}/SKILL.md"}),
            lambda command: Call("exec_command", {"cmd": command}),
        ),
        TriggerAgent(
            "gemini",
            _gemini_home,
            lambda address: {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": address},
            lambda name: Call("activate_skill", {"name": name}),
            lambda command: Call("run_shell_command", {"command": command, "description": "Write the plan"}),
            "gemini-2.5-pro",
        ),
        TriggerAgent(
            "opencode",
            _opencode_home,
            _opencode_variables,
            lambda name: Call("skill", {"name": name}),
            lambda command: Call("bash", {"command": command, "description": "Write the plan"}),
        ),
    )
}


def environment_of(agent: TriggerAgent, address: str, root: Path) -> dict[str, str]:
    """Return the environment of the command under test, with a new folder for temporary files below `root`."""
    temporary = root / "tmp"
    temporary.mkdir()
    return {
        "PATH": f"{agent.programs}:{NODE.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(root),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "NO_PROXY": "127.0.0.1,localhost",
        **agent.variables(address),
    }
