"""No list and no tool hands a model the eval files of a skill; the Skills extension has all files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_types import ResourceTemplateReference

from server.config.settings.tools import OptionalTool
from tests.conftest import MakeSkill
from tests.server.protocol.test_skills_extension import all_skills, ask
from tests.server.sessions import Connect, ConnectHosted

ANSWER = b"the expected answer"
EVALS = {
    "evals/evals.json": ANSWER,
    "evals/files/sales.csv": ANSWER,
    "evals/check.py": b"print(1)",
    "Evals/b.md": ANSWER,
}
"""Two folders on most systems, one where the file system ignores case."""


@pytest.fixture
def with_evals(make_skill: MakeSkill) -> None:
    """Write a skill with eval files, and one in it."""
    fields = "references: [evals/evals.json, notes.md]"
    make_skill("outer", body="See evals/evals.json.", fields=fields, files={**EVALS, "notes.md": b"notes"})
    make_skill("outer/inner", files={"evals/evals.json": ANSWER})


CALLS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("read_skill_file", {"skill": skill, "path": path})
        for skill, path in (
            ("outer", "evals/evals.json"),
            ("outer", "./evals/files/sales.csv"),
            ("outer", "Evals/b.md"),
            ("outer", "skill://outer/evals/evals.json"),
            ("outer", "skill://outer/%65vals/evals.json"),
            ("outer", "inner/evals/evals.json"),
            ("outer", "skill://outer/inner/evals/evals.json"),
            ("inner", "evals/evals.json"),
        )
    ),
    ("run_skill_script", {"skill": "outer", "path": "evals/check.py"}),
]


@pytest.mark.usefixtures("with_evals")
@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=lambda value: str(value)[:60])
async def test_no_tool_uses_an_eval_file_for_a_model(
    tool: str, arguments: dict[str, Any], skills: Path, in_memory: ConnectHosted
) -> None:
    async with in_memory(skills, tools=(OptionalTool("run_skill_script"),)) as session:
        result = await session.client.call_tool(tool, arguments)
        assert result.is_error
        assert "belongs to its tests and may hold the expected answers" in result.content[0].text
        mistaken = {**arguments, "path": arguments["path"] + "x"}
        hint = (await session.client.call_tool(tool, mistaken)).content[0].text
        assert "Did you mean" not in hint


@pytest.mark.usefixtures("with_evals")
async def test_no_list_for_models_names_an_eval_file_and_the_extension_has_all(connect: Connect) -> None:
    async with connect() as session:
        client = session.client
        for text in (
            await session.activate("outer"),
            (await client.get_prompt("outer")).messages[0].content.text,
            await session.activate("inner"),
        ):
            assert "evals/" not in text.replace("See evals/evals.json.", "").lower()
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert listed == ["skill://outer/SKILL.md", "skill://outer/notes.md", "skill://outer/inner/SKILL.md"]
        template = ResourceTemplateReference(type="ref/resource", uri="skill://{+skill}/{+path}")
        paths = (await client.complete(template, {"name": "path", "value": "eval"})).completion.values
        assert paths == []
        # A host verifies a skill by its whole manifest, so the extension has all files, and reads them.
        manifest = {file["uri"]: file["size"] for entry in await all_skills(session) for file in entry["resources"]}
        assert {"skill://outer/evals/evals.json", "skill://outer/inner/evals/evals.json"} <= manifest.keys()
        directory = await ask(session, "resources/directory/read", uri="skill://outer/evals")
        assert "skill://outer/evals/evals.json" in [each["uri"] for each in directory["resources"]]
        read = await client.read_resource("skill://outer/evals/evals.json")
        assert read.contents[0].text == ANSWER.decode()


@pytest.mark.usefixtures("with_evals")
async def test_with_serve_evals_clients_list_and_read_eval_files_and_no_skill_names_them(connect: Connect) -> None:
    async with connect(SKILLSERVE_SERVE_EVALS="true") as session:
        listed = [str(resource.uri) for resource in (await session.client.list_resources()).resources]
        assert {"skill://outer/evals/evals.json", "skill://outer/inner/evals/evals.json"} <= {*listed}
        template = ResourceTemplateReference(type="ref/resource", uri="skill://{+skill}/{+path}")
        paths = (await session.client.complete(template, {"name": "path", "value": "eval"})).completion.values
        assert "evals/evals.json" in paths
        read = {"skill": "outer", "path": "evals/evals.json"}
        assert (await session.client.call_tool("read_skill_file", read)).content[0].text.endswith(ANSWER.decode())
        assert "evals/files" not in await session.activate("outer")


async def test_with_serve_evals_a_new_eval_file_changes_the_list(
    in_memory: ConnectHosted, make_skill: MakeSkill
) -> None:
    folder = make_skill("a", files=EVALS)
    async with in_memory(folder.parent, serve_evals=True) as session:
        (folder / "evals" / "new.json").write_bytes(b"new")
        await session.until_told("resources")


async def test_a_changed_eval_file_is_no_news_to_a_model_and_changes_no_list(
    connect: Connect, make_skill: MakeSkill
) -> None:
    # As long as what `told_before` writes, because a list shows sizes.
    folder = make_skill("a", files={**EVALS, "notes.md": b"0"})
    notes = "skill://a/notes.md"
    async with connect((notes, "skill://a/evals/evals.json")) as session:
        await session.activate("a")
        (folder / "evals" / "new.json").write_bytes(b"new")
        (folder / "evals" / "evals.json").write_bytes(b"other")
        await session.until_told("updated skill://a/evals/evals.json")
        news = await session.client.call_tool("find_skills", {"query": "thing"})
        assert len(news.content) == 1
        (folder / "evals" / "newer.json").write_bytes(b"new")
        told = await session.told_before(folder / "notes.md", notes)
        assert set(told) <= {"updated skill://a/evals/evals.json"}
