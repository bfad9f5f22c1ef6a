"""Commands on sources that have a history."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.server.sessions import REPOSITORY, server_environment

SKILL = "---\nname: %s\ndescription: Does a thing. Use when asked.\n---\nStep %d.\n"


def environment(tmp_path: Path, **settings: str) -> dict[str, str]:
    home = {name: str(tmp_path / name.lower()) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME")}
    return {**home, **settings}


def run(tmp_path: Path, *arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "server", *map(str, arguments)],
        cwd=tmp_path,
        env=server_environment(**environment(tmp_path, **settings)),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def commits(tmp_path: Path, *arguments: object, **settings: str) -> list[dict[str, Any]]:
    done = run(tmp_path, "history", *arguments, "--json", **settings)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["commits"]
    return found


def write_skill(source: Path, name: str, step: int = 1) -> Path:
    main = source / name / "SKILL.md"
    main.parent.mkdir(parents=True, exist_ok=True)
    main.write_text(SKILL % (name, step), encoding="utf-8", newline="\n")
    return main


__all__ = ["REPOSITORY", "commits", "environment", "run", "write_skill"]
