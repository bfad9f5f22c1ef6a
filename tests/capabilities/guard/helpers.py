"""Helpers that run the hook `skillserve guard` as a host would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.server.sessions import REPOSITORY

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such thing")

DENYING = "danger_patterns: ['rm -rf']\nconfirm_patterns: ['git push']"


def call(command: str = "ls", tool: str = "Bash", **fields: Any) -> str:
    """What a host writes for a call of its shell."""
    common = {"session_id": "s", "transcript_path": "/t", "hook_event_name": "PreToolUse", "tool_use_id": "toolu_1"}
    return json.dumps({**common, "tool_name": tool, "tool_input": {"command": command}, **fields})


def decision(answer: tuple[str, str] | None) -> str | None:
    return answer[0] if answer else None


def trust(hook: Hook, *folders: Path) -> None:
    text = json.dumps({"version": 1, "trusted": [str(folder.resolve()) for folder in folders]})
    (hook.own.parent / "trusted.json").write_text(text, encoding="utf-8")


class Hook:
    """Runs the hook as a host would, for a user of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.own = home / "config" / "skillserve" / "skillserve.toml"
        self.own.parent.mkdir(parents=True)

    def environment(self, **settings: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
        places = {"HOME": str(self.home), "USERPROFILE": str(self.home), "APPDATA": str(self.home / "config")}
        config = {"XDG_CONFIG_HOME": str(self.home / "config"), "PYTHONPATH": str(REPOSITORY)}
        return {**inherited, **places, **config, **settings}

    def run(
        self, said: str | bytes, *words: str | Path, cwd: Path | None = None, **settings: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "server", "guard", *map(str, words)],
            input=said.encode() if isinstance(said, str) else said,
            capture_output=True,
            cwd=cwd or self.home,
            env=self.environment(**settings),
            timeout=60,
            check=False,
        )

    def ask(
        self, said: str | bytes, *words: str | Path, cwd: Path | None = None, **settings: str
    ) -> tuple[str, str] | None:
        """Return decision and reason, None where the call is left to the host."""
        done = self.run(said, *words, cwd=cwd, **settings)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        if not done.stdout:
            return None
        answer: Mapping[str, Any] = json.loads(done.stdout)
        assert answer.keys() == {"hookSpecificOutput"}
        output = answer["hookSpecificOutput"]
        assert output.keys() == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
        assert output["hookEventName"] == "PreToolUse"
        assert output["permissionDecisionReason"]
        return output["permissionDecision"], output["permissionDecisionReason"]


OWN = "guard.danger_patterns = ['DROP TABLE']\nguard.confirm_patterns = ['git push']\n"
