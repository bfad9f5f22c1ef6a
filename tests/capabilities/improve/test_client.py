"""A client's `run_skill` is followed by the improvement, and the same server has the new text for the next run."""

from __future__ import annotations

from pathlib import Path

from mcp import Client, StdioServerParameters

from tests.capabilities.improve.loops import RIGHT, SKILL, WRONG, Model
from tests.model_endpoint import ModelEndpoint
from tests.server.sessions import REPOSITORY, server_command, server_environment


async def test_a_server_improves_a_skill_after_the_run_of_a_client(
    endpoint: ModelEndpoint, model: Model, skills: Path, tmp_path: Path
) -> None:
    main = skills / "tidy" / "SKILL.md"
    main.parent.mkdir(parents=True)
    main.write_text(SKILL)
    (tmp_path / "work").mkdir()
    settings = {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "SKILLSERVE_IMPROVE": "explicit",
        "SKILLSERVE_RUN_TOOLS": "list_directory",
        "SKILLSERVE_WORKSPACE": str(tmp_path / "work"),
        "SKILLSERVE_WATCH": "off",
        "SKILLSERVE_STRUCTURED_RESULTS": "true",
    }
    command, *words = server_command(skills)
    environment = server_environment(**settings)
    server = StdioServerParameters(command=command, args=words, cwd=REPOSITORY, env=environment)
    async with Client(server) as client:
        for decision in ("unknown_tool", "done"):
            result = await client.call_tool("run_skill", {"name": "tidy", "message": "the folder here"})
            assert not result.is_error, result
            assert result.structured_content is not None
            assert [call["decision"] for call in result.structured_content["tool_calls"]] == [decision]
            changes = result.structured_content["improvements"]
            said = "\n".join(str(block) for block in result.content)
            is_first = decision == "unknown_tool"
            assert [change["status"] for change in changes] == ["improved"] * is_first
            assert (f"+Call the tool {RIGHT} to see the files." in said) is is_first
            # The caller has the outcome when the improvement has ended.
            assert main.read_text() == SKILL.replace(WRONG, RIGHT)
    assert len(model.tasks) == 1
