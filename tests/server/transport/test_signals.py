"""SIGTERM and SIGHUP end a command with all its processes; recorded runs can be resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.processes import becomes
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, server_environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

SIGNALS = ["SIGTERM", "SIGHUP"]

# It says who it is, and stays unless it was told to go.
STAY = """\
import os, pathlib, time
pathlib.Path("half").write_text(str(os.getpid()))
os.replace("half", "pid")
while not os.path.exists("go"):
    time.sleep(0.05)
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a machine without bubblewrap, which would end what it holds by itself."""
    (tmp_path / "bin").mkdir()
    return server_environment(PATH=str(tmp_path / "bin"), XDG_STATE_HOME=str(tmp_path / "state"))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def start(*arguments: object, environment: dict[str, str], after: str = "") -> subprocess.Popen[str]:
    """Start a command; with `after`, as a shell does that has run these words before."""
    command = [sys.executable, "-m", "server", *map(str, arguments)]
    return subprocess.Popen(
        ["/bin/sh", "-c", f'{after}; exec "$@"', "sh", *command] if after else command,
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def statuses(environment: dict[str, str]) -> dict[str, str]:
    """Return the status of each run by its trace."""
    listed = json.loads(run("runs", "list", "--json", **environment).stdout)["runs"]
    return {each["run_id"]: each["status"] for each in listed}


async def send_signal(name: str, process: subprocess.Popen[str], work: Path) -> str:
    """Send a signal once the child of the command runs; return what the command wrote to stderr."""
    assert await becomes((work / "pid").exists)
    child = int((work / "pid").read_text())
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (128 + getattr(signal, name), ""), err
    assert await becomes(lambda: not is_running(child))
    return err


@pytest.mark.parametrize("name", SIGNALS)
async def test_a_run_ended_by_a_signal_leaves_no_processes_and_is_resumed(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, work: Path, environment: dict[str, str], name: str
) -> None:
    make_skill("stayer")
    endpoint.script = [Call("run_command", {"command": [sys.executable, "-c", STAY]}), "the end"]
    flags = ("--model", endpoint.model, "--run-tool", "run_command", "--workspace", work)
    with start("run", "stayer", "hi", skills, *flags, "--id", "ended", environment=environment) as process:
        assert "Traceback" not in await send_signal(name, process, work)
    assert statuses(environment) == {"ended": "interrupted"}
    (work / "go").touch()
    done = run("runs", "resume", skills, *flags, **environment)
    assert done.stdout.split() == ["ended", "skill", "completed"], done.stderr
    assert statuses(environment) == {"ended": "completed"}


async def test_a_workflow_ended_by_a_signal_leaves_no_processes_and_is_resumed(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, work: Path, environment: dict[str, str]
) -> None:
    make_skill("stayer")
    (work.parent / "flow.yaml").write_text("name: flow\nsteps:\n  - {kind: skill, name: Stay, target: stayer}\n")
    endpoint.script = [Call("run_command", {"command": [sys.executable, "-c", STAY]}), "the end"]
    flags = ("--model", endpoint.model, "--run-tool", "run_command", "--workspace", work)
    flow = ("workflow", "run", work.parent / "flow.yaml", skills, *flags, "--id", "ended")
    with start(*flow, environment=environment) as process:
        assert "Traceback" not in await send_signal("SIGTERM", process, work)
    (work / "pid").unlink()
    with start("runs", "resume", skills, *flags, environment=environment) as process:
        assert "Traceback" not in await send_signal("SIGTERM", process, work)
    assert statuses(environment) == {"ended": "interrupted", "ended.1": "interrupted"}
    (work / "go").touch()
    done = run("runs", "resume", skills, *flags, **environment)
    assert done.stdout.split() == ["ended", "workflow", "completed"], done.stderr
    assert statuses(environment) == {"ended": "completed", "ended.1": "completed"}


async def test_ctrl_c_in_a_process_that_joined_a_run_does_not_end_the_run(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, work: Path, environment: dict[str, str]
) -> None:
    make_skill("stayer")
    endpoint.script = [Call("run_command", {"command": [sys.executable, "-c", STAY]}), "the end"]
    flags = ("--model", endpoint.model, "--run-tool", "run_command", "--workspace", work, "--id", "joined")
    workers = work.parent / "state/skillserve/runs.sqlite.workers"
    with start("run", "stayer", "hi", skills, *flags, environment=environment) as first:
        assert await becomes((work / "pid").exists)
        with start("run", "stayer", "hi", skills, *flags, environment=environment) as second:
            assert await becomes(lambda: len(list(workers.iterdir())) == 2)
            second.send_signal(signal.SIGINT)
            out, err = second.communicate(timeout=120)
            assert (second.returncode, out) == (130, ""), err
        # The first looks from time to time whether the record says that it was cancelled.
        assert statuses(environment) == {"joined": "running"}
        (work / "go").touch()
        out, err = first.communicate(timeout=120)
    assert (first.returncode, out) == (0, "the end\n"), err


@pytest.mark.parametrize("name", SIGNALS)
async def test_a_script_is_ended_by_the_signal_too(
    make_skill: MakeSkill, skills: Path, work: Path, environment: dict[str, str], name: str
) -> None:
    make_skill("stayer", files={"scripts/stay.py": STAY.encode()})
    command = ("script", "--dir", skills, "--workspace", work, "stayer", "scripts/stay.py")
    with start(*command, environment=environment) as process:
        assert "Traceback" not in await send_signal(name, process, work)


async def test_a_signal_that_was_ignored_before_stays_ignored(
    make_skill: MakeSkill, skills: Path, work: Path, environment: dict[str, str]
) -> None:
    make_skill("stayer", files={"scripts/stay.py": STAY.encode()})
    command = ("script", "--dir", skills, "--workspace", work, "stayer", "scripts/stay.py")
    with start(*command, environment=environment, after="trap '' HUP") as process:
        assert await becomes((work / "pid").exists)
        process.send_signal(signal.SIGHUP)
        (work / "go").touch()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
