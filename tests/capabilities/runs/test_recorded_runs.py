"""The record of runs: unknown kinds are skipped, old runs are removed, secrets are redacted."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from server.capabilities.runs import service
from server.capabilities.runs.factory import create_service, pool_id, recording
from server.capabilities.runs.skill_runner import RunParticipants
from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.format.yaml12 import JsonObject
from skills_core.live.library import Library
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import WorkerConfig
from skills_core.runs.durable.store import SqliteStore
from skills_core.runs.executor import RunRequest
from skills_core.runs.journal import Journal
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.settings import make_settings


async def test_resume_does_not_wait_for_runs_of_unknown_kinds(
    make_skill: MakeSkill, skills: Path, tmp_path: Path, endpoint: ModelEndpoint
) -> None:
    make_skill("greeter")
    begun = anyio.Event()

    async def never(_: Journal, __: JsonObject) -> JsonObject:
        begun.set()
        await anyio.sleep_forever()
        return {}

    store = SqliteStore(tmp_path / "state" / "skillserve" / "runs.sqlite")
    pool = pool_id(make_settings(model=endpoint.model), [skills])
    async with open_engine(store, {"of a later version": never}, WorkerConfig(pool=pool)) as engine:
        await engine.start("of a later version", "theirs", {}, here=True)
        await begun.wait()
    resume = ("runs", "resume", skills, "--model", endpoint.model)
    done = await anyio.to_thread.run_sync(lambda: run(*resume, XDG_STATE_HOME=str(tmp_path / "state")))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == "skillserve: theirs is not continued: this version does not know its kind\n"


async def test_old_finished_runs_are_removed_from_the_record(
    make_skill: MakeSkill, skills: Path, tmp_path: Path, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    library = Library(explicit_sources([skills]), current_environment)
    settings = make_settings(model=endpoint.model)
    runs = create_service(library, settings)
    async with recording(runs, library, settings):
        await runs.run_skill(RunRequest(library.catalog.skill("greeter"), {}, "hi"), RunParticipants(), "once")
    async with recording(runs, library, settings) as engine:
        assert [each.run_id for each in await engine.runs()] == ["once"]
    monkeypatch.setattr(service, "RETENTION", timedelta(0))
    async with recording(runs, library, settings) as engine:
        assert await engine.runs() == ()


FLOW = "{name: flow, inputs: {what: {}}, steps: [{kind: skill, name: A, target: greeter, message: 'Use {{what}}.'}]}"


@pytest.mark.parametrize(
    "request_arguments",
    [
        ("run", "greeter", "with {secret}", "{skills}"),
        ("run", "greeter", "hi", "{skills}", "--param", "token={secret}"),
        ("workflow", "run", "{flow}", "{skills}", "--input", "what={secret}"),
    ],
    ids=["message", "parameter", "input"],
)
def test_a_secret_in_the_request_reaches_neither_record_nor_trace_nor_model(
    make_skill: MakeSkill, skills: Path, tmp_path: Path, endpoint: ModelEndpoint, request_arguments: tuple[str, ...]
) -> None:
    secret, state = "tok_zzzzyyyy9999", tmp_path / "state"
    make_skill("greeter", body="Greet with {{token}}.")
    (tmp_path / "flow.yaml").write_text(FLOW)
    endpoint.script = ["hello", "hello"]
    arguments = [each.format(secret=secret, skills=skills, flow=tmp_path / "flow.yaml") for each in request_arguments]
    for _ in range(2):  # the same request with the same ID is the same run
        environment = {"XDG_STATE_HOME": str(state), "MY_TOKEN": secret}
        done = run(*arguments, "--model", endpoint.model, "--id", "once", **environment)
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert "[secret MY_TOKEN]" in json.dumps(endpoint.requests)
    assert secret not in json.dumps(endpoint.requests)
    files = [path for path in state.rglob("*") if path.is_file()]
    assert {"runs.sqlite", "once.json"} <= {path.name for path in files}
    assert not [path for path in files if secret.encode() in path.read_bytes()]
