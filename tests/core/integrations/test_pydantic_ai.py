"""The capability for pydantic-ai, in agents of the real framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ImageUrl, ModelRequest, TextContent, UserPromptPart

from skills_core import Environment, Injector
from skills_core.integrations.pydantic_ai import SkillInjection
from skills_core.testing import Call, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pydantic_ai.messages import ModelMessage, UserContent

ANY = Environment(os="linux", has_bin=lambda _: True)
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
