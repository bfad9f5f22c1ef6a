"""Feedback is read in both forms, and belongs to the outputs that it was given for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.evals.feedback import CaseFeedback, digest_of_case, read_feedback, with_outputs, with_words

CASES = ("eval-a", "eval-a-b", "eval-b")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=9) | st.sampled_from(["reviews", "outputs", "run_id", "feedback", *CASES]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def test_feedback_of_both_forms_is_read_and_an_empty_text_means_fine() -> None:
    found = read_feedback({"eval-a": "no labels", "eval-b": "", "eval-x": "of no case"}, CASES)
    assert found.words == {"eval-a": "no labels", "eval-b": ""}
    reviews = [
        {"run_id": "eval-a-with_skill-run-1", "feedback": "no labels", "timestamp": "t"},
        {"run_id": "eval-a-without_skill-run-1", "feedback": "of the baseline"},
        {"run_id": "eval-a-b/with_skill/run-2", "feedback": "other"},
        {"run_id": "eval-b-with_skill", "feedback": " "},
    ]
    of_runs = read_feedback({"reviews": reviews, "status": "complete"}, CASES)
    # A line names its run, so that words on the baseline are not taken for words on the skill.
    ours = "with_skill-run-1: no labels\nwithout_skill-run-1: of the baseline"
    said = {"eval-a": ours, "eval-a-b": "with_skill/run-2: other", "eval-b": ""}
    assert of_runs.words == said


def test_words_on_a_case_take_the_place_of_reviews_of_its_runs() -> None:
    value = {"reviews": [{"run_id": "eval-a-with_skill", "feedback": "old"}]}
    said = with_words(value, "eval-a", "new", "")
    assert read_feedback(said, CASES).words == {"eval-a": "new"}
    assert said["reviews"] == value["reviews"]


def test_words_belong_to_the_outputs_that_they_were_given_for() -> None:
    value = with_words({"eval-b": "by hand"}, "eval-a", "too short", "sha256:1")
    found = read_feedback(value, CASES)
    assert found.on("eval-a", "sha256:1") == CaseFeedback("too short")
    assert found.on("eval-a", "sha256:2") == CaseFeedback(None, "too short")
    assert found.on("eval-a", "") == CaseFeedback("too short")
    assert found.on("eval-b", "sha256:2") == CaseFeedback("by hand")
    assert found.on("eval-x", "sha256:2") == CaseFeedback()
    newer = with_words(value, "eval-a", "fine now", "sha256:2")
    assert read_feedback(newer, CASES).on("eval-a", "sha256:2") == CaseFeedback("fine now")
    # Words whose outputs have no digest must not look like words on others.
    assert read_feedback(with_words(value, "eval-a", "x", ""), CASES).on("eval-a", "sha256:3") == CaseFeedback("x")


def test_words_written_by_hand_get_the_outputs_of_their_time_once() -> None:
    value = with_words({"eval-b": "by hand"}, "eval-a", "too short", "sha256:1")
    marked = with_outputs(value, {"eval-a": "sha256:8", "eval-b": "sha256:9", "eval-a-b": "sha256:7"})
    assert marked["outputs"] == {"eval-a": "sha256:1", "eval-b": "sha256:9"}
    assert with_outputs(marked, {"eval-a": "x", "eval-b": "y"}) == marked
    assert with_outputs({"eval-a": "x"}, {"eval-a": ""}) == {"eval-a": "x"}


def test_the_digest_of_a_case_is_unknown_if_that_of_a_run_is() -> None:
    assert digest_of_case(["a", "b"]).startswith("sha256:")
    assert digest_of_case(["a", "b"]) != digest_of_case(["ab"])
    assert digest_of_case(["a", None]) == digest_of_case([]) == ""


@pytest.mark.parametrize("value", [None, [], 3, {"reviews": 3, "outputs": 4, "eval-a": 5}, {"reviews": [3, {}]}])
def test_a_file_of_another_form_holds_nothing(value: Any) -> None:
    assert read_feedback(value, CASES).words == {}


@given(st.dictionaries(st.text(max_size=9) | st.sampled_from(["reviews", "outputs", *CASES]), JSON, max_size=5))
def test_any_object_can_be_read_and_keeps_what_is_not_ours(value: dict[str, Any]) -> None:
    said = with_words(value, "eval-a", "words", "sha256:1")
    assert read_feedback(said, CASES).on("eval-a", "sha256:1").now == "words"
    others = {name: each for name, each in value.items() if name not in {"eval-a", "outputs"}}
    assert others.items() <= said.items()
