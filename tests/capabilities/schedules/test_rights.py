"""A scheduled run has the rights of its creator, no more than settings allow, and no user to ask."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.capabilities.runs.factory import create_service, recording
from server.capabilities.runs.settings import RunSettings
from server.capabilities.schedules.allowances import RunRights, ScheduleError, limited_settings, rights_of
from server.capabilities.schedules.background import ScheduledRuns
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.store import CREATOR, ScheduleStore
from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.runs.trace import TraceStore
from skills_core.scripts.environment import SCHEDULED_RUN
from skills_core.scripts.isolation import Isolation, run_confined
from skills_core.scripts.process import Command, ProcessLimits
from skills_core.testing import Call
from tests.capabilities.schedules.conftest import Clock, Make
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.sessions import REPOSITORY
from tests.server.settings import make_settings

Perform = Callable[..., Any]


def test_rights_are_those_of_both(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    given = {"run_tools": ("read_file", "write_file"), "workspace": str(tmp_path / "a"), "skill_tools": ("x/*", "y/b")}
    wide = make_settings(**given, model="http://127.0.0.1:1/v1#own")
    rights = rights_of(make_settings(**given | {"run_tools": ("read_file",), "skill_tools": ("x/a", "y/*", "z/c")}))
    limited = limited_settings(wide, rights, "http://127.0.0.1:1/v1#m")
    assert ([*limited.section(RunSettings).tools], limited.section(RunSettings).model) == (
        ["read_file"],
        "http://127.0.0.1:1/v1#m",
    )
    assert set(limited.tools.declared) == {"x/a", "y/b"}
    elsewhere = limited_settings(make_settings(**given | {"workspace": str(tmp_path)}), rights, None)
    assert (elsewhere.section(RunSettings).tools, elsewhere.section(RunSettings).workspace) == ((), None)
    assert limited_settings(wide, RunRights(), None).section(RunSettings).tools == ()


def test_a_schedule_names_no_address_for_its_model() -> None:
    """The key of the settings would be sent there."""
    own = make_settings(model="http://127.0.0.1:1/v1#own", model_key="secret")
    for model in ("http://127.0.0.1:2/v1#own", "https://127.0.0.1:1/v1#own", "http://127.0.0.1:1/v1/x#own"):
        for settings in (own, make_settings(), make_settings(model="anthropic:x", model_key="secret")):
            with pytest.raises(ScheduleError, match="an address that the settings"):
                limited_settings(settings, RunRights(), model)
    assert (
        limited_settings(own, RunRights(), "http://127.0.0.1:1/v1#other").section(RunSettings).model
        == "http://127.0.0.1:1/v1#other"
    )
    assert limited_settings(own, RunRights(), "anthropic:x").section(RunSettings).model == "anthropic:x"


def test_without_a_sandbox_a_run_starts_programs_only_if_the_settings_say_so(tmp_path: Path) -> None:
    given = {
        "run_tools": ("read_file", "run_command"),
        "workspace": str(tmp_path),
        "skill_tools": ("x/*",),
        "tools": ("run_skill_script",),
    }
    for more, confined, expected in (({}, False, 0), ({}, True, 1), ({"schedule_unsandboxed": True}, False, 1)):
        settings = make_settings(**given, **more)
        limited = limited_settings(settings, rights_of(settings), None, is_confined=confined)
        found = (
            "run_command" in limited.section(RunSettings).tools,
            bool(limited.tools.declared),
            bool(limited.tools.enabled),
        )
        assert found == (expected,) * 3
        assert "read_file" in limited.section(RunSettings).tools


async def test_the_key_does_not_go_to_the_address_of_a_schedule(
    make: Make, store: ScheduleStore, perform: Perform, endpoint: ModelEndpoint
) -> None:
    endpoint.script = ["hi"]
    name = make(model=endpoint.model)
    other = "http://127.0.0.1:9/v1#x"
    outcome = await perform(store, name, manual=True, model=other, model_key="secret")
    assert (outcome["status"], outcome["problem"]) == ("failed", "configuration")
    assert not endpoint.requests


@pytest.mark.skipif(sys.platform != "linux", reason="reads the file system of processes")
@pytest.mark.parametrize(
    "before",
    [
        [],
        ["env", "-u", SCHEDULED_RUN],
        pytest.param(
            ["setsid", "-w", "env", "-u", SCHEDULED_RUN],
            marks=pytest.mark.skipif(shutil.which("setsid") is None, reason="setsid is not installed"),
        ),
    ],
)
def test_no_process_below_the_run_of_a_schedule_makes_schedules(tmp_path: Path, before: list[str]) -> None:
    """The command is started as a run starts one where no sandbox works."""
    add = [*before, sys.executable, "-m", "server", "schedule", "add", "mail", "--every", "2h", "--task", "x"]
    script = f"import subprocess, sys; sys.exit(subprocess.run({add!r}).returncode)"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), SCHEDULED_RUN: "run", "PYTHONPATH": str(REPOSITORY)}
    command = Command((sys.executable, "-c", script), tmp_path, environment)
    run = functools.partial(run_confined, Isolation(), command, ProcessLimits(), python=Path(sys.executable))
    done = anyio.run(run)
    assert (done.exit_code, b"makes no schedules" in done.stderr) == (2, True)
    assert not [*tmp_path.rglob("schedule.json")]


@pytest.fixture
def perform(
    skills: Path, tmp_path: Path, clock: Clock, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> Perform:
    """Fire the only schedule with these settings; return the trace of its run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))

    async def performed(store: ScheduleStore, name: str, *, manual: bool = False, **more: Any) -> Any:
        settings = make_settings(**{"model": endpoint.model, **more})
        library = Library(explicit_sources([skills]), current_environment)
        monkeypatch.setattr("server.capabilities.schedules.store.state_home", lambda: store.root.parents[1])
        scheduled, service = ScheduledRuns(library, settings), create_service(library, settings)
        async with recording(service, library, settings, more_jobs=scheduled.jobs(service.follow_up)) as engine:
            keeper = TimeKeeper(store, engine, settings, clock)
            if manual:
                return await keeper.run_by_hand(name, f"manual: {name}")
            clock.forward(hours=1)
            await keeper.tick()
            running = store.read(name).running
            assert running is not None
            await engine.wait(running.id)
        return TraceStore(tmp_path / "home/skillserve/runs").read(running.id)

    return performed


