"""A process that is killed at any step leaves the old files or the new ones, and a history that goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_changes.py")
REPOSITORY = PROGRAM.parents[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.parametrize("work", ["exchange", "one by one", "whole source", "removed", "change", "record"])
def test_a_killed_change_leaves_the_old_files_or_the_new(work: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), work],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = json.loads(done.stdout)
    assert len(found) > 5
    assert all(each["whole"] and each["clean"] and each["one commit if new"] for each in found), found
    assert found[-1]["is new"]
    if work in {"exchange", "removed", "change", "record"}:
        assert all(each["whole at once"] for each in found)
    if work != "record":
        assert not any("manual" in each["only commit is ours"] for each in found)
