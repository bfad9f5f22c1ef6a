"""A run that has the evals is told from one that solves its case."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from skills_core.evals.grading.cases import read_eval_cases
from skills_core.evals.grading.leaks import AnswerKey, Leak, LeakReason, new_canary
from tests.core.evals.sample_outputs import GOOD_AND_BAD, SAMPLES

ASSERTION = "The report names the three customers whose revenue fell most in the second quarter"
EXPECTED = (
    "A short report for the management that explains which regions lost customers, how much revenue this cost, and "
    "what could be done about it before the end of the year."
)
CASE = {"id": 1, "prompt": "Write a report of sales.", "expected_output": EXPECTED, "assertions": [ASSERTION]}


def key_of(*cases: Mapping[str, object], given: tuple[str, ...] = ()) -> AnswerKey:
    raw = json.dumps({"skill_name": "s", "evals": [{"id": number, **case} for number, case in enumerate(cases, 1)]})
    return AnswerKey.of(read_eval_cases(raw.encode(), "evals.json").cases, raw, ["/me/s/evals/"]).without(given)


def reason(found: Leak | None) -> LeakReason | None:
    return None if found is None else found.reason


@pytest.mark.parametrize(
    "text",
    [
        f"I made sure that {ASSERTION.lower()}.",
        f"{EXPECTED}",
        "the  report names\nthe three customers, whose revenue fell most in the SECOND quarter",
        json.dumps({"output": json.dumps(CASE)}),
        json.dumps({"output": json.dumps(CASE, indent=2)}),
    ],
)
def test_what_only_the_evals_say_is_found(text: str) -> None:
    found = key_of(CASE).find("the answer", text)
    assert reason(found) is LeakReason.EXPECTED
    assert str(found).startswith("this run does not count: the answer repeats what only the evals say")


@pytest.mark.parametrize(
    "text",
    [
        "The three customers whose revenue fell most are Ada, Bert and Cleo.",
        "Regions lost customers, and how much revenue this cost is in the table.",
        "Write a report of sales.",
        "",
    ],
)
def test_a_solution_in_its_own_words_is_none(text: str) -> None:
    assert key_of(CASE).find("the answer", text) is None


def test_a_canary_that_a_run_is_given_is_not_a_leak_and_any_other_is() -> None:
    old, own = new_canary(), new_canary()
    key = key_of(CASE, given=(f"results that the skill has as an example: {old}",))
    assert key.find("the answer", f"read {old}") is None
    assert reason(key.without(["nothing"]).find("the answer", f"read {old} and {own}")) is LeakReason.CANARY


def test_what_a_run_is_given_is_not_a_leak() -> None:
    given = f"The skill says: {ASSERTION}. {EXPECTED}"
    assert key_of(CASE, given=(given,)).find("the answer", given) is None


def test_a_literal_that_the_output_has_to_contain_is_not_a_leak() -> None:
    line = "End the plan with this line: heights are above the lowest astronomical tide in metres"
    case = {"prompt": "Plan.", "assertions": [f'The plan has the line "{line}"', f"It has `{line}`"]}
    assert key_of(case).find("outputs/plan.txt", line) is None


def test_an_expected_output_that_is_the_right_answer_is_not_a_leak_by_itself() -> None:
    title = "feat(auth): add sign-in by a provider of the customer, with a page for its errors"
    assert key_of({"prompt": "Name the commit.", "expected_output": title}).find("the answer", title) is None


def test_a_file_of_short_texts_is_found_by_its_keys() -> None:
    case = {
        "prompt": "greet",
        "expected_output": "hello",
        "assertions": [{"text": "says hello", "check": "grep hello"}],
    }
    raw = json.dumps({"skill_name": "s", "evals": [{"id": 1, **case}]})
    assert reason(key_of(case).find("line 3 of the transcript", raw)) is LeakReason.EXPECTED
    assert key_of(case).find("the answer", "hello") is None


def test_texts_without_blanks_between_words_are_found() -> None:
    text = "报告列出了第二季度收入下降最多的三个客户并说明了原因"
    assert reason(key_of({"prompt": "写报告", "assertions": [text]}).find("the answer", f"好的。{text}。")) is (
        LeakReason.EXPECTED
    )


def test_the_canary_and_paths_of_the_evals_are_found_unless_they_are_given() -> None:
    canary = new_canary()
    assert reason(key_of(CASE).find("line 1 of the transcript", f"x {canary} y")) is LeakReason.CANARY
    listed = "/me/s/SKILL.md\n/me/s/evals/evals.json"
    assert reason(key_of(CASE).find("line 1 of the transcript", listed)) is LeakReason.PATH
    assert key_of(CASE, given=("Look into /me/s/evals/files",)).find("line 1 of the transcript", listed) is None


@pytest.mark.parametrize("skill", sorted({skill for skill, _ in GOOD_AND_BAD}))
def test_no_output_of_a_sample_is_a_leak(skill: str) -> None:
    raw = (SAMPLES / skill / "evals/evals.json").read_text(encoding="utf-8")
    key = AnswerKey.of(read_eval_cases(raw.encode(), skill).cases, raw, [f"{SAMPLES / skill}/evals/"])
    for (owner, case), outputs in GOOD_AND_BAD.items():
        if owner == skill:
            for name, text in (item for files in outputs for item in files.items()):
                assert key.find(f"{case}: {name}", text) is None
