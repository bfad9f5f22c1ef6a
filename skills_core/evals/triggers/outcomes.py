"""The outcome of one run of an agent, from its own record."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_core.evals.agents.transcript import ANY_SKILL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.evals.agents.agent_run import AgentRun
    from skills_core.evals.agents.transcript import Transcript

__all__ = ["FAULTS", "Outcome", "RunOutcome", "is_decided", "outcome_of"]


class Outcome(StrEnum):
    """How a run ended, as far as the skill is concerned."""

    LOADED = "loaded"
    NOT_LOADED = "not_loaded"
    DENIED = "denied"
    ERROR = "error"
    TIMEOUT = "timeout"


FAULTS: Final = (Outcome.ERROR, Outcome.TIMEOUT)
"""Outcomes that say nothing about the skill, and so do not count as runs."""


class RunOutcome(NamedTuple):
    """An outcome and the reason for it, if it is not the plain one."""

    outcome: Outcome
    reason: str = ""


def is_decided(transcript: Transcript, skill: str, max_calls: int) -> bool:
    """Tell whether the outcome is clear while the agent still works."""
    return skill in transcript.loaded or transcript.is_error or transcript.tool_calls >= max_calls


def outcome_of(run: AgentRun, skill: str, *, installed: bool) -> RunOutcome:
    """Return the outcome of a run; `installed` tells that the skill lies in the agent's own folder of skills."""
    return next(found for applies, found in _rules(run, skill, installed=installed) if applies)


def _rules(run: AgentRun, skill: str, *, installed: bool) -> Iterator[tuple[bool, RunOutcome]]:
    """Yield possible outcomes with whether they apply; the first that does counts."""
    record, said = run.transcript, run.errors or "it gave no message"
    listed = record.available if installed else None
    yield skill in record.loaded, RunOutcome(Outcome.LOADED)
    yield run.timed_out, RunOutcome(Outcome.TIMEOUT, f"the run took longer than {run.seconds:.0f} seconds")
    yield record.is_error, RunOutcome(Outcome.ERROR, record.error)
    yield bool(run.fault), RunOutcome(Outcome.ERROR, run.fault)
    denied = skill in record.denied or ANY_SKILL in record.denied
    yield denied, RunOutcome(Outcome.DENIED, "the agent wanted to load the skill, and a permission stopped it")
    failure = f"the agent's own tool failed to load the skill: {record.failed.get(skill) or 'it gave no reason'}"
    yield skill in record.failed, RunOutcome(Outcome.ERROR, failure)
    ended = f"the agent ended with exit code {run.exit_code}: {said}"
    yield run.exit_code not in {0, None}, RunOutcome(Outcome.ERROR, ended)
    unread = f"nothing that the agent printed can be read as its record: {said}"
    yield not record.recognized, RunOutcome(Outcome.ERROR, unread)
    absent = listed is not None and skill not in listed
    yield absent, RunOutcome(Outcome.ERROR, "the agent does not list the skill among those that it has")
    twice = listed is not None and listed.count(skill) > 1
    yield twice, RunOutcome(Outcome.ERROR, "the agent lists two skills of this name")
    yield True, RunOutcome(Outcome.NOT_LOADED)
