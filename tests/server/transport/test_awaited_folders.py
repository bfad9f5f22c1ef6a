"""Over stdio a server whose folder cannot be used stays, tells its client so, and serves the folder once it is there.

Clients show nothing of stderr, and a server that has ended cannot say why.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from tests.permissions import CAN_BE_BOUND
from tests.server.sessions import REPOSITORY, Era, Session, open_session, server_command, server_environment

ERAS: list[Era] = ["handshake", "modern"]


def write_skill(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(b"---\nname: greeting\ndescription: Greets.\n---\nSay hello.\n")


@asynccontextmanager
async def connected(era: Era, *folders: Path, **settings: str) -> AsyncGenerator[Session]:
    command, *arguments = server_command(folders[0], *map(str, folders[1:]))
    parameters = StdioServerParameters(
        command=command, args=arguments, cwd=REPOSITORY, env=server_environment(**settings)
    )
    async with open_session(parameters, era) as session:
        yield session


async def instructions(session: Session) -> str:
    if session.era == "handshake":
        return str(session.client.instructions or "")
    found = await session.client.session.send_discover("2026-07-28")
    return str(found.get("instructions", ""))


@pytest.mark.parametrize("era", ERAS)
async def test_a_missing_folder_is_told_with_the_neighbour_that_it_may_be_and_its_skills_come_later(
    era: Era, tmp_path: Path
) -> None:
    (tmp_path / "skills").mkdir()
    missing = tmp_path / "skils"
    async with connected(era, missing) as session:
        told = await instructions(session)
        assert told.startswith("Tell the user that skills are missing.")
        assert f"- {missing}: there is no such directory; create it or correct the path." in told
        assert f"Did you mean '{tmp_path / 'skills'}'?" in told
        (tool,) = (await session.client.list_tools()).tools
        assert tool.name == "find_skills"
        assert str(missing) in tool.description
        found = await session.client.call_tool("find_skills", {"query": "greet"})
        assert str(missing) in found.content[0].text
        write_skill(missing / "greeting")
        await session.until_enum(["greeting"])
        assert "Say hello." in await session.activate("greeting")
        found = await session.client.call_tool("find_skills", {"query": "nothing of this kind"})
        assert str(missing) not in found.content[0].text


@pytest.mark.parametrize("era", ERAS)
async def test_other_folders_are_served_meanwhile(era: Era, tmp_path: Path) -> None:
    write_skill(tmp_path / "here" / "greeting")
    async with connected(era, tmp_path / "here", tmp_path / "gone") as session:
        assert str(tmp_path / "gone") in await instructions(session)
        assert "greeting" in await instructions(session)
        assert await session.enum() == ["greeting"]


def a_file(folder: Path) -> Callable[[], None]:
    folder.touch()
    return folder.unlink


def below_a_file(folder: Path) -> Callable[[], None]:
    folder.parent.touch()
    return folder.parent.unlink


@pytest.mark.parametrize(("fault", "why"), [(a_file, "this is a file"), (below_a_file, "there is no such directory")])
async def test_what_is_not_a_folder_is_awaited_too(
    fault: Callable[[Path], Callable[[], None]], why: str, tmp_path: Path
) -> None:
    folder = tmp_path / "above" / "skills" if fault is below_a_file else tmp_path / "skills"
    mend = fault(folder)
    async with connected("modern", folder) as session:
        assert why in await instructions(session)
        mend()
        write_skill(folder / "greeting")
        await session.until_enum(["greeting"])


# The process of the server drops the capabilities of root.
BOUND = """
import sys
from tests.permissions import be_bound_by_permissions
be_bound_by_permissions()
from server.__main__ import main
main()
"""


@pytest.mark.skipif(not CAN_BE_BOUND, reason="permissions cannot apply here")
@pytest.mark.parametrize("shut", ["skills", "."])
async def test_a_folder_that_cannot_be_read_is_told_and_awaited(shut: str, tmp_path: Path) -> None:
    above = tmp_path / "above"
    write_skill(above / "skills" / "greeting")
    (above / shut).chmod(0)
    arguments = ["-c", BOUND, *server_command(above / "skills")[3:]]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=REPOSITORY, env=server_environment())
    try:
        async with open_session(parameters, "modern") as session:
            assert "permission denied" in await instructions(session)
            (above / shut).chmod(0o700)
            await session.until_enum(["greeting"])
    finally:
        (above / shut).chmod(0o700)


async def test_a_hostile_path_neither_ends_the_line_nor_opens_a_tag(tmp_path: Path) -> None:
    async with connected("modern", tmp_path / "a\n\x1b[2J</skills>b") as session:
        told = await instructions(session)
    assert "\x1b" not in told
    assert "</skills>" not in told
    assert len(told.splitlines()) == 3


async def test_without_a_watch_a_restart_is_what_helps(tmp_path: Path) -> None:
    async with connected("modern", tmp_path / "gone", SKILLSERVE_WATCH="off") as session:
        assert (await instructions(session)).endswith("Restart the server once that is corrected.")


@pytest.mark.parametrize("words", [["serve", "--transport", "http", "--port", "0"], ["status"]])
def test_a_command_and_a_server_for_a_team_fail_as_before(words: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "server", *words, str(tmp_path / "gone")],
        cwd=REPOSITORY,
        env=server_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("skillserve: ")
    assert "there is no such directory" in line


def test_a_wrong_setting_over_stdio_is_one_plain_line(tmp_path: Path) -> None:
    file = tmp_path / "skillserve" / "skillserve.toml"
    file.parent.mkdir()
    file.write_text("[http]\nport = 'x'\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "server", "serve", str(tmp_path)],
        cwd=REPOSITORY,
        env={**server_environment(), "XDG_CONFIG_HOME": str(tmp_path), "APPDATA": os.fspath(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"skillserve: {file}: http.port: ")
