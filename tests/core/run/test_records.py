from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skills_core.run.outcome import Attempt, CallDecision, RunOutcome, RunProblem, RunStatus, Score, ToolCall, Usage
from skills_core.run.records import outcome_from_json, to_json

TEXTS = st.text(max_size=20)
PORTIONS = st.floats(0, 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SCORES = st.builds(Score, PORTIONS, st.just(()) | st.tuples(), TEXTS)
CALLS = st.builds(
    ToolCall,
    st.integers(1, 99),
    TEXTS,
    st.dictionaries(TEXTS, JSON, max_size=3),
    st.sampled_from(CallDecision),
    TEXTS,
    TEXTS,
    st.booleans(),
    PORTIONS,
)
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
    attempts=st.lists(st.builds(Attempt, TEXTS, st.none() | SCORES), max_size=3).map(tuple),
    usage=st.builds(Usage, st.integers(0), st.integers(0), st.integers(0)),
    tool_calls=st.lists(CALLS, max_size=3).map(tuple),
)


@given(OUTCOMES)
def test_an_outcome_is_the_same_after_it_was_json(outcome: RunOutcome) -> None:
    assert outcome_from_json(json.loads(json.dumps(to_json(outcome)))) == outcome
