"""A confined command ends as it would by itself, and its descendants end with it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import anyio
import pytest

from skills_core.scripts.isolation import Isolation, run_confined
from skills_core.scripts.process import Command, ProcessEnding, ProcessLimits, ProcessResult, run_process
from skills_core.scripts.sandbox import sandbox_arguments
from tests.core.scripts.running import PLAIN, PROGRAMS
from tests.processes import becomes, sleepers, unique_seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are supervisors and sandboxes on Linux alone")

LONG = ProcessLimits(60, 100_000)

NEEDS_PROGRAMS = pytest.mark.skipif(
    not all(map(shutil.which, ("setsid", "ps"))), reason="setsid and ps are not installed"
)

MANY = """
import os, sys, time
for depth in range(6):
    if os.fork():
        break
    os.setsid()
for stream in (0, 1, 2):
    os.close(stream)
os.execvp("sleep", ["sleep", sys.argv[1]])
"""
# Processes below each other, each in a session of its own.


async def run(isolation: Isolation, folder: Path, *argv: str, limits: ProcessLimits = LONG) -> ProcessResult:
    command = Command(argv, folder, {"PATH": os.environ["PATH"]})
    mounts = sandbox_arguments(workspace=folder, directory=folder) if isolation.sandbox else ()
    return await run_confined(isolation, command, limits, mounts=mounts, python=PROGRAMS.python)


@pytest.mark.parametrize("code", [0, 3, 255])
async def test_the_exit_code_is_that_of_the_program(isolation: Isolation, tmp_path: Path, code: int) -> None:
    finished = await run(isolation, tmp_path, "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (finished.ending, finished.exit_code) == (ProcessEnding.EXITED, code)
    assert (finished.stdout, finished.stderr) == (b"out\n", b"err\n")


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV"])
async def test_without_a_sandbox_a_signal_that_ended_the_program_is_seen(tmp_path: Path, name: str) -> None:
    argv = ("sh", "-c", f"kill -{name} $$")
    by_itself = await run_process(Command(argv, tmp_path, {"PATH": os.environ["PATH"]}), LONG)
    assert (await run(PLAIN, tmp_path, *argv)).exit_code == by_itself.exit_code


async def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    finished = await run(Isolation(why="none"), tmp_path, "no-such-program-anywhere")
    assert finished.exit_code == 127
    assert b"no-such-program-anywhere: No such file" in finished.stderr


async def test_signals_are_handled_as_by_default(isolation: Isolation, tmp_path: Path) -> None:
    argv = ("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")
    by_itself = await run_process(Command(argv, tmp_path, {"PATH": os.environ["PATH"]}), LONG)
    assert (await run(isolation, tmp_path, *argv)).stdout == by_itself.stdout


async def test_without_a_sandbox_a_program_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    line = "trap 'touch bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    finished = await run(PLAIN, tmp_path, "sh", "-c", line, limits=ProcessLimits(2, 1000))
    assert (finished.ending, finished.stdout) == (ProcessEnding.TIMED_OUT, b"ready\n")
    assert (tmp_path / "bye").exists()


@NEEDS_PROGRAMS
@pytest.mark.parametrize("stopped", ["$PPID", "$$"])
async def test_without_a_sandbox_a_suspended_process_ends_too(tmp_path: Path, stopped: str) -> None:
    marker = unique_seconds()
    line = f"trap 'touch bye; exit 0' TERM; setsid sleep {marker} & kill -STOP {stopped}; wait"
    finished = await run(PLAIN, tmp_path, "sh", "-c", line, limits=ProcessLimits(2, 1000))
    assert finished.ending is ProcessEnding.TIMED_OUT
    assert await becomes(lambda: not sleepers(marker))
    assert (tmp_path / "bye").exists()


@NEEDS_PROGRAMS
@pytest.mark.parametrize("how", ["by itself", "in time", "cancelled", "too much"])
async def test_no_descendant_survives_a_command_however_it_ends(isolation: Isolation, tmp_path: Path, how: str) -> None:
    marker = unique_seconds()
    (tmp_path / "many.py").write_text(MANY)
    started = f"setsid {sys.executable} many.py {marker} & "
    rest = {"by itself": "exit 0", "too much": "while :; do echo x; done"}.get(how, "trap '' TERM; sleep 600 & wait")
    wait = f"until ps -eo args= | grep -q '^sleep {marker}'; do :; done; touch there; "
    if isolation.sandbox is not None:
        started = started.replace(sys.executable, "/usr/bin/python3")
    limits = ProcessLimits(3 if how == "in time" else 60, 1000)
    async with anyio.create_task_group() as tasks:

        async def call() -> None:
            await run(isolation, tmp_path, "sh", "-c", started + wait + rest, limits=limits)
            tasks.cancel_scope.cancel()

        tasks.start_soon(call)
        if how == "cancelled":
            while not (tmp_path / "there").exists():  # noqa: ASYNC110 - another process makes it
                await anyio.sleep(0.02)
            assert sleepers(marker)
            tasks.cancel_scope.cancel()
    assert (tmp_path / "there").exists()
    assert await becomes(lambda: not sleepers(marker))
