"""Edits that a running server sees, scheduler skills, and secrets: what the history has of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.capabilities.history.helpers import SKILL, commits, environment, run, write_skill
from tests.core.history.test_size_and_secrets import SECRET, holds
from tests.server.sessions import REPOSITORY, server_command, server_environment

ON = {"SKILLSERVE_HISTORY": "explicit"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_skill(tmp_path / "source", "deploy")
    write_skill(tmp_path / "source", "other")
    return tmp_path / "source"


def git_log(tmp_path: Path) -> list[str]:
    """Return the causes of all commits as the disk has them; a command of ours would record edits first."""
    script = (
        "import sys; from pathlib import Path; from skills_core.history.store import existing_histories, open_history\n"
        "state = Path(sys.argv[1])\n"
        "for each in existing_histories(state):\n"
        "    with open_history(each, state) as found:\n"
        "        print(*[c.cause + ':' + ','.join(c.skills) for c in found.commits()])"
    )
    state = tmp_path / "xdg_state_home" / "skillserve"
    done = subprocess.run(
        [sys.executable, "-c", script, state], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    return done.stdout.split()


async def test_each_edit_that_a_server_sees_is_a_commit(source: Path, tmp_path: Path) -> None:
    command, *words = server_command(source)
    settings = server_environment(**environment(tmp_path, **ON, SKILLSERVE_WATCH_DEBOUNCE_MS="50"))
    server = StdioServerParameters(command=command, args=words, cwd=REPOSITORY, env=settings)
    expected = ["initial:deploy,other"]

    async def recorded() -> None:
        with anyio.fail_after(30):
            while (now := await anyio.to_thread.run_sync(git_log, tmp_path)) != expected:
                assert len(now) <= len(expected)
                await anyio.sleep(0.1)

    async with Client(server) as client:
        await client.list_tools()
        await recorded()
        for step in (2, 3):
            write_skill(source, "deploy", step)
            expected.insert(0, "manual:deploy")
            await recorded()
        (source / "other" / "notes.md").write_text("New.\n")
        expected.insert(0, "manual:other")
        await recorded()
        (source / "other" / "SKILL.md").unlink()
        (source / "other" / "notes.md").unlink()
        (source / "other").rmdir()
        expected.insert(0, "manual:other")
        await recorded()


def add(tmp_path: Path, task: str) -> str:
    done = run(tmp_path, "schedule", "add", "daily", "--every", "2h", "--task", task, "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["name"])


def test_scheduler_skills_have_a_history_and_keep_their_times(tmp_path: Path) -> None:
    pytest.importorskip("dbos", reason="the extra `run` is not installed")
    name = add(tmp_path, "Tidy the desk.")
    folder = tmp_path / "xdg_state_home" / "skillserve" / "skills" / "scheduler" / name
    before, binding = (folder / "SKILL.md").read_text(), (folder / "schedule.json").read_bytes()
    (folder / "SKILL.md").write_text(before.replace("Tidy the desk.", "Delete the desk."))
    assert [each["cause"] for each in commits(tmp_path, name)] == ["manual", "schedule"]
    (folder / "schedule.json").write_bytes(binding.replace(b"  ", b" "))
    assert len(commits(tmp_path, name)) == 2
    assert run(tmp_path, "rollback", name).returncode == 0
    assert (folder / "SKILL.md").read_text() == before
    assert (folder / "schedule.json").read_bytes() == binding.replace(b"  ", b" ")
    assert run(tmp_path, "schedule", "remove", name).returncode == 0
    newest = commits(tmp_path, name)[0]
    assert (newest["cause"], newest["message"]) == ("schedule", f"Remove the schedule {name}")
    assert run(tmp_path, "rollback", name).returncode == 0
    assert (folder / "SKILL.md").read_text() == before
    [shown] = json.loads(run(tmp_path, "schedule", "list", "--json").stdout)["schedules"]
    assert (shown["name"], shown["state"]) == (name, "unbound")


def test_scheduler_skills_have_none_if_only_named_sources_have_one(tmp_path: Path) -> None:
    pytest.importorskip("dbos", reason="the extra `run` is not installed")
    done = run(
        tmp_path, "schedule", "add", "x", "--every", "2h", "--task", "Tidy.", SKILLSERVE_HISTORY_AUTOMATIC="false"
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "xdg_state_home" / "skillserve" / "history").exists()


def forget(tmp_path: Path, *words: object, secret: str = SECRET) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "server", "history", "forget", *map(str, words)],
        cwd=tmp_path,
        env=server_environment(**environment(tmp_path, **ON)),
        input=f"{secret}\n",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_a_secret_is_forgotten_by_a_command_that_says_where_it_remains(source: Path, tmp_path: Path) -> None:
    state = tmp_path / "xdg_state_home" / "skillserve"
    main = source / "deploy" / "SKILL.md"
    main.write_text(SKILL % ("deploy", 1) + f"Token {SECRET}\n", encoding="utf-8")
    assert len(commits(tmp_path, "deploy", source, **ON)) == 1
    there = forget(tmp_path)
    assert (there.returncode, "deploy/SKILL.md" in there.stderr) == (1, True)
    write_skill(source, "deploy", 2)
    assert len(commits(tmp_path, "deploy", source, **ON)) == 2
    (state / "traces").mkdir(parents=True, exist_ok=True)
    (state / "traces" / "x.jsonl").write_text(SECRET, encoding="utf-8")
    assert holds(state / "history")
    done = forget(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert [(each["commits"], each["files"]) for each in found["histories"]] == [(1, ["deploy/SKILL.md"])]
    assert found["elsewhere"] == [str(state / "traces" / "x.jsonl")]
    assert "backups" in done.stderr
    assert not holds(state / "history")
    assert len(commits(tmp_path, "deploy", source, **ON)) == 2
    again = forget(tmp_path)
    assert (again.returncode, "no history has it" in again.stdout) == (0, True)
    assert forget(tmp_path, secret="short").returncode == 1  # noqa: S106 - of no one


def test_a_history_of_which_it_cannot_be_read_whose_it_is_counts_as_one_that_may_have_the_secret(
    source: Path, tmp_path: Path
) -> None:
    assert len(commits(tmp_path, "deploy", source, **ON)) == 1
    [file] = (tmp_path / "xdg_state_home" / "skillserve" / "history").glob("*/source.json")
    file.write_text("{")
    done = forget(tmp_path, "--json")
    assert done.returncode == 1
    assert "source.json: this is not JSON" in json.loads(done.stdout)["histories"][0]["fault"]
