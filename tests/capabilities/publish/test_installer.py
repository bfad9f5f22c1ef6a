"""`npx skills` installs what is published, and updates it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from conformance.identity_provider import MODULES
from tests.conftest import MakeSkill
from tests.server.serving import Served, serving

NODE = MODULES / ".bin/node"
INSTALLER = MODULES / "skills/bin/cli.mjs"
# It may ask hosts of its own; here it reaches the server alone.
ONLY_LOOPBACK = """
const ask = fetch;
globalThis.fetch = async (url, options) => {
  if (new URL(url).hostname !== "127.0.0.1") throw new Error("left out: " + url);
  return ask(url, options);
};
"""
AGENTS = {
    "claude-code": ".claude/skills",
    "codex": ".agents/skills",
    "cursor": ".agents/skills",
    "goose": ".goose/skills",
    "windsurf": ".windsurf/skills",
}

pytestmark = [
    pytest.mark.skipif(
        not NODE.exists() or not INSTALLER.exists(), reason="skills is not installed; `make conformance` installs it"
    ),
    pytest.mark.slow,
]


@pytest.fixture
def library(make_skill: MakeSkill, skills: Path) -> Path:
    make_skill("single", body="Größe 漢字\r\nsecond line")
    make_skill("fifty", files={f"references/r{number:02}.md": b"%d\n" % number for number in range(50)})
    odd = {
        "a b/Überblick - 漢字 😀.md": b"x",
        "assets/all.bin": bytes(range(256)) * 1000,
        f"{'d' * 60}/{'e' * 60}.md": b"",
    }
    folder = make_skill("odd", files={**odd, "scripts/run.sh": b"#!/bin/sh\n"})
    (folder / "scripts/run.sh").chmod(0o755)
    make_skill("user-only", fields="disable-model-invocation: true")
    make_skill("Not Fit")
    return skills


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def install(project: Path, *words: str) -> str:
    """Run `skills` in a folder, with a home folder of its own."""
    home = project.parent / "home"
    home.mkdir(exist_ok=True)
    guard = home / "only_loopback.mjs"
    guard.write_text(ONLY_LOOPBACK)
    # An update starts the program again.
    own = {"HOME": str(home), "NODE_OPTIONS": f"--import={guard.as_uri()}", "PATH": str(NODE.parent)}
    environment = {**own, "CI": "1", "NO_COLOR": "1", "DO_NOT_TRACK": "1"}
    done = await anyio.run_process(
        [str(NODE), str(INSTALLER), *words],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        check=False,
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said
    return said


def files_in(folder: Path) -> Mapping[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


async def add(served: Served, project: Path, base: str, *words: str) -> str:
    return await install(project, "add", served.at(base), "--yes", *words)


@pytest.mark.parametrize("base", ["", "/mcp"])
async def test_agents_get_the_same_bytes(library: Path, project: Path, base: str) -> None:
    async with serving(library) as served:
        await add(served, project, base, "--copy", "--skill", "*", "--agent", *AGENTS)
    for folder in {*AGENTS.values()}:
        assert {each.name for each in (project / folder).iterdir()} == {"single", "fifty", "odd"}
        for name in ("single", "fifty", "odd"):
            assert files_in(project / folder / name) == files_in(library / name)


async def test_an_update_brings_what_was_edited_and_nothing_else(library: Path, project: Path) -> None:
    async with serving(library) as served:
        # An update writes to the folder that agents share; the others have links into it.
        await add(served, project, "", "--skill", "*", "--agent", "claude-code", "codex")
        assert "Updating fifty" not in await install(project, "update", "--yes")
        for path in ("fifty/references/r07.md", "single/SKILL.md"):
            (library / path).write_bytes((library / path).read_bytes() + b"more\n")
        await served.host.reload()
        said = await install(project, "update", "--yes")
    assert [name for name in ("single", "fifty", "odd") if f"Updated {name}" in said] == ["single", "fifty"]
    for name in ("single", "fifty", "odd"):
        assert files_in(project / ".claude/skills" / name) == files_in(library / name)


async def test_a_profile_has_its_own_skills(library: Path, project: Path) -> None:
    access: dict[str, Any] = {
        "access_roles": {"few": ["single"], "all": ["*"]},
        "access_default_roles": ("few", "all"),
        "access_profiles": {"small": ["few"]},
    }
    async with serving(library, **access) as served:
        await add(served, project, "/mcp/small", "--skill", "*", "--agent", "claude-code")
    assert [each.name for each in (project / ".claude/skills").iterdir()] == ["single"]
