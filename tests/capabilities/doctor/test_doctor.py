from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def doctor(home: Path, *words: str | Path, **variables: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    done = run("doctor", *words, "--json", HOME=str(home), PATH=os.defpath, SKILLSERVE_PORT="0", **variables)
    report = json.loads(done.stdout)
    assert report["ok"] == (done.returncode == 0)
    return done.returncode, report["examinations"]


def bad(found: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str]]:
    return [(title, each["message"]) for title, all_of in found.items() for each in all_of if each["health"] == "bad"]


def test_nothing_is_bad_where_all_works(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    code, found = doctor(home, skills)
    assert (code, bad(found)) == (0, [])
    assert any("1 active" in each["message"] for each in found["Skills"])
    assert found["Installation"][0]["message"].startswith("skillserve ")


def test_a_broken_skill_is_named_with_its_fault(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    folder = skills / "broken"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: broken\n---\n", encoding="utf-8")
    code, found = doctor(home, skills)
    assert code == 1
    ((title, message),) = bad(found)
    assert (title, "broken is not served" in message) == ("Skills", True)


def test_an_empty_folder_is_told_with_where_was_looked(home: Path, skills: Path) -> None:
    code, found = doctor(home, skills)
    assert code == 1
    assert bad(found) == [("Skills", f"no skill is served; looked in {skills}")]
    assert found["Skills"][-1]["advice"] == "run: skillserve init NAME"


def test_a_wrong_setting_is_told_with_its_file(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    code, found = doctor(home, skills, SKILLSERVE_MODEL="nonsense")
    assert code in {0, 1}
    assert any("model" in each["message"] for each in found["Settings"])


def test_a_client_whose_command_does_not_start_is_told(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    entry = {"command": "/nowhere/skillserve", "args": ["serve", str(skills)]}
    file.write_text(json.dumps({"mcpServers": {"skills": entry, "other": {"command": "x"}}}), encoding="utf-8")
    code, found = doctor(home, skills)
    assert code == 1
    ((title, message),) = bad(found)
    assert title == "Clients"
    assert message.startswith("Cursor: skills does not answer: /nowhere/skillserve")
    file.write_text("{", encoding="utf-8")
    assert "this is not valid JSON" in bad(doctor(home, skills)[1])[0][1]
