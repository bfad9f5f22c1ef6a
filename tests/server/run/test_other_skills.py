"""Runs with several skills: always-on and required ones, and those that the model activates; also when continued."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client

from server.config.machine import current_environment
from server.run.factory import create_service, recording
from server.run.service import RunService
from server.run.skill_runner import RunParticipants
from skills_core.library import Library
from skills_core.run.durable.errors import RunConflictError
from skills_core.run.executor import RunRequest
from skills_core.run.json_codec import from_json
from skills_core.run.outcome import CallDecision, RunOutcome, RunProblem, RunStatus
from skills_core.sources import explicit_sources
from skills_core.testing.script import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import Answer, Hang, ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, address, http_server, server_command, server_environment
from tests.server.settings import make_settings

Open = Callable[..., contextlib.AbstractAsyncContextManager[tuple[RunService, Library]]]

ALL = [("rule", "always_on"), ("base", "required"), ("third", "called")]


@pytest.fixture(autouse=True)
def _skills(make_skill: MakeSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_skill("rule", body="Always be brief.", fields="metadata: {jdai: {always: true}}\ndanger_patterns: [forbidden]")
    make_skill("base", body="The base text.", files={"base.md": b"of base"})
    make_skill("doer", body="Do it, then use third.", fields="requires: [base]")
    make_skill("third", body="Third, for {{who}}.", files={"third.md": b"of third"})
    make_skill("other", body="Never used.")


@pytest.fixture
def opened(skills: Path, endpoint: ModelEndpoint) -> Open:
    @contextlib.asynccontextmanager
    async def open_service(**more: Any) -> AsyncGenerator[tuple[RunService, Library]]:
        settings = make_settings(model=endpoint.model, **more)
        library = Library(explicit_sources([skills]), current_environment)
        service = await anyio.to_thread.run_sync(create_service, library, settings)
        async with recording(service, library, settings):
            yield service, library

    return open_service


def of(outcome: RunOutcome) -> list[tuple[str, str]]:
    return [(each.skill, each.origin.value) for each in outcome.activated_skills]


def system_of(asked: dict[str, Any]) -> str:
    text: str = asked["messages"][0]["content"]
    return text


def replies(asked: dict[str, Any]) -> list[str]:
    return [message["content"] for message in asked["messages"] if message["role"] == "tool"]


def names_in(asked: dict[str, Any]) -> list[str]:
    tools = {each["function"]["name"]: each["function"] for each in asked.get("tools", ())}
    return (
        list(tools["activate_skill"]["parameters"]["properties"]["name"]["enum"]) if "activate_skill" in tools else []
    )


async def test_always_on_and_required_skills_precede_the_performed_one_which_prevails(
    opened: Open, endpoint: ModelEndpoint
) -> None:
    endpoint.script = ["done"]
    async with opened() as (service, library):
        outcome = await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants())
    text = system_of(endpoint.requests[0])
    places = [
        text.index(part) for part in ("Always be brief.", "The base text.", "Do it, then", "the later one overrides")
    ]
    assert places == sorted(places)
    assert "in this order: /rule, /base, /doer." in text
    assert "Never used." not in text
    assert of(outcome) == ALL[:2]


async def test_a_run_without_other_skills_has_the_instructions_of_one_activation(
    opened: Open, endpoint: ModelEndpoint, skills: Path
) -> None:
    for name in ("rule", "base", "third", "other"):
        (skills / name / "SKILL.md").unlink()
    (skills / "doer" / "SKILL.md").write_text("---\nname: doer\ndescription: D.\n---\nDo it.\n")
    endpoint.script = ["done"]
    async with opened() as (service, library):
        outcome = await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants())
    assert system_of(endpoint.requests[0]).endswith("</skill_content>")
    assert system_of(endpoint.requests[0]).count("<skill_content") == 1
    assert names_in(endpoint.requests[0]) == []
    assert outcome.activated_skills == ()


async def test_patterns_of_companions_guard_the_run(opened: Open, endpoint: ModelEndpoint) -> None:
    endpoint.script = [Call("read_skill_file", {"path": "forbidden"}), "done"]
    async with opened() as (service, library):
        outcome = await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants())
    assert outcome.tool_calls[0].decision is CallDecision.DENIED


async def test_an_activated_skill_brings_no_rights(
    opened: Open, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    make_skill("doer", body="Do it.", fields="allowed-tools: [Skill]")
    tool = "tools: [{name: note, description: N., script: third.py, parameters: {type: object}}]"
    make_skill("third", fields=f"allowed-tools: [run_skill_script, ask_user]\n{tool}", files={"third.py": b"print(1)"})
    endpoint.script = [
        Call("activate_skill", {"name": "third"}),
        [
            Call("run_skill_script", {"skill": "third", "path": "third.py"}),
            Call("note"),
            Call("ask_user", {"question": "?"}),
        ],
        Call("read_skill_file", {"skill": "third", "path": "third.py"}),
        "done",
    ]
    async with opened(tools=("run_skill_script",), skill_tools=("third/*",)) as (service, library):
        outcome = await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants())
    assert [call.decision for call in outcome.tool_calls] == [
        CallDecision.DONE,
        CallDecision.NOT_PERMITTED,
        CallDecision.UNKNOWN_TOOL,
        CallDecision.NOT_PERMITTED,
        CallDecision.DONE,
    ]
    tools = [[each["function"]["name"] for each in asked["tools"]] for asked in endpoint.requests]
    assert tools == [["read_skill_file", "activate_skill"]] * 4


async def test_scripts_of_an_activated_skill_run_where_the_run_may_run_scripts(
    opened: Open, endpoint: ModelEndpoint, make_skill: MakeSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / ".jdai"
    folder.mkdir(parents=True)
    entries = {name: {"env": {"API_TOKEN": f"secret-of-{name}"}} for name in ("doer", "third")}
    (folder / "skills.json").write_text(json.dumps({"entries": entries}))
    script = b"import os; print('token', os.environ['API_TOKEN'])"
    make_skill("third", files={"third.py": script})
    run_it = Call("run_skill_script", {"skill": "third", "path": "third.py"})
    endpoint.script = [run_it, Call("activate_skill", {"name": "third"}), run_it, "done"]
    async with opened(tools=("run_skill_script",)) as (service, library):
        outcome = await service.run_skill(
            RunRequest(library.catalog.skill("doer"), {}, "hi secret-of-third"), RunParticipants()
        )
    assert [call.decision for call in outcome.tool_calls] == [CallDecision.FAILED, *[CallDecision.DONE] * 2]
    # The script has the variables of its own skill, and the model sees the value of none.
    assert outcome.tool_calls[2].text == "token [secret API_TOKEN of third]"
    assert "secret-of-" not in json.dumps(endpoint.requests)


async def test_companions_that_do_not_fit_are_named_and_can_be_activated(
    opened: Open, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    make_skill("rule", body="x" * 70_000, fields='triggers: ["*"]')
    endpoint.script = [Call("activate_skill", {"name": "rule"}), "done"]
    async with opened() as (service, library):
        outcome = await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants())
    assert "Too long to stand here: rule." in system_of(endpoint.requests[0])
    assert "xxxx" in replies(endpoint.requests[1])[0]
    assert of(outcome) == [("base", "required"), ("rule", "always_on")]


async def test_companions_that_do_not_fit_are_named_where_nothing_can_be_activated(
    opened: Open, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    make_skill("rule", body="x" * 70_000, fields='triggers: ["*"]')
    make_skill("doer", fields="allowed-tools: []")
    endpoint.script = ["done"]
    async with opened() as (service, library):
        await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants())
    assert "Too long to stand here: rule. They apply as well, but cannot be loaded" in system_of(endpoint.requests[0])
    assert "tools" not in endpoint.requests[0]


async def interrupted(service: RunService, request: RunRequest, participants: RunParticipants, endpoint: Any) -> None:
    """Run until the model is asked for the second time, then release the run as a process that ends does."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.run_skill, request, participants, "once")
        with anyio.fail_after(60):
            while len(endpoint.requests) < 2:  # noqa: ASYNC110 - another thread counts
                await anyio.sleep(0.02)
        service.close()
        tasks.cancel_scope.cancel()


