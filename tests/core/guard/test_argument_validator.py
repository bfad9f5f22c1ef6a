from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.errors import InvalidSchemaError
from skills_core.guard.argument_validator import MAX_DEPTH, MAX_VALUES, ArgumentValidator


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"properties": {"a": value}}
    return value


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ([], "must be an object"),
        ({"type": "array"}, "must be object"),
        ({"properties": {"a": {"type": 3}}}, "3 is not valid"),
        ({"type": "object", "properties": []}, "[] is not of type 'object'"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "only references within the schema"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "only references within the schema"),
        ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, "which it does not define"),
        (nested(MAX_DEPTH), "nest deeper than 100 levels"),
        ({"enum": list(range(MAX_VALUES))}, "hold more than 20000 values"),
        ({"properties": {"a": {"default": math.nan}}}, "hold a number that is not finite, which JSON does not allow"),
        (
            {"properties": {"a": {"enum": [1, [-math.inf]]}}},
            "hold a number that is not finite, which JSON does not allow",
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_a_schema_that_cannot_be_used_is_refused_when_the_tool_is_made(schema: Any, why: str) -> None:
    with pytest.raises(InvalidSchemaError, match="the schema of the arguments cannot be used") as caught:
        ArgumentValidator(schema)
    assert why in str(caught.value)


def test_a_pattern_that_takes_exponential_time_elsewhere_takes_linear_time_here() -> None:
    check = ArgumentValidator({"properties": {"a": {"pattern": "^(a+)+$"}}})
    assert "does not match" in check.errors({"a": "a" * 5000 + "!"})
    check = ArgumentValidator({"patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False})
    assert "unknown" in check.errors({"a" * 5000 + "!": 1})
    assert "is not of type 'string'" in check.errors({"aaa": 1})


def test_a_pattern_that_cannot_be_used_is_noted_and_refuses_nothing() -> None:
    check = ArgumentValidator(
        {"properties": {"a": {"pattern": "^(?!-)"}}, "patternProperties": {"(?=x)": {}}, "additionalProperties": False}
    )
    assert len(check.notes) == 2
    assert check.errors({"a": "-", "other": 1}) == ""


def test_validation_of_an_exponential_schema_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skills_core.guard.argument_validator.MAX_SECONDS", 0.1)
    definitions: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)
    }
    definitions["d40"] = {}
    check = ArgumentValidator({"$defs": definitions, "$ref": "#/$defs/d0"})
    assert "take too long to check" in check.errors({})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"patternProperties": {f"^k{n}x": {} for n in range(1000)}}, {f"k{n}": 1 for n in range(1000)}),
        (
            {"patternProperties": {f"^k{n}x": {} for n in range(1000)}, "additionalProperties": False},
            {f"k{n}": 1 for n in range(1000)},
        ),
        ({"items": {"enum": [f"e{n}" for n in range(9000)]}}, ["e8999"] * 9000),
        ({"items": {"properties": {f"p{n}": {} for n in range(4000)}}}, [{}] * 15_000),
        ({"anyOf": [{"items": {"dependentRequired": {"a": [f"b{n}" for n in range(900)]}}}]}, [{"a": 1}] * 3000),
        ({"anyOf": [{"type": "string"}] * 1000}, [0] * 15_000),
        (
            {"properties": {f"k{n}": {} for n in range(1100)}, "unevaluatedProperties": False},
            {f"k{n}": 1 for n in range(1100)},
        ),
        ({"prefixItems": [{}] * 1100, "unevaluatedItems": False}, [0] * 1100),
    ],
    ids=["patterns", "further", "enum", "properties", "dependents", "messages", "unevaluated", "unevaluated items"],
)
def test_a_schema_whose_parts_multiply_with_the_arguments_is_given_up(
    schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_core.guard.argument_validator.MAX_SECONDS", 0.1)
    check = ArgumentValidator({"properties": {"a": schema}})
    assert "take too long to check" in check.errors({"a": value})


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}]
)
def test_a_schema_that_refers_to_itself_without_end_is_a_fault(schema: Any) -> None:
    assert "cannot be checked" in ArgumentValidator(schema).errors({})


def test_a_schema_may_refer_to_itself_as_trees_do() -> None:
    check = ArgumentValidator({"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}})
    assert check.errors({"child": {"child": {"n": 1}}}) == ""
    assert check.errors({"child": {"child": {"n": "x"}}}) == "arguments.child.child.n: 'x' is not of type 'integer'"


def test_a_dialect_inside_a_schema_does_not_bypass_the_limits() -> None:
    inner: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}
    check = ArgumentValidator({"properties": {"a": inner}, "allOf": [{"properties": {"a": inner}}]})
    assert "does not match" in check.errors({"a": "a" * 100 + "!"})


def test_the_dialect_that_a_schema_names_is_the_one_that_counts() -> None:
    schema: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"items": [{"type": "null"}]}},
    }
    assert "arguments.a[0]" in ArgumentValidator(schema).errors({"a": [1]})


def test_large_and_deep_arguments_are_refused_before_validation() -> None:
    check = ArgumentValidator({})
    assert check.errors({"a": [0] * MAX_VALUES}) == f"the arguments hold more than {MAX_VALUES} values"
    deep: Any = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"a": deep}
    assert check.errors(deep) == f"the arguments nest deeper than {MAX_DEPTH} levels"


def test_arguments_with_nan_or_infinity_are_refused() -> None:
    assert "not finite" in ArgumentValidator({}).errors({"a": [{"b": math.inf}]})


def test_equal_items_are_found_among_many_objects() -> None:
    check = ArgumentValidator({"properties": {"a": {"uniqueItems": True}}})
    many: list[Any] = [{"x": [n]} for n in range(3000)]
    assert check.errors({"a": many}) == ""
    assert check.errors({"a": [*many, {"x": [3]}]}) == "arguments.a: has items that are equal"
    assert check.errors({"a": [1, True, 0, False, "1"]}) == ""


def test_the_number_of_reported_errors_is_limited() -> None:
    errors = ArgumentValidator({"additionalProperties": {"type": "null"}}).errors(
        {str(n): "x" * 999 for n in range(99)}
    )
    assert len(errors.splitlines()) == 11
    assert len(errors) < 5000


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
KEYWORDS = (
    "type properties required items anyOf allOf not if then enum const pattern patternProperties additionalProperties "
    "unevaluatedProperties $ref $id $schema $anchor multipleOf minimum uniqueItems dependentRequired prefixItems "
    "contains $defs format"
)
keywords = st.sampled_from(KEYWORDS.split())


def _schema(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(keywords, inner | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_size=4)


schemas = st.recursive(st.booleans() | values, _schema, max_leaves=15)


@given(schemas, values)
def test_no_schema_and_no_arguments_raise_anything_but_a_refusal_of_the_schema(schema: Any, arguments: Any) -> None:
    try:
        check = ArgumentValidator(schema)
    except InvalidSchemaError:
        return
    assert isinstance(check.errors(arguments), str)