async def test_what_would_ask_is_denied_and_what_was_not_chosen_is_not_there(
    make: Make, store: ScheduleStore, perform: Perform, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    workspace = str(tmp_path / "work")
    endpoint.script = [
        [Call("write_file", {"path": "a", "content": "b"}), Call("ask_user", {"question": "May I?"})],
        "done",
    ]
    name = make(rights=RunRights(run_tools=("read_file",), workspace=workspace))
    trace = await perform(store, name, run_tools=("read_file", "write_file"), workspace=workspace)
    decisions = [each["call"]["decision"] for each in trace["events"] if each["kind"] == "tool"]
    assert decisions == ["unknown_tool", "nobody_to_ask"]
    assert (trace["status"], trace["output"]) == ("completed", "done")
    assert trace["trigger_reason"].startswith(f"schedule: {name} at ")
    assert not list((tmp_path / "work").iterdir())


async def test_a_run_ends_when_the_budget_of_the_day_is_used_up(
    make: Make, store: ScheduleStore, perform: Perform, endpoint: ModelEndpoint
) -> None:
    endpoint.script = [Call("ask_user", {"question": "More?"})]
    trace = await perform(store, make(), schedule_tokens_per_day=200)
    assert (trace["problem"], trace["message"]) == ("token_limit", "The run has used 220 tokens; the limit is 200.")


async def test_a_skill_by_name_is_performed_with_the_task_as_its_message(
    make: Make, store: ScheduleStore, perform: Perform, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    make_skill("greeter", body="Greet.")
    endpoint.script = ["hi"]
    trace = await perform(store, make(skill="greeter", task="In French."))
    assert (trace["skill"], trace["output"]) == ("greeter", "hi")
    system, user = endpoint.requests[0]["messages"]
    assert "Greet." in system["content"]
    assert "In French." in user["content"]


async def test_a_skill_that_is_gone_fails_the_run_with_the_reason(
    make: Make, store: ScheduleStore, perform: Perform, endpoint: ModelEndpoint
) -> None:
    outcome = await perform(store, make(skill="gone"), manual=True)
    assert (outcome["status"], outcome["problem"]) == ("failed", "configuration")
    assert "gone" in outcome["message"]
    assert not endpoint.requests


async def test_a_run_by_hand_carries_the_preamble_and_no_binding(
    make: Make, store: ScheduleStore, perform: Perform, endpoint: ModelEndpoint
) -> None:
    endpoint.script = ["hi"]
    outcome = await perform(store, make(), manual=True)
    assert outcome["trigger_reason"].startswith("manual: hello-")
    system, user = endpoint.requests[0]["messages"]
    assert "schedule.json" not in system["content"]
    assert "This is a manual trigger" in user["content"]


async def test_scripts_in_a_firing_belong_to_the_run_of_a_schedule(
    make: Make, store: ScheduleStore, perform: Perform, endpoint: ModelEndpoint, make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("teller", body="Run scripts/tell.py.")
    script = skills / "teller/scripts/tell.py"
    script.parent.mkdir()
    script.write_text("import os\nprint('mark', os.environ.get('SKILLSERVE_SCHEDULED_RUN'))\n")
    endpoint.script = [Call("run_skill_script", {"skill": "teller", "path": "scripts/tell.py"}), "done"]
    name = make(skill="teller", rights=RunRights(scripts=True))
    await perform(store, name, tools=("run_skill_script",), schedule_unsandboxed=True)
    assert "mark schedule" in json.dumps(endpoint.requests[1])


async def test_a_firing_does_not_offer_the_skill_that_makes_schedules(
    make: Make, store: ScheduleStore, perform: Perform, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    for name in ("helper", CREATOR):
        make_skill(name)
    endpoint.script = [Call("activate_skill", {"name": CREATOR}), "done"]
    trace = await perform(store, make())
    (call,) = [each["call"] for each in trace["events"] if each["kind"] == "tool"]
    assert call["decision"] != "allowed"
    offered = json.dumps(endpoint.requests[0])
    assert ("helper" in offered, CREATOR in offered) == (True, False)
