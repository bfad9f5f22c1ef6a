"""Templates: filled in one pass, with values that are never parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.runs.workflow.conditions import ParseError, Reference, Referent
from skills_core.runs.workflow.model import MAX_FILLED, TextTooLongError, parse_template


def filled(text: str, value: str | None = "VALUE") -> str:
    return parse_template(text).filled(lambda _: value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("no reference, } and { and }}", "no reference, } and { and }}"),
        ("{{a}}", "VALUE"),
        ("text {{steps.A B.output}} text", "text VALUE text"),
        ("{{a}}{{ inputs.b }}\n{{previous.output}}", "VALUEVALUE\nVALUE"),
        ("${{a}}}", "$VALUE}"),
        ("{{'{{'}}a}}", "{{a}}"),
        ('{{"{{"}}', "{{"),
        ("C:\\{{a}}\\", "C:\\VALUE\\"),
    ],
)
def test_references_are_filled_and_all_else_stays(text: str, expected: str) -> None:
    assert filled(text) == expected


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("a {{b", 2, "no '}}' closes this reference"),
        ("a {{}}", 2, "this reference is empty"),
        ("{{a}} {{steps.A.exitCode}}", 16, "a skill has no exit code"),
        ("{{steps.A B}}", 8, "a reference to a step ends in '.output'"),
        ("{{ env.TOKEN }}", 3, "make it an input"),
        ("{{{a}}}", 2, "this is not a reference"),
        ("{{github.event}}", 2, "this is not a reference"),
    ],
)
def test_an_invalid_reference_is_an_error_with_its_position(text: str, position: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_template(text)
    assert message in caught.value.message
    assert caught.value.position == position


def test_a_missing_value_is_empty() -> None:
    assert filled("<{{a}}>", None) == "<>"


def test_a_text_that_would_be_too_long_is_refused() -> None:
    assert len(filled("{{a}}" * 10, "x" * (MAX_FILLED // 10))) == MAX_FILLED
    with pytest.raises(TextTooLongError):
        filled("{{a}}" * 10 + ".", "x" * (MAX_FILLED // 10))


@given(st.text(), st.text(), st.text().filter(lambda text: "{{" not in text and not text.endswith("{")))
def test_a_value_is_inserted_literally_and_never_parsed_for_references(one: str, two: str, between: str) -> None:
    template = parse_template(f"{{{{a}}}}{between}{{{{b}}}}{{{{a}}}}")
    values = {"a": one + "{{b}}", "b": two + "{{'{{'}}"}
    assert (
        template.filled(lambda reference: values[reference.name]) == values["a"] + between + values["b"] + values["a"]
    )


@given(st.text("{}'\"ab. steps") | st.text())
def test_any_text_is_parsed_or_refused_at_a_position_in_it(text: str) -> None:
    try:
        template = parse_template(text)
    except ParseError as error:
        position = error.position
    else:
        position = 0
        assert all(text[each.position :].startswith("{{") for each in template.references)
    assert 0 <= position <= len(text)


def test_a_reference_survives_a_round_trip() -> None:
    for reference in (
        Reference(Referent.STEP, "Review v1.2", 0),
        Reference(Referent.INPUT, "topic", 0),
        Reference(Referent.PREVIOUS, "", 0),
    ):
        assert parse_template(str(reference)).parts == (reference,)
