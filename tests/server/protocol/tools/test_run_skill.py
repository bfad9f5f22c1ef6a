"""The tool `run_skill` at the real server: a model over HTTP or the client's own, both eras, both transports."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import StdioServerParameters
from mcp.shared.exceptions import MCPError

from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint, Raw
from tests.server.conversation.clients import Callbacks, client_for, says
from tests.server.sessions import REPOSITORY, Era, Transport, http_server, server_command, server_environment, texts_of

Served = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
def served(skills: Path, tmp_path: Path, transport: Transport, era: Era) -> Served:
    """Serve the skills with these settings, and connect a client."""

    @asynccontextmanager
    async def serve(peer: Callbacks | None = None, **settings: str) -> AsyncGenerator[Any]:
        given = {
            "SKILLSERVE_TOOLS": "run_skill,skills_status",
            "XDG_STATE_HOME": str(tmp_path / "state"),
            **{f"SKILLSERVE_{name.upper()}": value for name, value in settings.items()},
        }
        if transport == "stdio":
            command, *arguments = server_command(skills)
            environment = server_environment(**given)
            target = StdioServerParameters(command=command, args=arguments, cwd=REPOSITORY, env=environment)
            async with client_for(target, era, peer or Callbacks()) as client:
                yield client
            return
        async with http_server(skills, **given) as url, client_for(url, era, peer or Callbacks()) as client:
            yield client

    return serve


async def names(client: Any) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def traces(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in (tmp_path / "state/skillserve/runs").glob("*.json")]


async def test_a_skill_is_performed_by_the_model_of_the_settings(
    make_skill: MakeSkill, served: Served, endpoint: ModelEndpoint
) -> None:
    make_skill("greeter", body="Greet in {{language}}.")
    endpoint.script = ["Bonjour"]
    async with served(model=endpoint.model) as client:
        seen: list[tuple[float, str | None]] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            assert total is None
            seen.append((done, message))

        result = await client.call_tool(
            "run_skill",
            {"name": "greeter", "arguments": {"language": "French"}, "message": "politely"},
            progress_callback=progress,
        )
    assert not result.is_error
    assert texts_of(result) == ["Bonjour"]
    told = result.structured_content
    assert (told["status"], told["output"], told["usage"]["requests"]) == ("completed", "Bonjour", 1)
    assert "Greet in French." in endpoint.requests[0]["messages"][0]["content"]
    assert "politely" in endpoint.requests[0]["messages"][1]["content"]
    assert seen == [(0.0, "asking the model (1)")]


@pytest.mark.every_way
async def test_a_run_has_the_skills_that_it_requires_and_activates(
    make_skill: MakeSkill, served: Served, endpoint: ModelEndpoint
) -> None:
    make_skill("base", body="The base text.")
    make_skill("doer", body="Do it.", fields="requires: [base]")
    make_skill("third", body="The third text.")
    endpoint.script = [Call("activate_skill", {"name": "third"}), "done"]
    async with served(model=endpoint.model) as client:
        result = await client.call_tool("run_skill", {"name": "doer", "message": "now"})
    assert "The base text." in endpoint.requests[0]["messages"][0]["content"]
    assert "The third text." in endpoint.requests[1]["messages"][-1]["content"]
    activated = result.structured_content["activated_skills"]
    assert [(each["skill"], each["origin"]) for each in activated] == [("base", "required"), ("third", "called")]


async def test_without_a_model_there_is_no_tool(make_skill: MakeSkill, served: Served) -> None:
    make_skill("greeter")
    async with served() as client:
        assert "run_skill" not in await names(client)
        result = await client.call_tool("skills_status", {})
    assert result.structured_content["runs"] == {
        "model": None,
        "run_skill": False,
        "reason": "no model is set; name one with --model",
        "run_workflow": False,
        "workflow_reason": "no model is set; name one with --model",
        "missing_workflows": [],
    }


@pytest.mark.every_way
async def test_the_client_s_own_model_performs_where_settings_say_so(
    make_skill: MakeSkill, served: Served, tmp_path: Path
) -> None:
    make_skill("greeter", body="Greet.")
    asked: list[types.CreateMessageRequestParams] = []

    async def sample(params: types.CreateMessageRequestParams) -> Any:
        asked.append(params)
        return says("hello from the client")

    async with served(Callbacks(sample=sample), model="client") as client:
        result = await client.call_tool("run_skill", {"name": "greeter", "message": "now"})
    assert result.structured_content["output"] == "hello from the client"
    assert "Greet." in (asked[0].system_prompt or "")
    (trace,) = traces(tmp_path)
    assert (trace["model"], trace["status"]) == ("client", "completed")


async def test_a_client_that_samples_without_tools_performs_what_needs_none(
    make_skill: MakeSkill, served: Served, tmp_path: Path
) -> None:
    make_skill("greeter", body="Say hi.")
    asked: list[types.CreateMessageRequestParams] = []

    async def sample(params: types.CreateMessageRequestParams) -> Any:
        asked.append(params)
        return says("hi")

    peer = Callbacks(sample=sample, sampling=types.SamplingCapability())
    async with served(peer, model="client") as client:
        result = await client.call_tool("run_skill", {"name": "greeter"})
    assert (result.structured_content["status"], result.structured_content["output"]) == ("completed", "hi")
    assert asked[0].tools is None
    async with served(peer, model="client", run_tools="grep", workspace=str(tmp_path)) as client:
        result = await client.call_tool("run_skill", {"name": "greeter"})
    assert result.is_error
    assert "this run has tools (grep): " in result.content[0].text


async def test_a_client_without_a_model_is_told_so(make_skill: MakeSkill, served: Served) -> None:
    make_skill("greeter")
    async with served(model="client") as client:
        result = await client.call_tool("run_skill", {"name": "greeter"})
    assert result.is_error
    assert result.structured_content["problem"] == "model_error"
    assert "it did not declare this capability" in result.content[0].text


async def test_a_run_that_fails_is_an_error_with_its_reason(
    make_skill: MakeSkill, served: Served, endpoint: ModelEndpoint
) -> None:
    make_skill("greeter")
    endpoint.script = [Raw(b'{"error": {"message": "no such model"}}', 404)]
    async with served(model=endpoint.model) as client:
        result = await client.call_tool("run_skill", {"name": "greeter"})
    assert result.is_error
    assert "no such model" in result.content[0].text


CANNOT_BE: list[tuple[dict[str, Any], str]] = [
    ({}, "name"),
    ({"name": "nobody"}, "no active skill"),
    ({"name": "hidden"}, "for the user"),
    ({"name": "greeter", "arguments": [1]}, "arguments"),
    ({"name": "greeter", "message": 7}, "message"),
    ({"continue": "made-up"}, "no run waits"),
    ({"confirm": "made-up"}, "no run waits"),
    ({"name": "greeter", "parameters": {"who": "you"}}, "no argument 'parameters'; it takes name, arguments, message"),
]


async def error_of(client: Any, arguments: dict[str, Any]) -> str:
    try:
        result = await client.call_tool("run_skill", arguments)
    except MCPError as error:
        return str(error)
    assert result.is_error
    return " ".join(block.text for block in result.content)


async def test_a_call_that_cannot_be_is_an_error_that_says_why(
    make_skill: MakeSkill, served: Served, endpoint: ModelEndpoint
) -> None:
    make_skill("greeter")
    make_skill("hidden", fields="disable-model-invocation: true")
    endpoint.script = ["never"]
    async with served(model=endpoint.model) as client:
        for arguments, says in CANNOT_BE:
            assert says in await error_of(client, arguments), arguments
    assert endpoint.requests == []


@pytest.mark.every_way
async def test_a_call_that_the_client_gives_up_ends_the_run(
    make_skill: MakeSkill, served: Served, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    make_skill("greeter")
    endpoint.script = [Hang()]
    async with served(model=endpoint.model) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "run_skill", {"name": "greeter"})
            assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
            tasks.cancel_scope.cancel()
        # A server that is stopped before it has read the cancellation leaves the run to be continued.
        assert await anyio.to_thread.run_sync(endpoint.gone.wait, 60)
        with anyio.fail_after(60):
            while [trace["status"] for trace in traces(tmp_path)] != ["cancelled"]:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)


WORKFLOW = """
name: greeting
description: Greets twice.
inputs:
  who: {description: whom to greet}
