"""How a run of an agent counts, and whether the skill had a part in it."""

from __future__ import annotations

import pytest

from skills_core.evals.agents.kind import AgentRun, Transcript
from skills_core.evals.grading.results import EvalStatus, absence_fault, load_fault, load_note, status_of

FINE = Transcript(recognized=True)


@pytest.mark.parametrize(
    ("run", "status", "error"),
    [
        (AgentRun(transcript=FINE, exit_code=0), EvalStatus.DONE, ""),
        (AgentRun(transcript=FINE, timed_out=True), EvalStatus.TIMEOUT, "took longer than 9 seconds"),
        (AgentRun(transcript=FINE, fault="no model"), EvalStatus.ERROR, "no model"),
        (AgentRun(transcript=FINE, exit_code=3, errors="quota"), EvalStatus.ERROR, "exit code 3: quota"),
        (
            AgentRun(transcript=Transcript(is_error=True, error="no credit"), exit_code=1),
            EvalStatus.ERROR,
            "the agent reports: no credit",
        ),
        (AgentRun(transcript=Transcript(), exit_code=0), EvalStatus.ERROR, "nothing that the agent printed"),
    ],
)
def test_a_run_is_done_only_if_nothing_speaks_against_it(run: AgentRun, status: EvalStatus, error: str) -> None:
    found = status_of(run, 9, known=True)
    assert found[0] is status
    assert error in found[1]


def test_an_unknown_agent_may_print_anything() -> None:
    assert status_of(AgentRun(transcript=Transcript(), exit_code=0), 9, known=False) == (EvalStatus.DONE, "")


def test_a_baseline_neither_loads_nor_lists_the_skill() -> None:
    assert "loaded s" in absence_fault(Transcript(loaded=("s",)), "s", known=False)
    assert "lists s" in absence_fault(Transcript(available=("s",)), "s", known=True)
    assert absence_fault(Transcript(available=("s",)), "s", known=False) == ""
    assert absence_fault(Transcript(loaded=("t",), available=("t",)), "s", known=True) == ""


def test_a_skill_that_the_agent_does_not_have_cannot_be_loaded() -> None:
    assert "does not list s" in load_fault(Transcript(available=("t",)), "s")
    assert load_fault(Transcript(available=("s",)), "s") == load_fault(Transcript(), "s") == ""


def test_a_skill_that_was_never_loaded_is_remarked_with_the_reason() -> None:
    assert load_note(Transcript(loaded=("s",)), "s") == ""
    assert "a permission" in load_note(Transcript(denied=("*",)), "s")
    assert "tool failed (no rg)" in load_note(Transcript(failed={"s": "no rg"}), "s")
    assert load_note(Transcript(loaded=("t",)), "s") == "s was never loaded: this run measures nothing of it"
