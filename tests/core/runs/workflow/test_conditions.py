"""Conditions of workflows: their meaning, their syntax errors, and that values are never parsed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.runs.workflow.conditions import (
    MAX_CONDITION,
    MAX_NESTING,
    Operator,
    ParseError,
    Reference,
    Referent,
    excerpt_at,
    parse_condition,
)
from skills_core.runs.workflow.run import UndecidableError, holds

VALUES = {
    "text": "  3 CRITICAL findings\n",
    "yes": "Yes",
    "true": " True\n",
    "false": "false",
    "number": "0.80\n",
    "ten": "10",
    "empty": " \n",
    "quoted": 'it\'s "quoted"',
    "evil": "x' or 'a' == 'a",
}


def decided(condition: str, values: Mapping[str, str | None] = VALUES) -> bool:
    def value_of(reference: Reference) -> str | None:
        return values.get(reference.name or "previous")

    return holds(parse_condition(condition), value_of)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        # Texts: exactly, letter by letter, the values without the blanks around them.
        ("{{text}} contains 'CRITICAL'", True),
        ("{{text}} contains 'critical'", False),
        ("{{text}} contains ''", True),
        ('{{text}} startsWith "3 CRIT"', True),
        ("{{text}} startsWith 'CRIT'", False),
        ("{{text}} startsWith 3", True),
        ("{{number}} contains 0.8", True),
        ("{{yes}} == 'Yes'", True),
        ("{{yes}} == 'yes'", False),
        ("{{yes}} != 'yes'", True),
        ("{{empty}} == ''", True),
        ("'a' == 'a'", True),
        ("' a' == 'a'", False),
        (r"{{quoted}} == 'it\'s " + '"quoted"' + "'", True),
        (r'"a\tb\\\n" == "a\tb\\\n"', True),
        (r"'\{{x}}' contains '\{\{'", True),
        # Numbers.
        ("{{number}} == 0.8", True),
        ("0.8 == {{number}}", True),
        ("{{number}} == '0.8'", False),
        ("{{text}} == 3", False),
        ("{{text}} != 3", True),
        ("1.0 == 1", True),
        ("-1 < 0", True),
        ("{{ten}} > 9", True),
        ("{{ten}} > '9'", True),
        ("{{ten}} >= 10 and {{ten}} <= 10", True),
        ("{{number}} < 0.75", False),
        ("0.1 == 0.10000000000000000000001", False),
        # True, false, and what is missing.
        ("{{true}} == true", True),
        ("{{true}} == false", False),
        ("{{yes}} == true", False),
        ("true == 1", False),
        ("{{missing}} == null", True),
        ("{{empty}} == null", False),
        ("{{missing}} == ''", False),
        ("{{missing}} != 'a'", True),
        ("{{missing}} contains 'a'", False),
        ("{{missing}} startsWith ''", False),
        ("{{missing}} == {{gone}}", True),
        # By themselves.
        ("{{yes}}", True),
        ("{{false}}", False),
        ("{{empty}}", False),
        ("{{missing}}", False),
        ("0", False),
        ("-0.5", True),
        ("true", True),
        ("null", False),
        # Joined.
        ("true or true and false", True),
        ("(true or true) and false", False),
        ("not false and false", False),
        ("not (false and false)", True),
        ("not {{yes}} == 'yes'", True),
        ("! {{yes}} == 'yes' && true || false", True),
        ("not not true", True),
        ("{{missing}} != null and {{missing}} > 3", False),
        ("{{ten}} == 10 or {{missing}} > 3", True),
        ("({{ten}} == 10) == true", True),
        ("(1 == 1) contains 'ru'", True),
        # References in all their forms.
        ("{{ steps.yes.output }} == 'Yes'", True),
        ("{{steps.A b. c.output}} == null", True),
        ("{{inputs.ten}} == 10", True),
        ("{{previous.output}} == null", True),
        ("{{evil}} == 'a'", False),
    ],
)
def test_what_a_condition_means(condition: str, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert decided(condition) is expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("{{text}} < 3", "'<' compares numbers, and got '3 CRITICAL findings'"),
        ("{{missing}} >= 3", "'>=' compares numbers, and got a value that is missing"),
        ("3 > {{empty}}", "'>' compares numbers, and got ''"),
    ],
)
def test_ordering_something_that_is_not_a_number_is_undecidable(condition: str, message: str) -> None:
    with pytest.raises(UndecidableError, match=message):
        decided(condition)


@pytest.mark.parametrize(
    ("condition", "position", "message"),
    [
        ("", 0, "the condition is empty"),
        ("  ", 2, "the condition is empty"),
        ("{{a}} = 'b'", 6, "a single '=' means nothing here; did you mean '=='?"),
        ("{{a}} & {{b}}", 6, "did you mean 'and' or '&&'?"),
        ("{{a}} contain 'b'", 6, "the word 'contain' means nothing here; did you mean 'contains'?"),
        ("{{a}} AND {{b}}", 6, "did you mean 'and'?"),
        ("{{a}} endsWith 'b'", 6, "known are and, or, not, contains, startsWith, true, false, null"),
        ("{{a}} matches 'b'", 6, "write texts in quotes, and references in braces"),
        ("steps.A.output == 'b'", 0, "write a reference in braces"),
        ("{{a}} == 'b", 9, "no quote closes this text"),
        ("'{{a}}' == 'b'", 1, "write a reference without quotes"),
        (r"{{a}} == '\x'", 10, r"'\x' means nothing; known are"),
        ("{{a == 'b'", 0, "no '}}' closes this reference"),
        ("{{}} == 'b'", 0, "this reference is empty"),
        ("{{steps.A}} == 'b'", 8, "a reference to a step ends in '.output'"),
        ("{{steps.A.exitCode}} == 0", 10, "a skill has no exit code"),
        ("{{previous.result}} == 0", 11, "a step has no 'result'"),
        ("{{env.HOME}} == 0", 2, "a workflow cannot read the environment"),
        ("{{step.A.output}} == 0", 2, "did you mean 'steps'?"),
        ("{{a b}} == 0", 2, "this is not a reference"),
        ("{{a}} == 1e5", 9, "'1e5' is not a number"),
        ("{{a}} == 1.", 9, "'1.' is not a number"),
        ("{{a}} == " + "1" * 41, 9, "is not a number"),
        ("{{a}} == -", 9, "'-' is not a number"),
        ("{{a}} ==", 8, "where the condition ends"),
        ("{{a}} == and", 9, "where 'and' stands"),
        ("== 1", 0, "where '==' stands"),
        ("1 < 2 < 3", 6, "comparisons cannot be chained"),
        ("{{a}} {{b}}", 6, "expected 'and', 'or' or the end"),
        ("({{a}}", 0, "no ')' closes this parenthesis"),
        ("{{a}})", 5, "this parenthesis has no matching '('"),
        ("{{a}} < 'high'", 8, "'<' compares numbers, and this is not a number"),
        ("(1 == 1) < 2", 0, "'<' compares numbers, and this is not a number"),
        ("null < 2", 0, "'<' compares numbers, and this is not a number"),
        ("{{a}} ~ 1", 6, "'~' means nothing here"),
        ("(" * 33 + "1" + ")" * 33, 32, "nested deeper than 32 levels"),
        ("x" * 2001, 2000, "the condition has 2,001 characters; at most 2,000"),
    ],
)
def test_a_condition_that_breaks_the_grammar_says_where_and_what_was_expected(
    condition: str, position: int, message: str
) -> None:
    with pytest.raises(ParseError) as caught:
        parse_condition(condition)
    assert message in caught.value.message
    assert caught.value.position == position


def test_the_deepest_and_the_longest_condition_that_are_allowed_are_decided() -> None:
    assert decided("(" * MAX_NESTING + "1" + ")" * MAX_NESTING)
    assert decided("not " * MAX_NESTING + "true")
    assert decided(" or ".join(["true"] * ((MAX_CONDITION - 4) // 8)))


def test_a_caret_marks_the_position_in_its_line() -> None:
    assert excerpt_at("{{a}} = 'b'", 6) == "{{a}} = 'b'\n      ^"
    assert excerpt_at("true and\n\t{{a}} = 'b'\nor false", 16) == " {{a}} = 'b'\n       ^"
    shown, caret = excerpt_at("a" * 500 + "?" + "b" * 500, 500).split("\n")
    assert len(shown) <= 102
    assert shown[caret.index("^")] == "?"


class TestAValueIsNeverParsedAsACondition:
    @given(st.text())
    def test_it_equals_what_it_is_and_changes_nothing_else(self, output: str) -> None:
        values = {"A": output, "safe": "no"}
        assert decided("{{steps.A.output}} == {{A}}", values)
        assert not decided("{{steps.A.output}} == 'x' and {{safe}} == 'yes'", values)
        assert not decided("{{steps.A.output}} != null and ({{A}} == '' or true) and {{safe}} == 'yes'", values)

    @pytest.mark.parametrize("text", ["' or true or '", "{{safe}}", "') or (true", "x' == 'x", "true", "null", "1"])
    def test_a_text_that_looks_like_one_is_text(self, text: str) -> None:
        assert not decided("{{A}} == 'yes'", {"A": text, "safe": "yes"})
        assert not decided("{{A}} contains 'yes' or {{A}} startsWith 'yes'", {"A": text, "safe": "yes"})

    @given(st.text(), st.text())
    def test_contains_and_starts_with_are_those_of_texts(self, whole: str, part: str) -> None:
        values = {"whole": whole, "part": part}
        assert decided("{{whole}} contains {{part}}", values) is (part.strip() in whole.strip())
        assert decided("{{whole}} startsWith {{part}}", values) is whole.strip().startswith(part.strip())


LEAVES = st.sampled_from(["true", "false", "1 == 1", "1 > 2", "'a' == 'b'"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({})".format, inner),
        st.builds("not {}".format, inner),
        st.builds("{} and {}".format, inner, inner),
        st.builds("{} or {}".format, inner, inner),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_and_or_not_and_parentheses_bind_as_in_python(text: str) -> None:
    as_python = text.replace("true", "True").replace("false", "False")
    assert decided(text) is eval(as_python)  # noqa: S307 - made of constants above
    as_in_c = text.replace(" and ", "&&").replace(" or ", "||").replace("not ", "!")
    assert decided(as_in_c) is decided(text)


PIECES = st.sampled_from(
    ["{{", "}}", "{{a}}", "{{steps.A b.output}}", "'", '"', "\\", "(", ")", "not", "and", "==", "<", "1", "-", ".", " "]
)


@given(st.one_of(st.text(), st.lists(PIECES).map("".join), st.lists(PIECES).map(" ".join)))
def test_any_text_is_parsed_or_refused_at_a_position_in_it(text: str) -> None:
    try:
        condition = parse_condition(text)
    except ParseError as error:
        position = error.position
    else:
        position = 0
        assert all(text[each.position :].startswith("{{") for each in condition.references)
    assert 0 <= position <= len(text)
    assert excerpt_at(text, position).count("\n") == 1


def test_every_operator_can_be_parsed() -> None:
    assert [parse_condition(f"{{{{a}}}} {operator} 1").text.split()[1] for operator in Operator] == list(Operator)
    assert [each.referent for each in parse_condition("{{a}} == {{previous.output}}").references] == [
        Referent.INPUT,
        Referent.PREVIOUS,
    ]
