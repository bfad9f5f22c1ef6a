"""Runs that are continued have the skills with which they began, after an orderly end and after a kill."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client

from server.capabilities.runs.service import RunService
from server.capabilities.runs.skill_runner import RunParticipants
from server.config.settings.tools import OptionalTool
from skills_core.catalog.catalog import Catalog
from skills_core.runs.durable.recorded_run import RunConflictError
from skills_core.runs.executor import RunRequest
from skills_core.runs.journal import from_json
from skills_core.runs.outcome import RunOutcome, RunProblem, RunStatus
from skills_core.runs.workflow.plan import prepare
from skills_core.testing import Call
from tests.capabilities.runs.several_skills import ALL, Open, five_skills, names_in, of, opened, replies, system_of
from tests.conftest import MakeSkill
from tests.model_endpoint import Answer, Hang, ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, address, http_server, server_command, server_environment

__all__ = ["five_skills", "opened"]

pytestmark = pytest.mark.usefixtures("five_skills")


async def interrupted(
    work: Callable[[], Coroutine[Any, Any, Any]], service: RunService, endpoint: ModelEndpoint
) -> None:
    """Work until the model is asked for the second time, then release the run as a process that ends does."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        with anyio.fail_after(60):
            while len(endpoint.requests) < 2:  # noqa: ASYNC110 - another thread counts
                await anyio.sleep(0.02)
        service.close()
        tasks.cancel_scope.cancel()


async def interrupted_doer(
    service: RunService, catalog: Catalog, endpoint: ModelEndpoint, *, whole: bool = True
) -> None:
    request = RunRequest(catalog.skill("doer"))
    participants = RunParticipants(catalog=None if whole else lambda: catalog)
    await interrupted(lambda: service.run_skill(request, participants, "once"), service, endpoint)


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
        await interrupted_doer(service, seen, endpoint, whole=False)
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


async def test_a_continued_run_has_no_tool_that_its_client_might_not_use(opened: Open, endpoint: ModelEndpoint) -> None:
    """The client is gone, and with it the roles that could tell."""
    endpoint.script = [*SCRIPT]
    script = OptionalTool("run_skill_script")
    async with opened(tools=(script,)) as (service, library):
        participants = RunParticipants(allows=lambda name: name != script)
        request = RunRequest(library.catalog.skill("doer"))
        await interrupted(lambda: service.run_skill(request, participants, "once"), service, endpoint)
    async with opened(tools=(script,)) as (service, _):
        assert service._engine is not None
        await service._engine.recover()
        await service._engine.wait("once")
    assert len(endpoint.requests) == 3
    assert [script in json.dumps(asked["tools"]) for asked in endpoint.requests] == [False] * 3


@pytest.mark.parametrize("edited", ["rule", "base", "third", "doer"])
async def test_an_edited_skill_of_a_run_ends_it(
    opened: Open, endpoint: ModelEndpoint, skills: Path, edited: str
) -> None:
    endpoint.script = [*SCRIPT]
    async with opened() as (service, library):
        await interrupted_doer(service, library.catalog, endpoint)
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
        await interrupted_doer(service, library.catalog, endpoint)
    edit(skills / "other")
    async with opened() as (service, library):
        outcome = await service.run_skill(RunRequest(library.catalog.skill("doer")), RunParticipants(), "once")
    assert outcome.status is RunStatus.COMPLETED
    assert names_in(endpoint.requests[-1]) == names_in(endpoint.requests[0])
    assert "has changed" in replies(endpoint.requests[-1])[-1]
    assert of(outcome) == ALL


@pytest.mark.parametrize("name", ["a/third", "third"])
async def test_a_continued_run_knows_its_skills_by_the_names_that_they_had_and_have(
    opened: Open, endpoint: ModelEndpoint, make_skill: MakeSkill, skills: Path, name: str
) -> None:
    for folder in ("third", "base"):
        shutil.rmtree(skills / folder)
    for folder in ("a/third", "a/base"):
        make_skill(folder, files={"own.md": folder.encode()})
    twins = [make_skill("b/third"), make_skill("b/base")]
    endpoint.script = [
        Call("activate_skill", {"name": "a/third"}),
        Hang(),
        [
            Call("activate_skill", {"name": name}),
            Call("read_skill_file", {"skill": name, "path": "own.md"}),
            Call("read_skill_file", {"skill": name.replace("third", "base"), "path": "own.md"}),
        ],
        "done",
    ]
    async with opened() as (service, library):
        await interrupted_doer(service, library.catalog, endpoint)
    for twin in twins:
        shutil.rmtree(twin)
    async with opened() as (service, library):
        assert service._engine is not None
        await service._engine.recover()
        outcome = await service._engine.wait("once")
    assert outcome["status"] == RunStatus.COMPLETED, outcome
    told = replies(endpoint.requests[-1])
    assert told[1].endswith("is part of this run already; its text stands above.")
    assert told[2:] == ["a/third", "a/base"]


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


async def test_the_steps_of_a_continued_workflow_have_the_companions_that_it_began_with(
    opened: Open, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    document = b"name: flow\nsteps: [{kind: skill, name: A, target: doer}, {kind: skill, name: B, target: other}]"
    endpoint.script = [*SCRIPT, "done too"]
    async with opened() as (service, library):
        plan = prepare(document, "flow", library.catalog, {})
        await interrupted(lambda: service.run_workflow(plan, RunParticipants(), "once"), service, endpoint)
    make_skill("newcomer", fields="metadata: {jdai: {always: true}}")
    async with opened() as (service, _):
        outcome = await service.run_workflow(plan, RunParticipants(), "once")
    assert outcome.status is RunStatus.COMPLETED
    assert endpoint.requests[2] == endpoint.requests[1]
    assert [of(step.outcome) for step in outcome.steps if step.outcome] == [ALL, ALL[:1]]


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
        return f'receipt="{digest[:12]}">'

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
