"""The Skills extension as a host meets it, over each transport in each protocol era."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from tests.conftest import MakeSkill
from tests.server.sessions import Connect, Session, texts_of

VERBATIM = """\
license: MIT
date: 2026-01-02
answer: yes
octal: 010
metadata:
  nested: [1, 2.5, null, {deep: "x"}]"""


class Params(types.PaginatedRequestParams):
    uri: str | None = None


class Result(types.Result):
    model_config = ConfigDict(extra="allow")


async def ask(session: Session, method: str, **params: Any) -> dict[str, Any]:
    request: Any = types.Request(method=method, params=Params(**params))
    answer: dict[str, Any] = (await session.client.session.send_request(request, Result)).model_dump(by_alias=True)
    return answer


async def all_skills(session: Session) -> list[dict[str, Any]]:
    page = await ask(session, "skills/list")
    found = list(page["skills"])
    while page.get("nextCursor"):
        page = await ask(session, "skills/list", cursor=page["nextCursor"])
        found += page["skills"]
    return found


async def test_an_entry_is_a_complete_manifest_whose_digests_and_sizes_are_those_of_the_bytes(
    connect: Connect, make_skill: MakeSkill
) -> None:
    folder = make_skill("one", fields=VERBATIM, files={"a b/c%.md": b"text", "bin": bytes(range(256)), "empty": b""})
    async with connect() as session:
        entry = (await all_skills(session))[0]
        assert entry["uri"] == "skill://one/SKILL.md"
        assert {file["uri"] for file in entry["resources"]} == {
            "skill://one/SKILL.md",
            "skill://one/a%20b/c%25.md",
            "skill://one/bin",
            "skill://one/empty",
        }
        by_uri = {file["uri"]: file for file in entry["resources"]}
        for uri, path in (("skill://one/SKILL.md", "SKILL.md"), ("skill://one/a%20b/c%25.md", "a b/c%.md")):
            raw = (folder / path).read_bytes()
            assert by_uri[uri]["digest"] == "sha256:" + hashlib.sha256(raw).hexdigest()
            assert by_uri[uri]["size"] == len(raw)
            contents = (await session.client.read_resource(uri)).contents[0]
            assert contents.text.encode() == raw
        assert (await ask(session, "skills/get", uri=entry["uri"]))["skill"] == entry


async def test_the_frontmatter_is_what_a_parser_of_yaml_1_2_sees(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("one", description="The one.", fields=VERBATIM)
    async with connect() as session:
        assert (await all_skills(session))[0]["frontmatter"] == {
            "name": "one",
            "description": "The one.",
            "license": "MIT",
            "date": "2026-01-02",
            "answer": "yes",
            "octal": 10,
            "metadata": {"nested": [1, 2.5, None, {"deep": "x"}]},
        }


async def test_the_envelope_belongs_to_the_modern_era_and_cache_hints_not_to_directories(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with connect() as session:
        listed = await ask(session, "skills/list")
        got = await ask(session, "skills/get", uri="skill://one/SKILL.md")
        read = await ask(session, "resources/directory/read", uri="skill://one")
        hints = {"ttlMs", "cacheScope"}
        if session.era == "modern":
            assert hints <= listed.keys() & got.keys()
            assert not hints & read.keys()
            assert {answer["resultType"] for answer in (listed, got, read)} == {"complete"}
            capabilities = (await ask(session, "server/discover"))["capabilities"]
            assert capabilities["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
        else:
            assert not (hints | {"resultType"}) & (listed.keys() | got.keys() | read.keys())


async def test_a_nested_skill_is_listed_flat_and_its_files_stand_in_the_enclosing_manifest(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("outer")
    make_skill("outer/inner", files={"x.md": b"x"})
    async with connect() as session:
        manifests = {entry["uri"]: {file["uri"] for file in entry["resources"]} for entry in await all_skills(session)}
        inner = {"skill://outer/inner/SKILL.md", "skill://outer/inner/x.md"}
        assert manifests == {
            "skill://outer/SKILL.md": {"skill://outer/SKILL.md"} | inner,
            "skill://outer/inner/SKILL.md": inner,
        }


async def test_a_directory_read_gives_direct_children_and_folders_without_a_slash(
    connect: Connect, make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("group/one", files={"a.md": b"a", "sub/deep/b.md": b"b"})
    (skills / "group" / "one" / "empty").mkdir()
    async with connect() as session:

        async def children(uri: str) -> list[tuple[str, str]]:
            found = (await ask(session, "resources/directory/read", uri=uri))["resources"]
            return [(child["uri"], child["mimeType"]) for child in found]

        folder = "inode/directory"
        assert await children("skill://group") == [("skill://group/one", folder)]
        assert await children("skill://group/one") == [
            ("skill://group/one/SKILL.md", "text/markdown"),
            ("skill://group/one/a.md", "text/markdown"),
            ("skill://group/one/empty", folder),
            ("skill://group/one/sub", folder),
        ]
        assert await children("skill://group/one/sub") == [("skill://group/one/sub/deep", folder)]
        assert await children("skill://group/one/empty") == []


async def test_a_path_in_another_case_is_served_by_every_surface_under_its_right_name(
    connect: Connect, make_skill: MakeSkill
) -> None:
    folder = make_skill(
        "pdf",
        body="Read FORMS.md, then run Scripts/Fill.py.",
        files={"forms.md": b"# Forms", "scripts/fill.py": b"print('done')", "evals/evals.json": b"answer"},
    )
    news = "skill://pdf/FORMS.md"
    async with connect(subscribe=(news,), SKILLSERVE_TOOLS="run_skill_script") as session:
        text = await session.activate("pdf")
        assert '<path name="forms.md"' in text
        assert '<path name="scripts/fill.py"' in text
        for path in ("FORMS.md", news):
            read = await session.client.call_tool("read_skill_file", {"skill": "pdf", "path": path})
            assert texts_of(read) == [
                "# Forms",
                "\n[This is the file forms.md: its path differs in case from the one you gave.]",
            ]
        (contents,) = (await session.client.read_resource(news)).contents
        assert (str(contents.uri), contents.text) == ("skill://pdf/forms.md", "# Forms")
        assert (await ask(session, "skills/get", uri="skill://pdf/skill.md"))["skill"]["uri"] == "skill://pdf/SKILL.md"
        children = await ask(session, "resources/directory/read", uri="skill://pdf/SCRIPTS")
        assert [child["uri"] for child in children["resources"]] == ["skill://pdf/scripts/fill.py"]
        ran = await session.client.call_tool("run_skill_script", {"skill": "pdf", "path": "Scripts/Fill.py"})
        assert ran.content[0].text.startswith("scripts/fill.py of the skill pdf ended with exit code 0")
        hidden = await session.client.call_tool("read_skill_file", {"skill": "pdf", "path": "Evals/Evals.json"})
        assert hidden.is_error
        with pytest.raises(MCPError, match=r"Resource not found: .*/form\.md\. Did you mean 'skill://pdf/forms\.md'\?"):
            await session.client.read_resource("skill://pdf/form.md")
        (folder / "forms.md").write_bytes(b"# New forms")
        await session.until_told("updated skill://pdf/forms.md")


async def test_what_is_no_skill_and_what_is_no_directory_are_invalid_params(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("one", files={"a.md": b"a"})
    async with connect() as session:
        for method, uri in (
            ("skills/get", "skill://two/SKILL.md"),
            ("skills/get", "skill://one/a.md"),
            ("skills/get", "skill://one"),
            ("resources/directory/read", "skill://two"),
            ("resources/directory/read", "skill://one/a.md"),
            ("resources/directory/read", "skill://one/.."),
            ("resources/directory/read", "file:///etc"),
        ):
            with pytest.raises(MCPError) as caught:
                await ask(session, method, uri=uri)
            assert caught.value.code == types.INVALID_PARAMS


async def test_only_what_every_host_can_verify_is_listed_and_a_diagnostic_says_why(
    make_skill: MakeSkill, skills: Path, in_memory: Any
) -> None:
    make_skill("fine")
    make_skill("repaired", description="Use when: always")
    make_skill("twice", fields="license: a\nlicense: b")
    make_skill("Upper")
    make_skill("été")
    make_skill("long", description="x" * 1025)
    make_skill("many", files={f"{number}.md": b"" for number in range(512)})
    make_skill("large", files={"1": b"x" * 9_000_000, "2": b"x" * 9_000_000})
    async with in_memory(skills) as session:
        assert [entry["frontmatter"]["name"] for entry in await all_skills(session)] == ["fine"]
        assert await session.enum() == ["Upper", "fine", "large", "long", "many", "repaired", "twice", "été"]
        told = {
            skill.key
            for skill in session.host.library.catalog.active
            if any(diagnostic.code == "not_published" for diagnostic in skill.diagnostics)
        }
        assert told == {"repaired", "twice", "Upper", "many", "large", "long", "été"}


async def test_a_skill_whose_manifest_lacks_a_file_is_not_listed_and_is_served_all_the_same(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("whole", files={"a.md": b"a"})
    folder = make_skill("part", files={"a.md": b"a"})
    with (folder / "sparse.bin").open("wb") as file:
        file.truncate(8 * 1024**3)
    async with connect() as session:
        assert [entry["uri"] for entry in await all_skills(session)] == ["skill://whole/SKILL.md"]
        assert await session.enum() == ["part", "whole"]
        assert (await session.client.read_resource("skill://part/a.md")).contents[0].text == "a"
        with pytest.raises(MCPError, match=r"sparse\.bin") as caught:
            await ask(session, "skills/get", uri="skill://part/SKILL.md")
        assert caught.value.code == types.INVALID_PARAMS


async def test_long_lists_come_in_pages_that_never_split_an_entry(
    make_skill: MakeSkill, skills: Path, in_memory: Any
) -> None:
    for number in range(150):
        make_skill(f"skill-{number:03d}")
    async with in_memory(skills) as session:
        assert len((await ask(session, "skills/list"))["skills"]) == 100
        names = [entry["frontmatter"]["name"] for entry in await all_skills(session)]
        assert names == [f"skill-{number:03d}" for number in range(150)]
