"""Loads real skills, finds the isolation of this machine, and reads what scripts print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.scripts.isolation import Isolation, find_isolation
from skills_core.scripts.programs import ProgramFinder
from skills_core.scripts.runner import ScriptResult, ScriptRunner
from skills_core.skills.gates import Environment
from skills_core.skills.skill import Skill
from tests.conftest import write_skill

PROGRAMS = ProgramFinder((*map(Path, os.get_exec_path()), Path(sys.executable).parent), Path(sys.executable))
FOUND = find_isolation(PROGRAMS, unprivileged=sys.platform == "win32" or os.geteuid() != 0)
PLAIN = Isolation(None, FOUND.limiter, "a test wants none", FOUND.unprivileged)

MakeRunner = Callable[..., ScriptRunner]


def with_files(root: Path, files: dict[str, str | bytes], name: str = "a") -> Skill:
    """Write a skill with `files`, and load it."""
    raw = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    write_skill(root, name, files=raw)
    return load(root, name)


def load(root: Path, name: str = "a") -> Skill:
    return Library(explicit_sources([root]), lambda: Environment("linux", lambda _: True)).catalog.skill(name)


def printed(result: ScriptResult) -> dict[str, Any]:
    """Return the JSON object that a script printed."""
    assert result.finished.exit_code == 0, result.finished
    value: dict[str, Any] = json.loads(result.finished.stdout)
    return value
