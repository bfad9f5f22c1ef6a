from __future__ import annotations

import pytest

from skills_core.evals.agents.agent_run import AgentRun
from skills_core.evals.agents.transcript import Transcript
from skills_core.evals.triggers.outcomes import Outcome, is_decided, outcome_of

SKILL = "tide-tables"
DONE = Transcript(recognized=True, finished=True)


def outcome(
    transcript: Transcript, *, exit_code: int | None = 0, timed_out: bool = False, installed: bool = True
) -> Outcome:
    run = AgentRun(transcript=transcript, exit_code=exit_code, timed_out=timed_out)
    return outcome_of(run, SKILL, installed=installed).outcome


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        (DONE, Outcome.NOT_LOADED),
        (Transcript(recognized=True, loaded=("tide-tables-2", "other")), Outcome.NOT_LOADED),
        (Transcript(recognized=True, loaded=("other", SKILL)), Outcome.LOADED),
        (Transcript(recognized=True, loaded=(SKILL,), is_error=True, error="later"), Outcome.LOADED),
        (Transcript(recognized=True, denied=(SKILL,)), Outcome.DENIED),
        (Transcript(recognized=True, denied=("*",)), Outcome.DENIED),
        (Transcript(recognized=True, denied=("other",)), Outcome.NOT_LOADED),
        (Transcript(recognized=True, failed={SKILL: "no rg"}), Outcome.ERROR),
        (Transcript(recognized=True, failed={"other": ""}), Outcome.NOT_LOADED),
        (Transcript(recognized=True, is_error=True, error="401"), Outcome.ERROR),
        (Transcript(), Outcome.ERROR),
        (Transcript(recognized=True, available=("other",)), Outcome.ERROR),
        (Transcript(recognized=True, available=(SKILL, SKILL)), Outcome.ERROR),
        (Transcript(recognized=True, available=(SKILL,)), Outcome.NOT_LOADED),
    ],
)
def test_the_record_of_the_agent_decides(transcript: Transcript, expected: Outcome) -> None:
    assert outcome(transcript) is expected


def test_a_run_that_failed_or_took_too_long_does_not_say_that_the_skill_was_not_loaded() -> None:
    assert outcome(DONE, exit_code=1) is Outcome.ERROR
    assert outcome(DONE, timed_out=True) is Outcome.TIMEOUT
    assert outcome(Transcript(), timed_out=True, exit_code=None) is Outcome.TIMEOUT


def test_a_run_that_was_ended_early_has_no_exit_code_and_counts() -> None:
    assert outcome(Transcript(recognized=True, tool_calls=20), exit_code=None) is Outcome.NOT_LOADED


def test_an_agent_that_has_the_skill_from_a_server_does_not_list_it() -> None:
    assert outcome(Transcript(recognized=True, available=("other",)), installed=False) is Outcome.NOT_LOADED


def test_an_outcome_is_clear_when_the_skill_is_loaded_the_run_failed_or_the_agent_works_without_it() -> None:
    assert is_decided(Transcript(loaded=(SKILL,)), SKILL, 5)
    assert is_decided(Transcript(is_error=True), SKILL, 5)
    assert is_decided(Transcript(tool_calls=5), SKILL, 5)
    assert not is_decided(Transcript(tool_calls=4, loaded=("other",)), SKILL, 5)
