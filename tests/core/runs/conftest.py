"""Fixtures for runs: those for calls of tools, and a script runner."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from skills_core.scripts.isolation import Isolation
from skills_core.scripts.process import ProcessLimits
from skills_core.scripts.programs import ProgramFinder
from skills_core.scripts.runner import ScriptRunner, ScriptSetup
from tests.core.guard.conftest import failing, make_gate, make_tool, person, saying

__all__ = ["failing", "make_gate", "make_tool", "person", "saying"]


@pytest.fixture
def runner(tmp_path: Path) -> ScriptRunner:
    """Run scripts without a sandbox, up to 200,000 bytes of output."""
    programs = ProgramFinder((*map(Path, os.get_exec_path()), Path(sys.executable).parent), Path(sys.executable))
    return ScriptRunner(
        ScriptSetup(
            isolation=Isolation(None, None, "a test wants none"),
            programs=programs,
            host=dict(os.environ),
            home=tmp_path / "home",
            cache=tmp_path / "cache",
            limits=ProcessLimits(60, 200_000),
        )
    )
