"""Each host that has a preset gets it by the name that it sends, over a connection in either era."""

from __future__ import annotations

from pathlib import Path

import pytest

from skills_core.toolboxes import PRESETS, Toolbox, ToolPurpose
from tests.conftest import MakeSkill
from tests.server.sessions import Era, http_server, open_session

SENT = {
    "claude-code": "claude-code",
    "codex": "codex-mcp-client",
    "gemini": "gemini-cli-mcp-client",
    "vscode": "Visual Studio Code",
    "cursor": "cursor-vscode",
    "opencode": "opencode",
    "goose": "goose",
    "zed": "Zed",
    "cline": "Cline",
    "windsurf": "windsurf-client",
    "agenvoy": "agenvoy",
}
"""The `clientInfo.name` of each host that has a preset."""

BODY = "Run it with run_shell_command or with execute_command."
"""A body that names the shell of Gemini CLI and of Cline: at least one of them is foreign to every host."""


def test_the_name_that_each_host_with_a_preset_sends_is_known() -> None:
    assert SENT.keys() == {toolbox.key for toolbox in PRESETS}


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_client_gets_the_preset_of_its_host_by_the_name_that_it_sends(
    make_skill: MakeSkill, skills: Path, era: Era
) -> None:
    make_skill("pdf", body=BODY)
    async with http_server(skills) as url:
        for toolbox in PRESETS:
            async with open_session(url, era, client_name=SENT[toolbox.key]) as session:
                text = await session.activate("pdf")
            assert _head(toolbox) in text, (toolbox.key, text)
            assert all(f"- `{name}`" not in text for name in toolbox.tools[ToolPurpose.RUN_COMMAND])
        async with open_session(url, era, client_name="without-a-preset") as session:
            assert ": call `" not in await session.activate("pdf")


def _head(toolbox: Toolbox) -> str:
    """Return what the text says of the first foreign tool: which of the host's own tools to call."""
    foreign = next(name for name in ("run_shell_command", "execute_command") if not toolbox.has(name))
    return f"- `{foreign}` (run a command): call `{toolbox.first(ToolPurpose.RUN_COMMAND)}`\n"
