"""`skillserve init`, and the reload of a server on SIGHUP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.conftest import MakeSkill
from tests.server.sessions import REPOSITORY, server_command, server_environment


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "server", *arguments],
        cwd=REPOSITORY,
        env=server_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("description", [None, 'Says "no": always.\n Use when asked.', "x" * 1024])
def test_a_new_skill_is_valid_in_strict_mode(description: str | None, tmp_path: Path) -> None:
    flags = [] if description is None else ["--description", description]
    made = run("init", "my-skill", "--to", str(tmp_path), *flags)
    assert (made.returncode, made.stdout.strip()) == (0, str(tmp_path / "my-skill" / "SKILL.md"))
    checked = run("validate", str(tmp_path), "--strict")
    assert (checked.returncode, checked.stdout) == (0, "1 checked: 1 valid, 0 invalid\n")


@pytest.mark.parametrize("name", ["", "Upper", "a--b", "-a", "a_b", "../a", "a/b", "été", "x" * 65, "."])
def test_an_invalid_name_creates_nothing(name: str, tmp_path: Path) -> None:
    assert run("init", name, "--to", str(tmp_path)).returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "valid"), [("My Skill", "my-skill"), ("a--b_", "a-b"), ("Été 2", "ete-2"), ("x" * 70, "x" * 64)]
)
def test_an_invalid_name_is_answered_by_the_nearest_valid_one(name: str, valid: str, tmp_path: Path) -> None:
    refused = run("init", name, "--to", str(tmp_path))
    assert refused.stderr.strip().endswith(f"; try {valid}")


@pytest.mark.parametrize("description", ["", " \n", "x" * 1025])
def test_an_invalid_description_creates_nothing(description: str, tmp_path: Path) -> None:
    assert run("init", "a", "--to", str(tmp_path), "--description", description).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_an_existing_skill_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "SKILL.md").write_text("mine")
    assert run("init", "mine", "--to", str(tmp_path)).returncode == 2
    assert (tmp_path / "mine" / "SKILL.md").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
async def test_a_server_without_a_watcher_reloads_on_sighup(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    command = server_command(skills, "--transport", "http", "--port", "0", "--watch", "off", "--log-level", "info")
    async with await anyio.open_process(
        command, cwd=REPOSITORY, env=server_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        log = ""

        async def until(text: str) -> None:
            nonlocal log
            with anyio.fail_after(30):
                while text not in log:
                    assert process.stderr is not None
                    log += (await process.stderr.receive()).decode()

        try:
            await until("stop  ")
            url = next(line.split()[-1] for line in log.splitlines() if line.strip().startswith("address"))
            async with Client(url, mode="2026-07-28", cache=None) as client:
                await client.list_prompts()
                make_skill("two")
                process.send_signal(signal.SIGHUP)
                await until("reloaded on request: 1 added, 0 removed, 0 updated")
                listed = await client.list_prompts()
                assert [prompt.name for prompt in listed.prompts] == ["one", "two", "with_skills"]
        finally:
            process.terminate()
