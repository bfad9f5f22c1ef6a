"""A capability is removed by deleting its folders and its line in the list; what is left still works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MakeSkill

ROOT = Path(__file__).parents[2]
OPENING = (
    {"method": "initialize", "id": 1, "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
    {"method": "notifications/initialized"},
    {"method": "tools/list", "id": 2},
    {"method": "tools/call", "id": 3, "params": {"name": "activate_skill", "arguments": {"name": "one"}}},
)


def without(folder: Path, removed: tuple[str, ...]) -> Path:
    """Copy the product into `folder` and remove capabilities from the copy."""
    for package in ("server", "skills_core"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        for name in removed:
            parent = folder / package / "capabilities" if package == "server" else folder / package
            shutil.rmtree(parent / name, ignore_errors=True)
    listing = folder / "server/capabilities/__init__.py"
    text = listing.read_text(encoding="utf-8")
    for name in removed:
        text, lines = re.subn(rf"^    {name}(\.CAPABILITY)?,\n", "", text, flags=re.MULTILINE)
        assert lines == 2
    listing.write_text(text, encoding="utf-8")
    return folder


def run(folder: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "server", *words],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        # What one server counts, the next one would tell its clients.
        env={**os.environ, "SKILLSERVE_USAGE": "false"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answers(folder: Path, skills: Path) -> dict[int, object]:
    client = {"clientInfo": {"name": "tester", "version": "1"}}
    opening = [{"jsonrpc": "2.0", **each} for each in OPENING]
    opening[0] = {**opening[0], "params": {**dict(OPENING[0]["params"]), **client}}  # type: ignore[call-overload]
    told = run(folder, "serve", str(skills), given="".join(json.dumps(each) + "\n" for each in opening))
    found = map(json.loads, told.splitlines())
    return {each["id"]: each["result"] for each in found if "id" in each}


# Processes of the copy, which a fork of this process would not be.
@pytest.mark.cold_start
@pytest.mark.parametrize("removed", [("improve",), ("improve", "review", "evals"), ("publish",)])
def test_what_is_left_serves_the_same_skills(
    removed: tuple[str, ...], make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one")
    folder = without(tmp_path / "copy", removed)
    assert answers(folder, skills) == answers(ROOT, skills)
    assert len(answers(folder, skills)) == 3
    assert run(folder, "config", "check")
    assert bool(re.search("^  eval ", run(folder, "--help"), re.MULTILINE)) == ("evals" not in removed)