steps:
  - {kind: skill, name: First, target: greeter, message: "{{inputs.who}}"}
  - {kind: skill, name: Second, target: greeter, message: "again after {{steps.First.output}}"}
"""


async def test_a_workflow_is_listed_and_run(
    make_skill: MakeSkill, served: Served, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    make_skill("greeter")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/greeting.yaml").write_text(WORKFLOW)
    (tmp_path / "flows/broken.yaml").write_text("steps: 1")
    endpoint.script = ["hello", "hello again"]
    settings = {"model": endpoint.model, "tools": "run_workflow", "workflows": str(tmp_path / "flows")}
    async with served(**settings) as client:
        assert "run_skill" not in await names(client)
        told = (await client.call_tool("run_workflow", {})).structured_content
        assert [(each["name"], each["description"]) for each in told["workflows"]] == [("greeting", "Greets twice.")]
        assert told["workflows"][0]["inputs"]["who"]["required"] is True
        for arguments, says in (
            ({"name": "greating"}, "greeting"),
            ({"name": "greeting"}, "who"),
            ({"name": "broken"}, "steps"),
        ):
            refused = await client.call_tool("run_workflow", arguments)
            assert refused.is_error
            assert says in refused.content[0].text
        result = await client.call_tool("run_workflow", {"name": "greeting", "inputs": {"who": "Ada"}})
    assert texts_of(result) == ["hello again"]
    assert [step["output"] for step in result.structured_content["steps"]] == ["hello", "hello again"]
    assert "again after hello" in endpoint.requests[1]["messages"][1]["content"]
