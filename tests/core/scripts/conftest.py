from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skills_core.scripts.isolation import Isolation
from skills_core.scripts.process import ProcessLimits
from skills_core.scripts.runner import ScriptRunner, ScriptSetup
from tests.core.runs.conftest import failing, make_gate, make_tool, person, runner, saying
from tests.core.scripts.running import FOUND, PLAIN, PROGRAMS, MakeRunner

__all__ = ["failing", "make_gate", "make_tool", "person", "runner", "saying"]


@pytest.fixture(params=["sandbox", "plain"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    """With a sandbox, where one works, and without."""
    if request.param == "plain":
        return PLAIN
    if FOUND.sandbox is None:
        pytest.skip(FOUND.why)
    return FOUND


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return where private copies are made; at the end of a test there is none."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def make_runner(tmp_path: Path, isolation: Isolation) -> MakeRunner:
    def make(**more: Any) -> ScriptRunner:
        setup: dict[str, Any] = {
            "isolation": isolation,
            "programs": PROGRAMS,
            "host": dict(os.environ),
            "home": tmp_path / "home",
            "cache": tmp_path / "cache",
            "limits": ProcessLimits(60, 1_000_000),
        }
        return ScriptRunner(ScriptSetup(**{**setup, **more}))

    return make