def edit(folder: Path) -> None:
    file = folder / "SKILL.md"
    file.write_text(f"{file.read_text()}\nMore.\n")


SCRIPT: list[Answer] = [Call("activate_skill", {"name": "third"}), Hang(), "done"]


async def test_a_continued_run_offers_and_has_what_it_had_for_its_client(
    opened: Open, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    endpoint.script = [*SCRIPT]
    async with opened() as (service, library):
        seen = library.catalog.restricted(lambda skill: skill.name not in {"rule", "other"})
        await interrupted(service, RunRequest(seen.skill("doer")), RunParticipants(catalog=lambda: seen), endpoint)
    make_skill("newcomer", fields="metadata: {jdai: {always: true}}")
    async with opened() as (service, _):
        assert service._engine is not None
        await service._engine.recover()
        outcome = await service._engine.wait("once")
    first, again = endpoint.requests[1:]
    assert again == first
    assert names_in(again) == ["third", "doer", "base"]
    assert of(from_json(RunOutcome, outcome)) == ALL[1:]


async def test_a_run_whose_client_left_before_it_began_offers_nothing(opened: Open, endpoint: ModelEndpoint) -> None:
    endpoint.script = ["done", "done"]
    async with opened() as (service, library):
        assert service._engine is not None
        given: dict[str, Any] = {"skill": "doer", "digest": library.catalog.skill("doer").digest, "companions": []}
        given |= {"parameters": {}, "message": None}
        for name, restricted in (("view", True), ("whole", False)):
            await service._engine.run("skill", name, {**given, "restricted": restricted})
    assert [bool(names_in(asked)) for asked in endpoint.requests] == [False, True]


@pytest.mark.parametrize("edited", ["rule", "base", "third", "doer"])
async def test_an_edited_skill_of_a_run_ends_it(
    opened: Open, endpoint: ModelEndpoint, skills: Path, edited: str
) -> None:
    endpoint.script = [*SCRIPT]
    async with opened() as (service, library):
        await interrupted(service, RunRequest(library.catalog.skill("doer")), RunParticipants(), endpoint)
    edit(skills / edited)
    async with opened() as (service, library):
        assert service._engine is not None
        await service._engine.recover()
        outcome = await service._engine.wait("once")
        if edited != "third":
            with pytest.raises(RunConflictError, match="changed since"):
                await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants(), "once")
    assert (outcome["status"], outcome["problem"]) == (RunStatus.FAILED, RunProblem.SKILL_CHANGED)
    assert edited in str(outcome["message"])
    assert len(endpoint.requests) == 2


