"""The command `bridge`, the server that keeps stubs in step, and what else must not take a stub for a skill."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.capabilities.bridge.clients import bridged_clients
from server.capabilities.bridge.settings import Bridged
from server.capabilities.connect.clients import known_clients
from server.clients.known import KNOWN_CLIENTS
from server.clients.layout import layout_for
from server.listing.layout import CatalogPlace
from skills_core.format.stubs import read_stub
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run
from tests.server.sessions import server_command, server_environment
from tests.server.settings import make_settings

STUBS = ".claude/skills"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def bridge(home: Path, *words: str | Path) -> Any:
    return run("bridge", *words, HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"), CLAUDE_CONFIG_DIR="")


def names(folder: Path) -> list[str]:
    return sorted(each.parent.name for each in folder.glob("*/SKILL.md"))


def test_each_client_is_one_that_connect_knows_and_that_has_facts() -> None:
    clients = bridged_clients()
    assert [*clients] == [*map(str, Bridged)]
    assert {*clients} <= {*known_clients()}
    assert {each.facts for each in clients.values()} <= {each.key for each in KNOWN_CLIENTS}
    assert all(each.title == known_clients()[key].title for key, each in clients.items())


def test_a_stub_has_the_name_and_the_description_of_its_skill(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", "Does one: fast. Use for ones.".join('""'))
    make_skill("for-users", fields="disable-model-invocation: true")
    done = bridge(home, "claude-code", skills, "--name", "team", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["written"] == ["one"]
    text = (home / STUBS / "one/SKILL.md").read_text()
    assert 'name: one\ndescription: "Does one: fast. Use for ones."\n' in text
    assert "(mcp__team__activate_skill) with the name `one`" in text
    assert bridge(home, "claude-code", "--remove").returncode == 0
    assert names(home / STUBS) == ["one"]
    assert bridge(home, "claude-code", "--remove", "--name", "team").returncode == 0
    assert [*home.iterdir()] == []


def test_stubs_are_not_served_as_skills_again(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("quokka")
    bridge(home, "claude-code", skills)
    bridge(home, "codex", skills)
    for words in (("list", "--json"), ("doctor",), ()):
        shown = run(*words, HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"), PATH=os.defpath)
        assert "quokka" not in shown.stdout
        assert ".codex/skills" not in shown.stdout
    (home / STUBS / "quokka/SKILL.md").write_text("---\nname: quokka\ndescription: Mine.\n---\n\nMine.\n")
    shown = run("list", "--json", HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"))
    assert "Mine." in shown.stdout


def test_skills_that_the_client_reads_itself_have_no_stub(home: Path, make_skill: MakeSkill, skills: Path) -> None:
    folder = home / ".agents/skills"
    folder.parent.mkdir()
    make_skill("one")
    skills.rename(folder)
    bridge(home, "claude-code")
    bridge(home, "codex")
    assert "one" in names(home / STUBS)
    assert "one" not in names(home / ".codex/skills")


def test_stubs_are_those_of_the_roles_of_a_caller_without_a_token(
    home: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("open")
    make_skill("secret")
    file = home / ".config/skillserve/skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[access]\ndefault_roles = ["all"]\n[access.roles]\nall = ["open"]\nteam = ["secret"]\n')
    done = bridge(home, "claude-code", skills)
    assert done.returncode == 0, done.stderr
    assert names(home / STUBS) == ["open"]


def test_hostile_and_equal_names_stay_within_the_folder(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    (make_skill("a") / "SKILL.md").write_text("---\nname: ../../x\ndescription: X.\n---\n")
    (make_skill("b") / "SKILL.md").write_text("---\nname: X\ndescription: Y.\n---\n")
    report = json.loads(bridge(home, "claude-code", skills, "--json").stdout)
    assert names(home / STUBS) == ["x"]
    assert [*report["left_out"].values()] == ["another skill has the stub x"]
    assert [each.name for each in home.iterdir()] == [".claude"]


def test_a_client_gets_a_bounded_number(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    most = bridged_clients()["gemini-cli"].most
    for number in range(most + 3):
        make_skill(f"s{number:03}")
    report = json.loads(bridge(home, "gemini-cli", skills, "--json").stdout)
    assert len(report["written"]) == most
    assert [*report["left_out"]] == ["3 further skills"]


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - a folder tells nobody when it changes
            await anyio.sleep(0.05)


@pytest.mark.anyio
async def test_a_server_keeps_stubs_in_step_with_the_skills(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    folder, other = home / STUBS, make_skill("other")
    make_skill("one")
    environment = server_environment(HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"), CLAUDE_CONFIG_DIR="")
    process = await anyio.open_process(
        server_command(skills, "--bridge", "claude-code"), stdin=subprocess.PIPE, env=environment
    )
    async with process:
        await until(lambda: names(folder) == ["one", "other"])
        make_skill("one", "Other words. Use for others.")
        (other / "SKILL.md").unlink()
        make_skill("two")
        await until(lambda: names(folder) == ["one", "two"])
        await until(lambda: "Other words." in (folder / "one/SKILL.md").read_text())
        assert process.stdin is not None
        await process.stdin.aclose()
        await process.wait()
    # A client reads the folder when it starts, before its server does.
    assert all(read_stub((folder / name / "SKILL.md").read_text()) for name in ("one", "two"))


def test_texts_leave_out_the_catalog_for_a_client_with_stubs_over_stdio() -> None:
    places = {}
    for key, transport in (("claude-code", "stdio"), ("codex", "stdio"), ("claude-code", "http")):
        settings = make_settings(bridge=["claude-code"], transport=transport)
        client = next(each for each in KNOWN_CLIENTS if each.key == key)
        places[key, transport] = layout_for(client, settings).place is CatalogPlace.CLIENT
    assert places == {("claude-code", "stdio"): True, ("codex", "stdio"): False, ("claude-code", "http"): False}
