"""Waits after answers that name a limit of the provider, and queries that earlier tests have opened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import pytest

from server.capabilities.evals.agents.agent import AgentTask, RunFolders
from server.capabilities.evals.tested_skills import read_copy
from server.capabilities.evals.triggers.trigger_runs import BackOff, RunLimitsOfTest, TriggerJournal, TriggerRunner
from server.capabilities.evals.triggers.trigger_test import opened_queries
from server.capabilities.evals.workspace import EvalError
from skills_core.evals.agents.kind import AgentRun, Transcript
from skills_core.evals.triggers.queries import Query
from skills_core.evals.triggers.results import Outcome
from tests.conftest import MakeSkill


class Agent:
    """Answers each run with the next error; an empty one is a run that worked."""

    identity: Mapping[str, str] = {"agent": "scripted"}
    label = "scripted"
    installed = False
    tells_loads = True

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = list(errors)

    def running(self, tasks: Sequence[AgentTask]) -> AbstractAsyncContextManager[None]:
        del tasks
        return nullcontext()

    async def perform(self, task: AgentTask) -> AgentRun:
        del task
        error = self.errors.pop(0)
        transcript = Transcript(is_error=bool(error), error=error, recognized=True, finished=True)
        return AgentRun(transcript=transcript, exit_code=0)


@pytest.mark.parametrize(
    ("errors", "waits"),
    [
        (["429 Too Many Requests", "API Error: Overloaded", "", "rate_limit_error"], [5.0, 10.0, 5.0]),
        (["429"] * 7, [5.0, 10.0, 20.0, 40.0, 80.0, 80.0, 80.0]),
        (["no such model", "page 4290"], []),
    ],
)
async def test_each_limit_in_a_row_doubles_the_wait(
    make_skill: MakeSkill, tmp_path: Path, errors: list[str], waits: list[float]
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def report(_: str) -> None:
        pass

    agent = Agent([*errors, *[""] * 100])
    limits = RunLimitsOfTest(runs=1, jobs=1)
    runner = TriggerRunner(
        agent, (), limits, TriggerJournal(tmp_path / "runs.jsonl"), tmp_path, RunFolders(tmp_path / "of-runs"), report
    )
    runner.back_off = BackOff(sleep)
    queries = [Query(f"query {number}", should_trigger=False, id=str(number)) for number in range(80)]
    found = await runner.measure(read_copy(make_skill("tides")), queries, "queries")
    assert waited == waits
    assert found.faults.count == sum(map(bool, errors))


async def test_without_hope_nothing_waits(make_skill: MakeSkill, tmp_path: Path) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def report(_: str) -> None:
        pass

    limits = RunLimitsOfTest(runs=1, jobs=1)
    runner = TriggerRunner(
        Agent(["429"] * 9),
        (),
        limits,
        TriggerJournal(tmp_path / "runs.jsonl"),
        tmp_path,
        RunFolders(tmp_path / "of-runs"),
        report,
    )
    runner.back_off = BackOff(sleep)
    queries = [Query(f"query {number}", should_trigger=True, id=str(number)) for number in range(10)]
    found = await runner.measure(read_copy(make_skill("tides")), queries, "queries")
    assert waited == [5.0]
    assert [each.outcomes for each in found.results][:3] == [(Outcome.ERROR,), (Outcome.ERROR,), ()]


def test_results_that_cannot_be_read_do_not_count_as_a_test_that_opened_nothing(tmp_path: Path) -> None:
    results = tmp_path / "triggers-1" / "results.json"
    results.parent.mkdir()
    assert opened_queries(tmp_path) == frozenset()
    old = {"results": [{"query": "when is it low"}]}
    text = json.dumps({"finished": True, "decision": {"test": {"old": old}}})
    results.write_text(text, encoding="utf-8")
    assert opened_queries(tmp_path) == {"when is it low"}
    results.write_text(text[:-1], encoding="utf-8")
    with pytest.raises(EvalError, match="cannot be read"):
        opened_queries(tmp_path)
