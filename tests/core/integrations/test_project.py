"""Programs find and load the skills of a project: adk-skill's discovery and index, by this product's rules.

The capability for pydantic-ai, in agents of the real framework.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ImageUrl, ModelMessage, ModelRequest, TextContent, UserContent, UserPromptPart

from skills_core import (
    Environment,
    Injector,
    InvalidSourceError,
    Message,
    SelectionPolicy,
    State,
    TextPart,
    discover_instruction_files,
    discover_skill_files,
    explicit_sources,
    load_skills,
    project_sources,
    select_block,
)
from skills_core.integrations.pydantic_ai import SkillInjection
from skills_core.loading.discovery import load_source
from skills_core.testing import Call, ScriptedModel
from tests.thoroughness import examples

DOCUMENT = "---\nname: {0}\ndescription: Does {0}.\n---\nDo {0}.\n"
ANY = Environment(os="linux", has_bin=lambda _: True)


def put(root: Path, path: str, text: str | None = None) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    name = path.rpartition("/")[2].partition(".")[0].lower()
    file.write_text(DOCUMENT.format(name) if text is None else text, encoding="utf-8")


def below(root: Path, paths: Iterable[Path]) -> list[str]:
    return [path.relative_to(root.resolve()).as_posix() for path in paths]


def test_skill_files_are_those_of_skills_and_of_hidden_folders_sorted(tmp_path: Path) -> None:
    for path in (".skills/a.md", ".skills/nested/b.md", "x.skill.md", "y/SKILL.md", "z/skill.md"):
        put(tmp_path, path)
    for path in (".claude/skills/c/SKILL.md", ".agents/skills/d/SKILL.md", ".jdai/skills/e/SKILL.md"):
        put(tmp_path, path)
    put(tmp_path, ".claude/skills/f.md")
    for path in (".skills/notes.txt", ".skills/references/r.md", "AGENTS.md", "y/inner.skill.md", "readme.md"):
        put(tmp_path, path)
    found = discover_skill_files(tmp_path)
    assert below(tmp_path, found) == [
        ".agents/skills/d/SKILL.md",
        ".claude/skills/c/SKILL.md",
        ".claude/skills/f.md",
        ".jdai/skills/e/SKILL.md",
        ".skills/a.md",
        ".skills/nested/b.md",
        "x.skill.md",
        "y/SKILL.md",
        "z/skill.md",
    ]
    assert all(path.is_absolute() for path in found)


def test_instruction_files_are_those_and_the_convention_files(tmp_path: Path) -> None:
    for path in ("AGENTS.md", "pkg/CLAUDE.md", "SOUL.MD", "pkg/SOUL.md", "pkg/readme.md", "target/GEMINI.md"):
        put(tmp_path, path)
    put(tmp_path, ".skills/a.md")
    assert below(tmp_path, discover_instruction_files(tmp_path)) == [
        ".skills/a.md",
        "AGENTS.md",
        "SOUL.MD",
        "pkg/CLAUDE.md",
    ]
    assert below(tmp_path, discover_skill_files(tmp_path)) == [".skills/a.md"]


def test_extras_are_added_once_and_those_that_are_no_folders_are_skipped(tmp_path: Path) -> None:
    root, shared = tmp_path / "root", tmp_path / "shared"
    put(root, "x.skill.md")
    put(shared, "s/SKILL.md")
    put(shared, "AGENTS.md")
    extras: list[Path | str] = [shared, shared / "s" / "..", tmp_path / "nowhere", "nul\0", root / "x.skill.md", root]
    expected = ["root/x.skill.md", "shared/s/SKILL.md"]
    assert below(tmp_path, discover_skill_files(root, extras)) == expected
    assert below(tmp_path, discover_instruction_files(root, extras)) == expected


def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for root in (tmp_path / "nowhere", tmp_path / "file", ""):
        for function in (discover_skill_files, discover_instruction_files, project_sources):
            with pytest.raises(InvalidSourceError):
                function(root)
        with pytest.raises(InvalidSourceError):
            load_skills(root, ANY)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_hidden_folder_that_leads_out_of_the_project_is_skipped(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    put(outside, "s/SKILL.md")
    (root / ".claude").mkdir(parents=True)
    (root / ".claude" / "skills").symlink_to(outside)
    assert discover_skill_files(root) == ()
    assert load_skills(root, ANY).skills == ()
    assert below(tmp_path, discover_skill_files(root, [outside])) == ["outside/s/SKILL.md"]


def test_skills_are_loaded_in_one_call_with_the_projects_own_before_the_extras(tmp_path: Path) -> None:
    root, shared = tmp_path / "root", tmp_path / "shared"
    put(root, ".skills/a.md")
    put(root, "AGENTS.md", "# How we work\n")
    put(shared, "a/SKILL.md", DOCUMENT.format("a"))
    put(shared, "b/SKILL.md", DOCUMENT.format("b").replace("description", "when: {os: windows}\ndescription"))
    catalog = load_skills(root, ANY, [shared])
    assert [(skill.name, skill.source.root.name, skill.state) for skill in catalog.skills] == [
        ("a", "root", State.ACTIVE),
        ("a", "shared", State.SHADOWED),
        ("agents", "root", State.ACTIVE),
        ("b", "shared", State.EXCLUDED),
    ]
    assert catalog.skill("a").body == "Do a."


PLACES = ["", "a", "a/b", ".skills", ".skills/x", ".skills/references", "dist", "node_modules"]
FILES = ["SKILL.md", "skill.md", "x.skill.md", "AGENTS.md", "SOUL.md", "doc.md"]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(FILES)), max_size=8))
def test_what_is_discovered_is_what_is_loaded(
    paths: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("project").resolve()
    for place, name in paths:
        put(root, f"{place}/{name}" if place else name)
    (source,) = explicit_sources([root])
    loaded = load_source(source).contents.values()
    expected = {root / content.folder / content.main.path for content in loaded if content.main is not None}
    assert set(discover_instruction_files(root)) == expected


@pytest.fixture
def root(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    write_skill(tmp_path, "search", description="Search code", body="Use rg first.")
    write_skill(tmp_path, "by-hand", description="Search by hand", fields="trigger: true")
    return tmp_path


def test_an_injector_of_a_root_injects_into_user_messages(root: Path) -> None:
    injector = Injector.from_root(root, ANY)
    found = injector.inject(Message("user", (TextPart("Please search this repository quickly"),)))
    assert found.match is not None
    assert found.message.text == "[skill:search]\nUse rg first.\n[/skill]\n\nPlease search this repository quickly"
    other = Message("assistant", (TextPart("Please search"),))
    assert injector.inject(other).message is other


def test_a_block_is_selected_for_a_query_alone(root: Path) -> None:
    injector = Injector.from_root(root, ANY)
    block = injector.select("search")
    assert block is not None
    assert (block.match.skill.name, block.text) == ("search", "[skill:search]\nUse rg first.\n[/skill]")
    assert block.before("Now.") == "[skill:search]\nUse rg first.\n[/skill]\n\nNow."
    assert select_block("search", injector.ranking) == block
    assert injector.select("nothing that fits") is None


def test_policy_and_limit_apply(root: Path) -> None:
    strict = Injector.from_root(root, ANY, policy=SelectionPolicy(min_score=1000))
    assert strict.select("search") is None
    short = Injector.from_root(root, ANY, max_injected_chars=3).select("search")
    assert short is not None
    assert short.text == "[skill:search]\nUse\n[/skill]"


@pytest.mark.parametrize("query", ["", " \n"])
def test_a_blank_query_selects_nothing_even_if_a_tag_would(
    query: str, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path, "a", fields="tags: [x]")
    policy = SelectionPolicy(include_tags=("x",), min_score=0)
    assert Injector.from_root(tmp_path, ANY, policy=policy).select(query) is None


BLOCK = "[skill:search]\nUse rg first.\n[/skill]\n\n"


@pytest.fixture
def injector(tmp_path: Path, write_skill: Callable[..., Path]) -> Injector:
    write_skill(tmp_path, "search", description="Search code", body="Use rg first.")
    return Injector.from_root(tmp_path, ANY)


def prompts(messages: list[ModelMessage]) -> list[str | Sequence[UserContent]]:
    requests = (message for message in messages if isinstance(message, ModelRequest))
    return [part.content for each in requests for part in each.parts if isinstance(part, UserPromptPart)]


async def test_each_prompt_reaches_the_model_with_its_block_and_is_kept_without(injector: Injector) -> None:
    model = ScriptedModel(Call("look"), "found", "welcome")
    agent = Agent(model, capabilities=[SkillInjection(injector)])

    @agent.tool_plain
    def look() -> str:
        return "here"

    first = await agent.run("Search this repository")
    second = await agent.run("Thanks", message_history=first.all_messages())
    assert [prompts(conversation) for conversation in model.conversations] == [
        [BLOCK + "Search this repository"],
        [BLOCK + "Search this repository"],
        [BLOCK + "Search this repository", "Thanks"],
    ]
    assert prompts(second.all_messages()) == ["Search this repository", "Thanks"]
    assert second.output == "welcome"


async def test_the_block_goes_before_the_first_text_of_a_prompt_with_parts(injector: Injector) -> None:
    image = ImageUrl("https://example.com/a.png")
    model = ScriptedModel("a", "b", "c")
    agent = Agent(model, capabilities=[SkillInjection(injector)])
    await agent.run([image, "Please", "search"])
    await agent.run([TextContent("search", metadata=1)])
    await agent.run([image])
    assert [prompts(conversation)[0] for conversation in model.conversations] == [
        [image, BLOCK + "Please", "search"],
        [TextContent(BLOCK + "search", metadata=1)],
        [image],
    ]


async def test_a_prompt_that_no_skill_matches_stays_as_it_is(injector: Injector) -> None:
    agent = Agent(ScriptedModel("hello"), capabilities=[SkillInjection(injector)])
    result = await agent.run("nothing that fits")
    assert prompts(result.all_messages()) == ["nothing that fits"]
