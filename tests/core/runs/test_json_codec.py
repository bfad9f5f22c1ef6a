"""Outcomes as JSON and back.

A JSON object is found wherever it stands in a text, in bounded time.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.errors import InvalidRecordError
from skills_core.guard.tool import CallDecision, ToolCall
from skills_core.runs.json_codec import from_json, to_json
from skills_core.runs.outcome import (
    ActivatedSkill,
    Attempt,
    CriterionScore,
    Origin,
    RunOutcome,
    RunProblem,
    RunStatus,
    Score,
    Usage,
)
from skills_core.runs.structured_answers import visit_objects
from skills_core.runs.workflow.model import StepKind, StepRecord, StepStatus, WorkflowOutcome, WorkflowProblem

TEXTS = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
SCORES = st.builds(
    Score, NUMBERS, st.lists(st.builds(CriterionScore, TEXTS, NUMBERS, TEXTS), max_size=2).map(tuple), TEXTS
)
CALLS = st.builds(
    ToolCall,
    st.integers(),
    TEXTS,
    st.dictionaries(TEXTS, JSON, max_size=3),
    st.sampled_from(CallDecision),
    TEXTS,
    TEXTS,
    st.booleans(),
    NUMBERS,
)
ACTIVATED = st.builds(ActivatedSkill, TEXTS, st.none() | TEXTS, st.sampled_from(Origin))
OUTCOMES = st.builds(
    RunOutcome,
    run_id=TEXTS,
    skill=TEXTS,
    digest=st.none() | TEXTS,
    status=st.sampled_from(RunStatus),
    output=TEXTS,
    problem=st.none() | st.sampled_from(RunProblem),
    message=TEXTS,
    score=st.none() | SCORES,
    attempts=st.lists(st.builds(Attempt, TEXTS, st.none() | SCORES), max_size=2).map(tuple),
    usage=st.builds(Usage, st.integers(), st.integers(), st.integers()),
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    activated_skills=st.lists(ACTIVATED, max_size=2).map(tuple),
)
RECORDS = st.builds(
    StepRecord,
    TEXTS,
    st.sampled_from(StepKind),
    st.sampled_from(StepStatus),
    st.none() | TEXTS,
    st.none() | st.booleans(),
    st.none() | OUTCOMES,
)
WORKFLOWS = st.builds(
    WorkflowOutcome,
    run_id=TEXTS,
    workflow=TEXTS,
    digest=TEXTS,
    status=st.sampled_from(RunStatus),
    steps=st.lists(RECORDS, max_size=2).map(tuple),
    output=TEXTS,
    problem=st.none() | st.sampled_from(WorkflowProblem),
    message=TEXTS,
)


@given(OUTCOMES)
def test_an_outcome_survives_a_json_round_trip(outcome: RunOutcome) -> None:
    assert from_json(RunOutcome, json.loads(json.dumps(to_json(outcome), allow_nan=False))) == outcome


@given(WORKFLOWS)
def test_a_workflow_outcome_survives_a_json_round_trip(outcome: WorkflowOutcome) -> None:
    assert from_json(WorkflowOutcome, json.loads(json.dumps(to_json(outcome), allow_nan=False))) == outcome


PLAIN = RunOutcome(run_id="r", skill="s", digest=None, status=RunStatus.COMPLETED)


def test_the_json_has_every_field_by_its_name_and_enums_by_their_value() -> None:
    call = ToolCall(1, "sh", {"a": [1]}, CallDecision.NOT_PERMITTED, "no", seconds=0.5)
    outcome = RunOutcome(
        run_id="r",
        skill="s",
        digest="d",
        status=RunStatus.FAILED,
        problem=RunProblem.TURN_LIMIT,
        tool_calls=(call,),
        activated_skills=(ActivatedSkill("base", "sha256:0", Origin.REQUIRED),),
    )
    assert to_json(outcome) == {
        "run_id": "r",
        "skill": "s",
        "digest": "d",
        "status": "failed",
        "output": "",
        "problem": "turn_limit",
        "message": "",
        "score": None,
        "attempts": [],
        "usage": {"requests": 0, "input_tokens": 0, "output_tokens": 0},
        "tool_calls": [
            {
                "number": 1,
                "tool": "sh",
                "arguments": {"a": [1]},
                "decision": "not_permitted",
                "text": "no",
                "reason": "",
                "confirmed": False,
                "seconds": 0.5,
            }
        ],
        "activated_skills": [{"skill": "base", "digest": "sha256:0", "origin": "required"}],
        "trigger_reason": "unknown",
    }


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("status", "finished", "RunOutcome.status: 'finished' is not one of its values"),
        ("output", None, "RunOutcome.output: expected str, not NoneType"),
        ("digest", 3, "RunOutcome.digest: expected str, not int"),
        ("usage", {"requests": 1}, "RunOutcome.usage: missing or unknown: input_tokens, output_tokens"),
        ("usage", {"requests": True, "input_tokens": 0, "output_tokens": 0}, "RunOutcome.usage.requests: expected int"),
        ("attempts", {}, "RunOutcome.attempts: expected list"),
        ("attempts", [{"output": "", "score": None}, 3], r"RunOutcome.attempts\[1\]: expected dict"),
        ("more", 1, "RunOutcome: missing or unknown: more"),
    ],
)
def test_an_invalid_record_is_refused_with_its_location(field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidRecordError, match=message):
        from_json(RunOutcome, {**to_json(PLAIN), field: value})


def test_a_missing_field_gets_no_default() -> None:
    record = to_json(PLAIN)
    del record["score"]
    with pytest.raises(InvalidRecordError, match="missing or unknown: score"):
        from_json(RunOutcome, record)


def test_a_float_without_a_fraction_is_read() -> None:
    assert from_json(Score, {"overall": 1, "criteria": [], "finding": ""}) == Score(1.0)


PROSE = (
    st.text()
    | st.text(alphabet='{}[]":, \n\\ab1')
    | st.lists(st.sampled_from(["{", "}", '{"a": ', "```json", "x"])).map("".join)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def found(text: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []

    def fits(value: dict[str, Any]) -> bool:
        objects.append(value)
        return "wanted" in value

    visit_objects(text, fits)
    return objects


@given(PROSE, VALUES, PROSE, st.sampled_from([None, 1]))
def test_an_object_is_found_whatever_prose_stands_around_it(
    before: str, value: Any, after: str, indent: int | None
) -> None:
    # An odd quote before it would make it part of a string, in which it is found all the same.
    wanted = {"wanted": value}
    assert wanted in found(f"{before}{json.dumps(wanted, indent=indent)}{after}")


def test_objects_inside_a_fitting_object_are_not_visited() -> None:
    assert found('{"wanted": {"wanted": 1}} {"other": {"wanted": 2}}') == [
        {"wanted": {"wanted": 1}},
        {"other": {"wanted": 2}},
        {"wanted": 2},
    ]


@pytest.mark.parametrize("text", ["{NaN}", '{"a": NaN}', '{"a": Infinity}', "{" * 40_000, '{"a":' * 40_000, "[1]"])
def test_text_without_json_objects_costs_bounded_time(text: str) -> None:
    assert found(text) == []
