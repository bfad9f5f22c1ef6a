"""Search by meaning in a running server: it becomes ready while the server answers, and follows changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from mcp import StdioServerParameters

from tests.conftest import write_skill
from tests.core.selection.tiny_model import write_model
from tests.server.sessions import open_session, server_command, server_environment


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return write_model(tmp_path / "model")


async def found(client: Any, query: str) -> str:
    text: str = (await client.call_tool("find_skills", {"query": query})).content[0].text
    return text.splitlines()[0]


async def until_found(client: Any, query: str, line: str) -> None:
    while await found(client, query) != line:
        await anyio.lowlevel.checkpoint()


async def test_the_first_search_is_answered_by_words_and_later_ones_by_meaning(model: Path, tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    write_skill(skills, "travelling", description="Plan a trip.")
    command, *words = server_command(skills, "--embeddings")
    environment = server_environment(SKILLSERVE_EMBEDDINGS_MODEL=str(model))
    target = StdioServerParameters(command=command, args=words, env=environment)
    async with open_session(target, "handshake") as session:
        client = session.client
        assert (await found(client, "trip")).startswith("travelling: Plan a trip. (trip")
        await until_found(client, "holiday", "travelling: Plan a trip. (by meaning)")
        write_skill(skills, "invoices", description="Read bills.")
        await until_found(client, "bills", "invoices: Read bills. (bills)")
        write_skill(skills, "travelling", description="Read.")
        await until_found(
            client,
            "holiday",
            "No skill matches 'holiday'. Try the task, technology or file format in "
            "other words; if nothing matches then, work without a skill.",
        )
