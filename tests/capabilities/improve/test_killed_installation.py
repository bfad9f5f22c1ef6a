"""A process that is killed while it installs an improvement leaves the old skill or the new one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server.sessions import REPOSITORY, server_environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and fork")


def printed(program: str, *arguments: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.capabilities.improve.{program}", *map(str, arguments)],
        cwd=REPOSITORY,
        env=server_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.cold_start  # it forks often: a small interpreter forks faster
def test_a_killed_installation_leaves_the_old_skill_or_the_new_one() -> None:
    found = printed("killed_installation")
    assert all(each["whole"] and each["recorded"] for each in found), found
    assert {each["is new"] for each in found} == {True, False}


def test_the_next_start_tells_what_became_of_a_killed_improvement_and_removes_its_copies(tmp_path: Path) -> None:
    found = printed("killed_improvement", tmp_path)
    assert [each["stage"] for each in found if each["killed"]] == [
        "copy",
        "model",
        "check",
        "measurement",
        "installation",
        "record",
    ]
    for each in found:
        assert each["whole"], each
        assert not each["copies"], each
        assert each["before"] == ("begun" if each["killed"] else "improved"), each
        if each["stage"] in {"record", ""}:
            assert (each["is new"], each["status"], each["commit"]) == (True, "improved", True), each
        else:
            assert (each["is new"], each["status"], each["reason"]) == (False, "dropped", "interrupted"), each
