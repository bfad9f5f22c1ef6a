"""A model grades assertions and compares outputs; code verifies its quotes, and order does not decide."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skills_core.evals.grading.cases import Assertion, EvalCase
from skills_core.evals.grading.judging import (
    Material,
    OutputFile,
    compare_blindly,
    judge,
    overall_winner,
    transcript_text,
)
from skills_core.runs.structured_answers import NoAnswerError
from skills_core.testing import ScriptedModel

CASE = EvalCase(1, "one", "Find the top 3 months.", expected_output="A chart.")
REPORT = "# Report\n\nTotal  Revenue:\n$42\n"
MATERIAL = Material(
    (
        OutputFile("report.md", len(REPORT), REPORT),
        OutputFile("chart.png", 45_000, None),
        OutputFile("signs.txt", 30, "See: the 'caf\u00e9' - \"open\"\u2026"),
    ),
    transcript_text(
        [
            json.dumps({"type": "result", "text": "March was\nbest. " + CASE.prompt}),
            json.dumps({"text": "plain"}),
            "not json",
        ]
    ),
    (CASE.prompt, "The chart has a title"),
)


def verdicts(*entries: dict[str, Any]) -> str:
    return json.dumps({"results": [{"quote": "", "reason": "", **entry} for entry in entries]})


async def graded(answer: str, *assertions: str) -> list[tuple[bool, str]]:
    results, _ = await judge(ScriptedModel(answer), CASE, tuple(map(Assertion, assertions)), MATERIAL)
    return [(each.passed, each.evidence) for each in results]


@pytest.mark.parametrize(
    ("quote", "where"),
    [
        ("Total Revenue: $42", "outputs/report.md"),
        ("“Total Revenue:”", "outputs/report.md"),
        ("chart.png (45000 bytes", "outputs"),
        ("March was best.", "transcript"),
        ("plain", "transcript"),
        ("not json", "transcript"),
        # Models write other blanks, quotes, dashes and compositions than a file has.
        ("the \u2018cafe\u0301\u2019 \u2013 \u201copen\u201d", "outputs/signs.txt"),
        ("Total\u00a0Revenue:\u200b $42", "outputs/report.md"),
    ],
)
async def test_a_pass_has_a_quote_that_occurs_in_outputs_or_transcript(quote: str, where: str) -> None:
    [(passed, evidence)] = await graded(verdicts({"passed": True, "quote": quote, "reason": "Shown."}), "x")
    assert passed
    assert evidence == f"{json.dumps(quote, ensure_ascii=False)} ({where}). Shown."


@pytest.mark.parametrize("quote", ["", "  ", "Total Revenue: $43", CASE.prompt, "The chart has a title", "o", '"'])
async def test_a_pass_without_a_real_quote_is_a_fail_with_the_reason(quote: str) -> None:
    [(passed, evidence)] = await graded(verdicts({"passed": True, "quote": quote}), "x")
    assert not passed
    assert evidence.startswith("The judge passed it with")
    assert "counts as FAIL" in evidence


async def test_a_short_quote_counts_as_a_whole_line() -> None:
    assert [each for each, _ in await graded(verdicts({"passed": True, "quote": "$42"}), "x")] == [True]


async def test_a_fail_has_the_reason_and_notes_are_about_the_assertion() -> None:
    answer = verdicts({"passed": False, "reason": "No axis."}, {"passed": False, "note": "any output passes"})
    results, notes = await judge(ScriptedModel(answer), CASE, (Assertion("axes"), Assertion("output")), MATERIAL)
    assert [each.evidence for each in results] == ["No axis.", "The judge gives no reason."]
    assert notes == ["'output': any output passes"]


async def test_what_must_not_hold_passes_if_the_judge_says_that_it_does_not() -> None:
    model = ScriptedModel(
        verdicts(
            {"passed": False, "reason": "It is nowhere."},
            {"passed": True, "quote": "Total Revenue:", "reason": "Said."},
            {"passed": True},
        )
    )
    names = ("a guess", "the revenue", "no axes")
    denied = [Assertion(f"must not have: {each}", absent=each) for each in names]
    results, _ = await judge(model, CASE, denied, MATERIAL)
    assert [(each.text, each.passed, each.evidence) for each in results] == [
        ("must not have: a guess", True, "It is nowhere."),
        ("must not have: the revenue", False, '"Total Revenue:". Said.'),
        ("must not have: no axes", False, "The judge gives no reason."),
    ]
    asked = str(model.conversations[0])
    assert "2. the revenue" in asked
    assert "must not have" not in asked


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("PASS", "no JSON object"),
        (verdicts(), "a list of 1 entries, found 0"),
        (verdicts({"passed": "yes"}), "results[0].passed: expected true or false"),
        (verdicts({"passed": True, "quote": ["x"]}), "results[0].quote: expected text"),
        (verdicts({"passed": True}) + verdicts({"passed": False}), "that differ"),
    ],
)
async def test_an_answer_in_another_form_is_asked_for_again_and_then_an_error(answer: str, says: str) -> None:
    model = ScriptedModel(answer, verdicts({"passed": False}))
    await judge(model, CASE, (Assertion("x"),), MATERIAL)
    assert says in str(model.conversations[1])
    with pytest.raises(NoAnswerError, match="no grading in 3 answers"):
        await judge(ScriptedModel(answer, answer, answer), CASE, (Assertion("x"),), MATERIAL)


async def test_the_judge_sees_the_work_between_marks_it_cannot_contain_and_all_assertions() -> None:
    model = ScriptedModel(verdicts({"passed": False}, {"passed": False}))
    await judge(model, CASE, (Assertion("first one"), Assertion("second one")), MATERIAL)
    shown = str(model.conversations[0])
    for text in ("=== outputs/report.md ===", "not shown: binary", "1. first one", "2. second one", "<material-"):
        assert text in shown


async def test_long_material_is_cut_in_the_middle_and_still_quoted_from_the_whole() -> None:
    text = "a" * 100_000 + "needle" + "b" * 100_000
    material = Material((OutputFile("x", len(text), text),), "")
    assert len(material.shown()) < 60_000
    assert "characters are left out" in material.shown()
    assert material.find("needle") == "outputs/x"


def opinion(winner: str, ours: int = 4, theirs: int = 2) -> str:
    rubric = [{"criterion": "correct", "A": ours, "B": theirs}]
    return json.dumps({"winner": winner, "reasoning": "Because.", "rubric": rubric})


FIRST, SECOND = Material((OutputFile("x", 3, "one"),), ""), Material((OutputFile("x", 9, "another one"),), "")


@pytest.mark.parametrize(
    ("answers", "winner"), [("AB", "A"), ("BA", "B"), ("AA", "TIE"), ("BB", "TIE"), (("TIE", "TIE"), "TIE")]
)
async def test_a_verdict_that_turns_with_the_order_is_a_tie(answers: tuple[str, str], winner: str) -> None:
    model = ScriptedModel(opinion(answers[0]), opinion(answers[1], 2, 4))
    found = await compare_blindly(model, CASE, FIRST, SECOND)
    assert found["winner"] == winner
    assert found["rubric"] == [{"criterion": "correct", "A": 4, "B": 2}]
    assert ("other order" in str(found["reasoning"])) == (winner == "TIE" and answers[0] != "TIE")
    assert 0 < float(str(found["length_ratio"])) < 1


async def test_the_order_is_swapped_and_no_arm_is_named() -> None:
    model = ScriptedModel(opinion("A"), opinion("B"))
    await compare_blindly(model, CASE, FIRST, SECOND)
    shown = [str(messages) for messages in model.conversations]
    assert shown[0].index("another one") > shown[0].index("=== outputs/x ===")
    assert shown[1].index("another one") < shown[1].rindex("=== outputs/x ===")
    assert not any("skill" in text for text in shown)


@pytest.mark.parametrize(
    "answer",
    [
        opinion("C"),
        json.dumps({"winner": "A", "rubric": []}),
        opinion("A", ours=9),
        json.dumps({"winner": "A", "rubric": [{"criterion": "x", "A": "4", "B": 1}]}),
    ],
)
async def test_a_comparison_in_another_form_is_an_error(answer: str) -> None:
    with pytest.raises(NoAnswerError, match="no comparison in 3 answers"):
        await compare_blindly(ScriptedModel(answer, answer, answer), CASE, FIRST, SECOND)


def test_several_pairs_have_the_winner_of_most() -> None:
    assert [overall_winner(each) for each in (["A", "A", "B"], ["B", "TIE"], ["A", "B"], ["TIE"])] == [
        "A",
        "B",
        "TIE",
        "TIE",
    ]


def test_the_own_words_of_an_agent_count_though_its_prompt_has_them_too() -> None:
    """The right answer is often one that the prompt names; an echo of the prompt is none."""
    prompt = "Say hello world twice."
    echo = transcript_text([json.dumps({"text": "You said: Say hello\nworld twice."})])
    assert Material((), echo, (prompt,)).find("hello world") is None
    spoken = f"{echo}\nhello world, hello world"
    assert Material((), spoken, (prompt,)).find("hello world") == "transcript"
    assert Material((), spoken, (prompt,)).find("Say hello world") is None
    assert Material((), "yes", ("yes",)).find("yes") is None
    assert Material((), "greetings", ("greet",)).find("greetings") == "transcript"
