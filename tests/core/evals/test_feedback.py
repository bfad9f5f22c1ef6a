"""Feedback of a person is read in both forms, and complaints are carried to the next iteration."""

from __future__ import annotations

import pytest

from skills_core.evals.feedback import carried_feedback, feedback_from_json


def test_the_form_of_the_guide() -> None:
    value = {"eval-top-months-chart": "The chart is missing axis labels.", "eval-clean-missing-emails": ""}
    assert feedback_from_json(value) == value


def test_the_form_of_skill_creator_is_joined_by_eval() -> None:
    reviews = [
        {"run_id": "eval-a-with_skill", "feedback": "no axis", "timestamp": "t"},
        {"run_id": "eval-a/without_skill/run-2", "feedback": "too long"},
        {"run_id": "eval-b-old_skill-run-1", "feedback": ""},
        {"run_id": 3, "feedback": "x"},
    ]
    assert feedback_from_json({"reviews": reviews, "status": "complete"}) == {
        "eval-a": "no axis\ntoo long",
        "eval-b": "",
    }


@pytest.mark.parametrize("value", [None, [], "x", 3, {"a": 3}])
def test_other_values_are_no_feedback(value: object) -> None:
    assert feedback_from_json(value) == {}


def test_open_complaints_are_carried_and_an_empty_one_is_not_a_review_of_new_outputs() -> None:
    assert carried_feedback({"eval-a": "no axis", "eval-b": " "}) == {"eval-a": "no axis"}
