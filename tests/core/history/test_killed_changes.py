"""A process that is killed at any step leaves the old files or the new ones, and a history that goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.history.killed_changes import STRIDE

PROGRAM = Path(__file__).with_name("killed_changes.py")
REPOSITORY = PROGRAM.parents[3]


@pytest.mark.slow
@pytest.mark.cold_start  # it forks hundreds of times: a small interpreter forks faster
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_change_leaves_the_old_files_or_the_new() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    for work, found in json.loads(done.stdout).items():
        assert len(found) > 20 / STRIDE, work
        assert all(each["whole"] and each["clean"] and each["one commit if new"] for each in found), (work, found)
        assert found[-1]["is new"], work
        # Where folders can be exchanged, not even a moment of the change is visible.
        assert work == "one by one" or all(each["whole at once"] for each in found), (work, found)
        assert work == "record" or not any("manual" in each["commits"] for each in found), (work, found)