async def test_an_edit_of_a_skill_that_was_only_offered_does_not_end_a_run(
    opened: Open, endpoint: ModelEndpoint, skills: Path
) -> None:
    endpoint.script = [
        Call("activate_skill", {"name": "third"}),
        Hang(),
        Call("activate_skill", {"name": "other"}),
        "done",
    ]
    async with opened() as (service, library):
        await interrupted(service, RunRequest(library.catalog.skill("doer")), RunParticipants(), endpoint)
    edit(skills / "other")
    async with opened() as (service, library):
        outcome = await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants(), "once")
    assert outcome.status is RunStatus.COMPLETED
    assert names_in(endpoint.requests[-1]) == names_in(endpoint.requests[0])
    assert "has changed" in replies(endpoint.requests[-1])[-1]
    assert of(outcome) == ALL


async def test_steps_of_a_workflow_have_their_own_companions(
    endpoint: ModelEndpoint, skills: Path, tmp_path: Path
) -> None:
    flow = tmp_path / "flow.yaml"
    steps = [f"{{kind: skill, name: {target}, target: {target}}}" for target in ("doer", "other")]
    flow.write_text(f"name: flow\nsteps: [{', '.join(steps)}]\n")
    endpoint.script = ["one", "two"]
    done = await anyio.to_thread.run_sync(
        lambda: run(
            "workflow", "run", flow, skills, "--model", endpoint.model, "--json", XDG_STATE_HOME=str(tmp_path / "s")
        )
    )
    steps_done = json.loads(done.stdout)["steps"]
    assert [[each["skill"] for each in step["outcome"]["activated_skills"]] for step in steps_done] == [
        ["rule", "base"],
        ["rule"],
    ]


