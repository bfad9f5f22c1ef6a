"""The whole loop on the command line: a failing run, its improvement, a passing run, and the way back."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from server.capabilities.improve.records import improvement_records
from server.cli.app import app
from skills_core.testing import Call
from tests.capabilities.history.helpers import run
from tests.capabilities.improve.conftest import OpenLoop
from tests.capabilities.improve.loops import RIGHT, SKILL, WRONG, Model
from tests.model_endpoint import ModelEndpoint

Command = Callable[..., Awaitable[Any]]


def settings_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "xdg_config_home" / "skillserve" / "skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def command(endpoint: ModelEndpoint, tmp_path: Path) -> Command:
    """Run a command in the state and with the settings of the test; check its exit code, and return what it printed."""
    settings = {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "SKILLSERVE_MODEL": endpoint.model,
        "SKILLSERVE_HISTORY": "explicit",
        "SKILLSERVE_RUN_TOOLS": "list_directory",
        "SKILLSERVE_WORKSPACE": str(tmp_path / "work"),
    }

    async def done(*arguments: object, code: int = 0, told: str = "") -> str:
        found = await anyio.to_thread.run_sync(partial(run, tmp_path, *arguments, **settings))
        assert found.returncode == code, found.stderr
        assert told in found.stderr
        return str(found.stdout or found.stderr)

    return done


async def test_a_failing_run_an_improvement_a_passing_run_and_a_rollback(
    command: Command, model: Model, skills: Path, tmp_path: Path
) -> None:
    main = skills / "tidy" / "SKILL.md"
    main.parent.mkdir(parents=True)
    main.write_bytes(SKILL.encode())
    (tmp_path / "work").mkdir()
    words = ("run", "tidy", "the folder here", skills, "--improve", "explicit", "--json")
    diff = f"skillserve: -Call the tool {WRONG} to see the files.\nskillserve: +Call the tool {RIGHT} to see the files."
    failed = json.loads(await command(*words, told=diff))
    [change] = failed["improvements"]
    assert (change["status"], change["run_id"], f"+Call the tool {RIGHT}" in change["diff"]) == (
        "improved",
        failed["run_id"],
        True,
    )
    assert [call["decision"] for call in failed["tool_calls"]] == ["unknown_tool"]
    assert main.read_text() == SKILL.replace(WRONG, RIGHT)
    passed = json.loads(await command(*words))
    assert passed["improvements"] == []
    assert [call["decision"] for call in passed["tool_calls"]] == ["done"]
    assert len(model.tasks) == 1
    newest = json.loads(await command("history", "tidy", skills, "--json"))["commits"][0]
    assert (newest["cause"], newest["trace_id"]) == ("improvement", failed["run_id"])
    await command("rollback", "tidy", skills)
    assert main.read_bytes() == SKILL.encode()


async def test_with_review_a_person_decides(command: Command, loop: OpenLoop, skills: Path) -> None:
    async with loop(improve_review=True) as found:
        for _ in range(3):
            await found.run()
        assert found.main.read_text() == SKILL
        assert {each["status"] for each in found.records} == {"proposed"}
        first, second, third = (each["id"] for each in reversed(found.records))
        assert f"+Call the tool {RIGHT}" in await command("history", "propose")
        await command("history", "reject", third)
        found.main.write_text(SKILL + "Mine.\n")
        assert "was edited since" in await command("history", "accept", first, skills, code=1)
        found.main.write_text(SKILL)
        await command("history", "accept", first, skills)
        assert found.main.read_text() == SKILL.replace(WRONG, RIGHT)
        # Two are closed, and the other one is for a text that is gone.
        for number in (first, second):
            await command("history", "accept", number, skills, code=1)
        assert [each["status"] for each in found.records] == ["rejected", "proposed", "accepted"]


async def test_what_a_workflow_changes_is_printed_by_its_command(
    command: Command, model: Model, skills: Path, tmp_path: Path
) -> None:
    main = skills / "tidy" / "SKILL.md"
    main.parent.mkdir(parents=True)
    main.write_bytes(SKILL.encode())
    (tmp_path / "work").mkdir()
    settings_file(tmp_path, '[improve]\nsources = ["explicit"]\n')
    flow = tmp_path / "flow.yaml"
    flow.write_text("name: flow\nsteps: [{kind: skill, name: A, target: tidy}]")
    words = ("workflow", "run", flow, skills, "--json")
    outcome = json.loads(await command(*words, told="The skill tidy was changed"))
    assert [each["status"] for each in outcome["improvements"]] == ["improved"]
    assert (main.read_text(), len(model.tasks)) == (SKILL.replace(WRONG, RIGHT), 1)


async def test_a_schedule_prints_delivers_and_shows_what_its_run_proposes(
    command: Command, model: Model, skills: Path, tmp_path: Path
) -> None:
    main = skills / "tidy" / "SKILL.md"
    main.parent.mkdir(parents=True)
    main.write_bytes(SKILL.encode())
    (tmp_path / "work").mkdir()
    model.fixes = [Call("write_file", {"path": "SKILL.md", "replace": WRONG, "content": f"{RIGHT} twice"}), "Done."]
    result = tmp_path / "result.json"
    deliver = f'[schedules]\ncommand = ["sh", "-c", "cat > {result}"]\n'
    settings_file(tmp_path, f'[improve]\nsources = ["explicit"]\n{deliver}')
    words = ("schedule", "add", "x", "--every", "2h", "--task", "Tidy up.", "--skill", "tidy", "--run-tool", RIGHT)
    name = json.loads(await command(*words, "--json"))["name"]
    told = "skillserve: A change of the skill tidy is proposed, and not made"
    await command("schedule", "run", name, skills, "--run-tool", RIGHT, told=told)
    assert main.read_text() == SKILL
    shown = json.loads(await command("schedule", "show", name, "--json"))
    [change] = shown["improvements"]
    assert (change["status"], change["reason"]) == ("proposed", "not_a_correction")
    assert f"+Call the tool {RIGHT} twice" in await command("schedule", "show", name)
    assert [each["id"] for each in json.loads(result.read_text())["improvements"]] == [change["id"]]


async def test_a_forgotten_secret_leaves_the_proposals_too(
    loop: OpenLoop, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model.fixes = [
        Call("write_file", {"path": "SKILL.md", "replace": WRONG, "content": f"{RIGHT} s3cr3t-0815"}),
        "Done.",
    ]
    async with loop(improve_review=True) as found:
        await found.run()
        [record] = found.records
        assert improvement_records().forget(lambda raw: b"s3cr3t-0816" in raw) == []
        monkeypatch.setattr("sys.stdin", io.StringIO("s3cr3t-0815\n"))
        capsys.readouterr()
        app(["history", "forget", "--json"], standalone_mode=False)
        assert json.loads(capsys.readouterr().out)["improvements"] == [record["id"]]
        [left] = found.records
        assert (left["status"], left["run_id"], left.get("diff")) == ("rejected", record["run_id"], None)
    for file in (tmp_path / "state" / "skillserve" / "improvements").glob("*.json"):
        assert "s3cr3t" not in file.read_text()
