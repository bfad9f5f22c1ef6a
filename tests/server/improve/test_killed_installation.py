"""A process that is killed while it installs an improvement leaves the old skill or the new one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.server.sessions import REPOSITORY, server_environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and fork")


def test_a_killed_installation_leaves_the_old_skill_or_the_new_one() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.server.improve.killed_installation"],
        cwd=REPOSITORY,
        env=server_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(each["whole"] and each["recorded"] for each in found), found
    assert {each["is new"] for each in found} == {True, False}
