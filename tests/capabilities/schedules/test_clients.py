"""Schedules as clients have them: tools, prompts and completions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from jsonschema import Draft202012Validator
from mcp import Client

from server.capabilities.runs.supervisor import RunSupervisor
from server.capabilities.schedules.settings import SCHEDULE_TOOLS
from server.capabilities.schedules.store import ScheduleStore
from server.config.machine import current_environment
from server.hosting.host import Host
from server.protocol.server import SkillServer
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.settings import make_settings

Serve = Callable[..., AbstractAsyncContextManager[Any]]

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


@pytest.fixture(params=["legacy", "2026-07-28"], ids=["handshake", "modern"])
def serve(
    request: pytest.FixtureRequest,
    make_skill: MakeSkill,
    skills: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Serve:
    """Serve one skill with all tools for schedules to a client in this process, whose user gives these answers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    make_skill("zebra")

    @asynccontextmanager
    async def opened(*answers: str, asked: list[str] | None = None, **more: Any) -> AsyncGenerator[Any]:
        left = [*answers]

        async def elicit(context: Any, params: Any) -> Any:
            del context
            if asked is not None:
                asked.append(params.message)
            return types.ElicitResult(action="accept", content={"answer": left.pop(0)})

        given: dict[str, Any] = {"tools": SCHEDULE_TOOLS, "schedules": True, "structured_results": True, **more}
        host = Host(Library(explicit_sources([skills]), current_environment), make_settings(**given))
        server = SkillServer(host, local=True)
        callback = elicit if answers else None
        async with (
            anyio.create_task_group() as tasks,
            server.exchanges.serving(),
            Client(server, mode=request.param, elicitation_callback=callback, cache=None) as client,
        ):
            tasks.start_soon(host.service(RunSupervisor).run)
            yield client
            server.close_parts()
            tasks.cancel_scope.cancel()

    return opened


async def call(client: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    tools = {each.name: each for each in (await client.list_tools()).tools}
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    Draft202012Validator(tools[tool].output_schema).validate(result.structured_content)
    found: dict[str, Any] = result.structured_content
    return found


async def test_a_request_with_time_and_task_is_scheduled_and_echoed(serve: Serve) -> None:
    async with serve() as client:
        made = await call(client, "schedule_skill", request="check the mail every 2 hours", short="mail")
        found = (await call(client, "list_schedules"))["schedules"]
        shown = await call(client, "show_schedule", name=made["name"])
    assert made["name"].startswith("mail-")
    assert "Europe/Berlin" in made["echo"]
    assert made["echo"].endswith("\nTask: check the mail")
    assert len(made["next"]) == 3
    assert ([each["name"] for each in found], found[0]["state"]) == ([made["name"]], "active")
    assert "check the mail" in shown["body"]


async def test_the_user_is_asked_for_what_is_missing(serve: Serve) -> None:
    asked: list[str] = []
    async with serve("soon", "every day at 9:00", "Check the mail.", asked=asked) as client:
        made = await call(client, "schedule_skill")
    assert "every day" in made["echo"].lower() or "09:00" in made["echo"]
    assert len(asked) == 3
    assert "When should it run?" in asked[0]
    assert "soon" in asked[1]
    assert "What should be done" in asked[2]


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ({"task": "Check the mail."}, "When should it run?"),
        ({"time": "+5m"}, "What should be done"),
        ({"request": "send the report in the morning"}, "says 'morning', a part of the day, but no exact time"),
        ({"request": "don't check mail at 9:00"}, 'says "don\'t", a negation'),
        ({"time": "1.5 hours from now", "task": "Check it."}, "in 2 hours"),
        ({"time": "every 2 hours 30 minutes", "task": "Check it."}, "30"),
        ({"time": "not at 9:00", "task": "Check it."}, "a negation"),
        ({}, "When should it run?"),
    ],
)
async def test_without_a_user_the_call_says_what_to_ask(serve: Serve, arguments: dict[str, Any], question: str) -> None:
    async with serve() as client:
        result = await client.call_tool("schedule_skill", arguments)
    assert result.is_error
    assert question in result.content[0].text
    assert "do not guess" in result.content[0].text
    assert ScheduleStore().names() == ()


async def test_a_task_that_is_given_by_itself_may_say_anything(serve: Serve) -> None:
    async with serve() as client:
        task = "Do not send the 3 mails of tomorrow."
        made = await call(client, "schedule_skill", time="2026-12-24 18:00 UTC", task=task, zone="UTC")
    assert made["next"] == ["2026-12-24T18:00:00+00:00"]
    assert made["echo"].endswith(f"\nTask: {task}")


async def test_an_existing_schedule_gets_another_time_and_its_state_changes(serve: Serve) -> None:
    async with serve() as client:
        name = (await call(client, "schedule_skill", time="+5m", task="Check it."))["name"]
        again = await call(client, "schedule_skill", name=name, time="every 2 hours, please")
        assert again["echo"].endswith("\nThe task is not changed.")
        assert (again["name"], len(again["next"])) == (name, 3)
        assert (await call(client, "pause_schedule", name=name))["state"] == "paused"
        assert (await call(client, "resume_schedule", name=name))["state"] == "active"
        assert (await call(client, "remove_schedule", name=name)) == {"name": name}
        assert (await call(client, "list_schedules")) == {"schedules": []}
        refused = await client.call_tool("show_schedule", {"name": "x"})
    assert refused.is_error


async def test_prompts_of_schedules_come_last_carry_the_preamble_and_are_not_completed(serve: Serve) -> None:
    async with serve() as client:
        name = (await call(client, "schedule_skill", time="+5m", task="Check it."))["name"]
        listed = [each.name for each in (await client.list_prompts()).prompts]
        prompt = await client.get_prompt(f"sched-{name}")
        (message,) = (await client.get_prompt(f"sched-{name}", {"arguments": "only the first page"})).messages
        reference = types.PromptReference(type="ref/prompt", name=f"sched-{name}")
        completion = await client.complete(reference, {"name": "request", "value": "s"})
    assert listed[-1] == f"sched-{name}"
    assert "zebra" in listed
    text = prompt.messages[0].content.text
    assert message.content.text.startswith(text)
    assert message.content.text.endswith("<user_request>\nonly the first page\n</user_request>")
    for part in (name, "manual trigger", "Check it.", "scheduler-skill-creator", "init_scheduler_skill.py"):
        assert part in text
    assert completion.completion.values == []


async def test_a_server_without_schedules_shows_nothing_of_them(serve: Serve) -> None:
    async with serve(tools=(), schedules=False) as client:
        assert not any("schedul" in each.name for each in (await client.list_tools()).tools)
        assert not any("sched" in each.name for each in (await client.list_prompts()).prompts)


async def test_a_server_fires_what_a_client_scheduled(serve: Serve, endpoint: ModelEndpoint) -> None:
    endpoint.script = ["hello"]
    async with serve(model=endpoint.model) as client:
        name = (await call(client, "schedule_skill", time="every 1s", task="Say hello."))["name"]
        with anyio.fail_after(60):
            while not (await call(client, "show_schedule", name=name))["result"]:  # noqa: ASYNC110 - another task runs it
                await anyio.sleep(0.1)
        shown = await call(client, "show_schedule", name=name)
    assert (shown["result"], shown["runs"][0]["status"]) == ("hello", "completed")