LONG_SCRIPT: list[Answer] = [
    Call("activate_skill", {"name": "third", "arguments": {"who": "Ana"}}),
    Hang(),
    [Call("read_skill_file", {"skill": name, "path": f"{name}.md"}) for name in ("base", "third")],
    Call("activate_skill", {"name": "base"}),
    "the end",
]


def check_conversation(endpoint: ModelEndpoint, skill_text: Callable[[str], str]) -> None:
    """Check what the model was told in a run of `LONG_SCRIPT` that was killed at the second request."""
    killed, again = endpoint.requests[1:3]
    assert again == killed
    assert [names_in(asked) for asked in endpoint.requests] == [["other", "third", "doer", "rule", "base"]] * 5
    assert len({system_of(asked) for asked in endpoint.requests}) == 1
    told = replies(endpoint.requests[-1])
    assert "Third, for Ana." in told[0]
    assert skill_text("third") in told[0]
    assert told[1:] == ["of base", "of third", "The skill base is part of this run already; its text stands above."]


def digest_line(skills: Path) -> Callable[[str], str]:
    def line(name: str) -> str:
        digest = hashlib.sha256((skills / name / "SKILL.md").read_bytes()).hexdigest()
        return f'<skill_receipt digest="sha256:{digest}"/>'

    return line


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_a_killed_run_of_a_skill_that_requires_another_and_calls_a_third_continues_with_both(
    endpoint: ModelEndpoint, skills: Path, tmp_path: Path
) -> None:
    endpoint.script = [*LONG_SCRIPT]
    command = ("run", "doer", "now", str(skills), "--model", endpoint.model, "--id", "once", "--json")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    state = str(tmp_path / "state")
    with subprocess.Popen(
        [sys.executable, "-m", "server", *command],
        cwd=REPOSITORY,
        env={**environment, "XDG_STATE_HOME": state},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_for_requests(endpoint, 2)
        process.send_signal(signal.SIGKILL)
    trace = json.loads(run("runs", "show", "once", XDG_STATE_HOME=state).stdout)
    assert trace["status"] == "interrupted"
    assert [(each["skill"], each["origin"]) for each in trace["activated_skills"]] == ALL
    done = run(*command, XDG_STATE_HOME=state)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["output"] == "the end"
    assert [(each["skill"], each["origin"]) for each in outcome["activated_skills"]] == ALL
    check_conversation(endpoint, digest_line(skills))
    trace = json.loads(run("runs", "show", "once", XDG_STATE_HOME=state).stdout)
    assert trace["activated_skills"] == outcome["activated_skills"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
async def test_a_run_of_a_killed_server_is_continued_by_the_next_one_with_the_same_skills(
    endpoint: ModelEndpoint, skills: Path, tmp_path: Path
) -> None:
    endpoint.script = [*LONG_SCRIPT]
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    command = server_command(skills, "--transport", "http", "--port", "0")
    async with await anyio.open_process(
        command, cwd=REPOSITORY, env=server_environment(**settings), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        with anyio.fail_after(60):
            url = await address(process.stderr)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_doer, url)
            await anyio.to_thread.run_sync(wait_for_requests, endpoint, 2)
            process.kill()
            tasks.cancel_scope.cancel()
    folder = tmp_path / "state" / "skillserve" / "runs"
    async with http_server(skills, **settings):
        with anyio.fail_after(90):
            while (trace := json.loads(next(folder.glob("*.json")).read_text()))["status"] != "completed":  # noqa: ASYNC110
                await anyio.sleep(0.2)
    assert trace["output"] == "the end"
    assert [(each["skill"], each["origin"]) for each in trace["activated_skills"]] == ALL
    check_conversation(endpoint, digest_line(skills))


async def call_doer(url: str) -> None:
    # The server is killed before it answers, so the connection fails.
    with contextlib.suppress(Exception):
        async with Client(url, mode="2026-07-28", cache=None) as client:
            await client.call_tool("run_skill", {"name": "doer", "message": "now"})


def wait_for_requests(endpoint: ModelEndpoint, count: int) -> None:
    until = time.monotonic() + 90
    while len(endpoint.requests) < count:
        assert time.monotonic() < until
        time.sleep(0.02)
