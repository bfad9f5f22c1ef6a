"""The whole loop on the command line: a failing run, its improvement, a passing run, and the way back."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from tests.model_endpoint import ModelEndpoint
from tests.server.history.helpers import run
from tests.server.improve.loops import RIGHT, SKILL, WRONG, Model


async def test_the_whole_loop_by_commands(endpoint: ModelEndpoint, skills: Path, tmp_path: Path) -> None:
    endpoint.reply = model = Model()
    main = skills / "tidy" / "SKILL.md"
    main.parent.mkdir(parents=True, exist_ok=True)
    main.write_bytes(SKILL.encode())
    (tmp_path / "work").mkdir()
    settings = {
        "SKILLSERVE_MODEL": endpoint.model,
        "SKILLSERVE_HISTORY": "explicit",
        "SKILLSERVE_RUN_TOOLS": "list_directory",
        "SKILLSERVE_WORKSPACE": str(tmp_path / "work"),
    }

    async def command(*arguments: object) -> Any:
        done = await anyio.to_thread.run_sync(partial(run, tmp_path, *arguments, **settings))
        assert done.returncode == 0, done.stderr
        return done

    words = ("run", "tidy", "the folder here", skills)
    failed = json.loads((await command(*words, "--improve", "explicit", "--json")).stdout)
    assert [call["decision"] for call in failed["tool_calls"]] == ["unknown_tool"]
    assert main.read_text() == SKILL.replace(WRONG, RIGHT)
    passed = json.loads((await command(*words, "--improve", "explicit", "--json")).stdout)
    assert [call["decision"] for call in passed["tool_calls"]] == ["done"]
    assert len(model.tasks) == 1
    newest = json.loads((await command("history", "tidy", skills, "--json")).stdout)["commits"][0]
    assert (newest["cause"], newest["trace_id"]) == ("improvement", failed["run_id"])
    listed = json.loads((await command("history", "propose", "--all", "--json")).stdout)["improvements"]
    assert [(each["status"], each["commit"]) for each in listed] == [("improved", newest["rev"])]
    await command("rollback", "tidy", skills)
    assert main.read_bytes() == SKILL.encode()
    # Without --improve, nothing follows; with --review, a proposal.
    await command(*words)
    assert len(model.tasks) == 1
    await command(*words, "--improve", skills, "--review")
    assert (len(model.tasks), main.read_bytes()) == (2, SKILL.encode())
