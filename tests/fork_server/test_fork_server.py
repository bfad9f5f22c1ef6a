"""Forked processes behave like started ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server.client import ForkServer, forking

pytestmark = [
    pytest.mark.cold_start,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux"),
]

PROGRAM = Path(__file__).with_name("facts.py")
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("new_session", [False, True])
@pytest.mark.parametrize("program", [["-m", "tests.fork_server.facts"], [str(PROGRAM)]], ids=["module", "script"])
def test_a_forked_process_has_the_same_state_as_a_started_one(
    *, program: list[str], new_session: bool, tmp_path: Path, fork_server: ForkServer
) -> None:
    def run() -> tuple[int, Any, str]:
        done = subprocess.run(
            [sys.executable, *program, "3", "two words"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "ONLY_HERE": "ü"},
            input="given",
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            start_new_session=new_session,
        )
        return done.returncode, json.loads(done.stdout), done.stderr

    started = run()
    with forking(fork_server):
        forked = run()
    assert forked == started
    assert forked[1]["parent"] == os.getpid()


def test_a_forked_process_is_ended_by_signals_and_waited_for_like_any_other(fork_server: ForkServer) -> None:
    with forking(fork_server):
        process = subprocess.Popen([sys.executable, "-m", "tests.fork_server.facts", "0"], stdin=subprocess.PIPE)
    with process:
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL


def test_processes_that_a_fork_cannot_replace_are_started(fork_server: ForkServer) -> None:
    with forking(fork_server):
        command = [sys.executable, "-c", "import sys; print('server' in sys.modules)"]
        assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "False\n"
        command = [sys.executable, "-m", "tests.fork_server.facts", "0"]
        odd = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, env=odd, capture_output=True, check=True, text=True, stdin=subprocess.DEVNULL)
        assert json.loads(done.stdout)["flags"] != list(sys.flags)
