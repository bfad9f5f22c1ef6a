"""How a run of an agent counts in an eval, and whether the skill had a part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.evals.agents.transcript import ANY_SKILL
from skills_core.evals.grading.results import EvalStatus
from skills_core.run.scripts.process import exit_text

if TYPE_CHECKING:
    from skills_core.evals.agents.transcript import AgentRun, Transcript

__all__ = ["absence_fault", "load_fault", "load_note", "status_of"]


def status_of(run: AgentRun, seconds: float, *, known: bool) -> tuple[EvalStatus, str]:
    """Return the status of a run that had `seconds`, and why it is not done.

    `known` tells that the agent is one whose output has to be readable.
    """
    record = run.transcript
    if run.timed_out:
        return EvalStatus.TIMEOUT, f"the agent took longer than {seconds:g} seconds; raise --timeout"
    if run.fault:
        return EvalStatus.ERROR, run.fault
    if record.is_error:
        return EvalStatus.ERROR, f"the agent reports: {record.error or 'an error'}"
    said = f": {run.errors}" if run.errors else ""
    if run.exit_code not in {0, None}:
        return EvalStatus.ERROR, f"the agent's command {exit_text(run.exit_code)}{said}"
    if known and not record.recognized:
        return EvalStatus.ERROR, f"nothing that the agent printed can be read as its record{said}"
    return EvalStatus.DONE, ""


def absence_fault(record: Transcript, skill: str, *, known: bool) -> str:
    """Return why a run that must be without the skill was not, empty if it was.

    `known` tells that the agent is one whose list of skills counts.
    """
    if skill in record.loaded:
        return f"the baseline is not without the skill: the agent loaded {skill}"
    if known and skill in (record.available or ()):
        return f"the baseline is not without the skill: the agent lists {skill}"
    return ""


def load_fault(record: Transcript, skill: str) -> str:
    """Return why an agent could not have loaded the skill in its own folder, empty if it could."""
    if record.available is None or skill in (*record.available, *record.loaded):
        return ""
    return f"the agent does not list {skill} among the skills that it has"


def load_note(record: Transcript, skill: str) -> str:
    """Return a remark on a run in which the skill was there and not loaded, empty if it was loaded."""
    if skill in record.loaded:
        return ""
    if skill in record.denied or ANY_SKILL in record.denied:
        return f"{skill} was never loaded, because a permission stopped the agent: this run measures nothing of it"
    if skill in record.failed:
        why = record.failed[skill] or "it gave no reason"
        return f"{skill} was never loaded, because the agent's own tool failed ({why}): this run measures nothing of it"
    return f"{skill} was never loaded: this run measures nothing of it"
