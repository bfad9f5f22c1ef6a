"""Run queries several times and collect the outcomes, with runs that were done before taken from the journal."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.capabilities.evals.agents.agent import AgentTask, for_each
from server.capabilities.evals.tested_skills import digest_of
from server.capabilities.evals.workspace import EvalError
from server.limits.pacing import Backoff
from skills_core.disk.writing import append_line, json_lines
from skills_core.evals.statistics import too_many_failed
from skills_core.evals.triggers.results import (
    FAULTS,
    Outcome,
    QueryResult,
    SetResult,
    is_decided,
    is_settled,
    outcome_of,
    query_result,
)
from skills_core.runs.spending import BoundReachedError

if TYPE_CHECKING:
    from server.capabilities.evals.agents.agent import Agent, RunFolder, RunFolders
    from server.capabilities.evals.tested_skills import SkillCopy
    from skills_core.evals.triggers.queries import Query
    from skills_core.format.yaml12 import JsonValue


class TriggerJournal:
    """A file of records by key; the last record of a key counts."""

    def __init__(self, path: Path) -> None:
        """Read the records; a line that is not whole, as a killed process leaves it, is ignored.

        Raises:
            OSError: the file exists and cannot be read.
        """
        self._path = path
        self._records: dict[str, Mapping[str, JsonValue]] = {}
        for record in json_lines(path):
            if isinstance(record, dict) and isinstance(record.get("key"), str):
                self._records[record["key"]] = record

    def find(self, key: str) -> Mapping[str, JsonValue] | None:
        """Return the record of a key."""
        return self._records.get(key)

    @property
    def runs(self) -> int:
        """The number of runs that are recorded."""
        return sum("run" in record for record in self._records.values())

    def add(self, key: str, record: Mapping[str, JsonValue]) -> None:
        """Write a record to the disk.

        Raises:
            OSError: the file cannot be written.
        """
        whole = {"key": key, **record}
        append_line(self._path, whole)
        self._records[key] = whole


_LIMITED: Final = re.compile(r"\b(?:429|529)\b|rate.?limit|too many requests|overloaded", re.IGNORECASE)

_PAUSES: Final = Backoff(5.0, 80.0)


@dataclass(slots=True)
class BackOff:
    """Seconds between runs: none, and after each answer in a row that names a limit twice as many."""

    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    _pauses: Iterator[float] = field(default_factory=lambda: iter(_PAUSES))

    async def after(self, reason: str, *, failed: bool) -> None:
        """Wait if a run has failed for a reason that names a limit of the provider."""
        if not failed:
            self._pauses = iter(_PAUSES)
        elif _LIMITED.search(reason):
            await self.sleep(next(self._pauses))


@dataclass(frozen=True, slots=True)
class RunLimitsOfTest:
    """How often a query is run, from which share on it triggers, and the limits of its runs; `jobs` run at once."""

    runs: int = 3
    threshold: float = 0.5
    jobs: int = 4
    max_calls: int = 20
    seconds: float = 180.0


def canary_query(name: str) -> str:
    """Return the query that every agent that has the skill answers by loading it."""
    return (
        f"Use the skill {name}: load its instructions before anything else, then say in one sentence what they are for."
    )


@dataclass(slots=True)
class TriggerRunner:
    """Runs queries with one agent; `rivals` are the other skills that the agent has."""

    agent: Agent
    rivals: Sequence[SkillCopy]
    limits: RunLimitsOfTest
    journal: TriggerJournal
    folder: Path
    folders: RunFolders
    report: Callable[[str], Awaitable[None]]
    spent: int = 0
    """Runs of the agent that this process has made."""
    tokens: int = 0
    cost: float = 0.0
    """US dollars, of the runs whose price is known."""
    seconds: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    """Reasons of errors, denials and timeouts with their numbers."""
    back_off: BackOff = field(default_factory=BackOff)
    show_partial: Callable[[SetResult], None] = lambda _: None
    """Receives the results of a set each time that a query ends."""

    async def check(self, skill: SkillCopy) -> None:
        """Run the canary: a query that names the skill.

        Raises:
            EvalError: the agent does not load the skill, or the agent cannot be started.
        """
        query = canary_query(skill.name)
        outcome, reason = await self._run(skill, query, 0)
        if outcome is not Outcome.LOADED:
            said = f": {reason}" if reason else ""
            raise EvalError(
                f"the agent did not load {skill.name} when it was told to ({outcome.value}{said}), so no outcome of a "
                f"query would mean anything. Its output is in {self._log(self._key(skill, query, 0))}"
            )

    async def measure(
        self, skill: SkillCopy, queries: Sequence[Query], label: str, *, all_runs: bool = False
    ) -> SetResult:
        """Run all queries with this description; stop early where too many errors leave no verdict.

        With `all_runs` no query ends before its last run, because the rates count and not their sides of the threshold.

        Raises:
            EvalError: the agent cannot be started.
            BoundReachedError: a bound of the costs was reached; runs under way have ended.
        """
        outcomes: dict[str, list[Outcome]] = {query.id: [] for query in queries}
        done = 0

        def results() -> SetResult:
            return SetResult(tuple(self._result(skill, query, outcomes[query.id]) for query in queries))

        def is_hopeless() -> bool:
            failed = sum(outcome in FAULTS for each in outcomes.values() for outcome in each)
            return too_many_failed(failed, len(queries) * self.limits.runs)

        def is_over(found: Sequence[Outcome]) -> bool:
            runs = self.limits.runs
            return len(found) >= runs if all_runs else is_settled(found, runs, self.limits.threshold)

        async def run_query(query: Query) -> None:
            nonlocal done
            found = outcomes[query.id]
            while not is_over(found) and not is_hopeless():
                outcome, reason = await self._run(skill, query.text, len(found) + 1)
                found.append(outcome)
                if not is_hopeless():
                    await self.back_off.after(reason, failed=outcome in FAULTS)
            done += 1
            self.show_partial(results())
            said = " ".join(outcome.value for outcome in found) or "not run"
            await self.report(f"{label}: {done} of {len(queries)}: query {query.id}: {said}")

        try:
            await for_each(queries, self.limits.jobs, run_query)
        except BoundReachedError:
            self.show_partial(results())
            raise
        return results()

    def _result(self, skill: SkillCopy, query: Query, outcomes: Sequence[Outcome]) -> QueryResult:
        keys = [self._key(skill, query.text, number) for number in range(1, len(outcomes) + 1)]
        transcripts = tuple(self._log(key).relative_to(self.folder).as_posix() for key in keys)
        return query_result(query, outcomes, self.limits.threshold, transcripts)

    async def _run(self, skill: SkillCopy, query: str, number: int) -> tuple[Outcome, str]:
        key = self._key(skill, query, number)
        record = self.journal.find(key)
        # Errors are run again: what caused them may have ended.
        if (
            record is None
            or record["outcome"] in [outcome.value for outcome in FAULTS]
            or (number == 0 and record["outcome"] != Outcome.LOADED.value)
        ):
            record = await self._run_agent(key, skill, query, number)
        outcome, reason = Outcome(str(record["outcome"])), str(record["reason"] or "")
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        return outcome, reason

    async def _run_agent(self, key: str, skill: SkillCopy, query: str, number: int) -> Mapping[str, JsonValue]:
        name, calls = skill.name, self.limits.max_calls
        task = AgentTask(
            folder=self.folders.of(key),
            prompt=query,
            skills=[skill, *self.rivals],
            seconds=self.limits.seconds,
            is_decided=lambda transcript: is_decided(transcript, name, calls),
        )
        run = await self.agent.perform(task)
        await anyio.to_thread.run_sync(self._keep, key, task.folder, run.lines)
        outcome, reason = outcome_of(run, name, installed=self.agent.installed)
        record: dict[str, JsonValue] = {
            "query": query,
            "run": number,
            "skill": skill.digest,
            "outcome": outcome.value,
            "reason": reason or None,
            "other_skills": [each for each in run.transcript.loaded if each != name],
            "seconds": round(run.seconds, 3),
            "total_tokens": run.transcript.total_tokens,
            "cost_usd": run.transcript.cost_usd,
            "tool_calls": run.transcript.tool_calls,
            "stopped_early": run.stopped,
        }
        self.spent += 1
        self.seconds += run.seconds
        self.tokens += run.transcript.total_tokens or 0
        self.cost += run.transcript.cost_usd or 0.0
        self.journal.add(key, record)
        return record

    def _key(self, skill: SkillCopy, query: str, number: int) -> str:
        """Return a key of everything that a run depends on."""
        agent = sorted(self.agent.identity.items())
        others = [rival.digest for rival in self.rivals]
        return digest_of(skill.digest, *others, *agent, self.limits.max_calls, query, number)[:32]

    def _keep(self, key: str, folder: RunFolder, lines: Sequence[str]) -> None:
        """Keep what the agent printed, and nothing else of the run."""
        log = self._log(key)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        self.folders.remove(folder)

    def _log(self, key: str) -> Path:
        return self.folder / "transcripts" / f"{key}.jsonl"
