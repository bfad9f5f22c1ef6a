"""`run_command` in the sandbox, where one works on this machine: what a command sees, and what it may write to."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from skills_core.guard.tool import CallDecision
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.commands import sandboxed_runner, workspace_tools
from skills_core.scripts.isolation import Isolation, find_isolation
from skills_core.scripts.programs import ProgramFinder
from skills_core.scripts.runner import ScriptSetup

PROGRAMS = ProgramFinder((*map(Path, os.get_exec_path()), Path(sys.executable).parent), Path(sys.executable))
FOUND = find_isolation(PROGRAMS, unprivileged=sys.platform == "win32" or os.geteuid() != 0)

in_sandbox = pytest.mark.skipif(FOUND.sandbox is None, reason=FOUND.why or "-")


def setup_of(isolation: Isolation, folder: Path) -> ScriptSetup:
    return ScriptSetup(isolation=isolation, programs=PROGRAMS, host={}, home=folder / "home", cache=folder / "cache")


@pytest.fixture
def call(tmp_path: Path, make_gate: Any) -> Any:
    work = tmp_path / "home" / "work"
    work.mkdir(parents=True)
    (tmp_path / "home" / "private.txt").write_text("the secret")
    run_confined = sandboxed_runner(setup_of(FOUND, tmp_path), work)
    host = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    gate = make_gate(*workspace_tools(work, [WorkspaceTool.RUN_COMMAND], host, run_confined))

    async def run(*command: str) -> Any:
        return await gate.call("run_command", {"command": list(command)}, 1)

    return run


@in_sandbox
async def test_a_command_works_in_the_workspace(call: Any, tmp_path: Path) -> None:
    assert (await call("sh", "-c", "pwd; echo made > made.txt")).text == f"[exit code 0]\n{tmp_path}/home/work"
    assert (tmp_path / "home" / "work" / "made.txt").read_text() == "made\n"


@in_sandbox
async def test_a_program_that_stands_in_the_workspace_runs(call: Any, tmp_path: Path) -> None:
    program = tmp_path / "home" / "work" / "hello"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    assert (await call("./hello")).text == "[exit code 0]\nhello"


@in_sandbox
@pytest.mark.parametrize(
    "line",
    [
        "cat {home}/private.txt",
        "cat ../private.txt",
        "ln -s ../private.txt x && cat x",
        "echo owned > {home}/private.txt",
        "echo owned > ../made.txt",
        "ls /proc/1/root/{home}/private.txt",
        "cat /etc/shadow",
        "mount --bind / mnt",
    ],
)
async def test_a_command_reaches_nothing_else(line: str, call: Any, tmp_path: Path) -> None:
    home = tmp_path / "home"
    result = await call("sh", "-c", line.format(home=home))
    assert result.decision is CallDecision.DONE
    # What is written beside the workspace may land in a folder of the sandbox's own.
    assert "[exit code 0]" not in result.text or "echo" in line
    assert "secret" not in result.text
    assert (home / "private.txt").read_text() == "the secret"
    assert sorted(path.name for path in home.iterdir()) == ["private.txt", "work"]


@in_sandbox
async def test_a_command_has_no_network_and_leaves_no_process(call: Any, tmp_path: Path) -> None:
    assert "lo" in (await call("sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1")).text.split()
    assert "eth0" not in (await call("cat", "/proc/net/dev")).text
    await call("sh", "-c", "setsid sh -c 'sleep 1; echo late > late.txt' >/dev/null 2>&1 &")
    await call("sleep", "1.5")
    assert not (tmp_path / "home" / "work" / "late.txt").exists()


async def test_without_a_sandbox_a_command_has_the_rights_of_the_user(tmp_path: Path, make_gate: Any) -> None:
    run = sandboxed_runner(setup_of(Isolation(None, None, "none"), tmp_path), tmp_path)
    gate = make_gate(*workspace_tools(tmp_path, [WorkspaceTool.RUN_COMMAND], dict(os.environ), run))
    code = "import os, pathlib; pathlib.Path('made').touch(); print(os.getpid() > 0)"
    result = await gate.call("run_command", {"command": [sys.executable, "-c", code]}, 1)
    assert result.text == "[exit code 0]\nTrue"
    assert (tmp_path / "made").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give orphans to nobody else")
@pytest.mark.skipif(not all(map(shutil.which, ("setsid", "flock"))), reason="setsid and flock are not installed")
@pytest.mark.parametrize("isolation", [FOUND, Isolation(None, None, "none")], ids=["found", "plain"])
async def test_descendants_of_a_command_end_with_it_in_all_sessions(
    tmp_path: Path, make_gate: Any, isolation: Isolation
) -> None:
    run = sandboxed_runner(setup_of(isolation, tmp_path), tmp_path)
    gate = make_gate(*workspace_tools(tmp_path, [WorkspaceTool.RUN_COMMAND], dict(os.environ), run))
    # The lock is held by what was left running, for as long as it runs.
    line = "exec 9>lock; flock 9; setsid sleep 600 >/dev/null 2>&1 & while flock -n lock true; do :; done; echo left"
    assert (await gate.call("run_command", {"command": ["sh", "-c", line]}, 1)).text == "[exit code 0]\nleft"
    # The kernel takes a moment for killing what a sandbox held.
    with anyio.fail_after(30):
        await anyio.run_process(["flock", "lock", "true"], cwd=tmp_path)


@in_sandbox
async def test_a_command_neither_sees_nor_replaces_what_is_private_in_its_workspace(
    tmp_path: Path, make_gate: Any
) -> None:
    home = tmp_path / "home"
    state, config, file = home / ".local/state/own", home / ".config/own", home / "servers.json"
    (state / "skills").mkdir(parents=True)
    (state / "skills/schedule.json").write_text("the secret")
    (state / "scripts").mkdir()
    (state / "scripts/tool").write_text("a tool")
    file.write_text("the secret")
    setup = replace(setup_of(FOUND, tmp_path), private=(state, config, file), cache=state / "scripts")
    run = sandboxed_runner(setup, home)
    gate = make_gate(*workspace_tools(home, [WorkspaceTool.RUN_COMMAND], {"PATH": os.environ["PATH"]}, run))

    async def sh(script: str) -> str:
        return str((await gate.call("run_command", {"command": ["sh", "-c", script]}, 1)).text)

    assert "the secret" not in await sh("cat .local/state/own/skills/* servers.json; find . -type f | xargs cat")
    assert "a tool" in await sh("cat .local/state/own/scripts/tool")
    for script in (
        "echo x > .local/state/own/skills/made",
        "mkdir -p .local/state/own/skills && echo x > .local/state/own/skills/made",
        "rm -rf .local/state/own",
        "mv .local/state/own moved; mv .local/state moved; mv .local moved; mkdir -p .local/state/own/skills",
        "mv .config moved; mkdir -p .config/own && echo x > .config/own/settings",
        "mv servers.json moved; rm servers.json; echo x > servers.json",
        "umount .local/state/own; mount --bind / .local/state/own; echo x > .local/state/own/made",
        "echo x > .local/state/own/scripts/tool; rm .local/state/own/scripts/tool; mv .local/state/own/scripts moved",
    ):
        await sh(script)
    assert (state / "skills/schedule.json").read_text() == file.read_text() == "the secret"
    # mv copies what it cannot rename, of which there is nothing.
    assert not [each for each in (home / "moved").rglob("*") if each.is_file() and each.read_text() == "the secret"]
    assert {each.name for each in home.iterdir()} == {".config", ".local", "servers.json", "moved"}
    assert [*config.iterdir()] == []
    assert sorted(each.name for each in state.rglob("*")) == ["schedule.json", "scripts", "skills", "tool"]
    assert (state / "scripts/tool").read_text() == "a tool"
    assert await sh("echo made > .local/state/made; cat .local/state/made") == "[exit code 0]\nmade"
