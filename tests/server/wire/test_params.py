"""Arguments are checked against the input schema of the tool before the call has any effect."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.scripts.declared_tools import DeclaredToolHandler
from server.clients.known import ADDED_ARGUMENTS, without_additions
from server.config.machine import current_environment
from server.config.settings.tools import OptionalTool
from server.listing.layout import ListingLayout
from server.listing.snapshot import Snapshot
from server.wire.params import _IS, InvalidRequestError, read_arguments
from skills_core import Library, explicit_sources
from tests.conftest import MakeSkill
from tests.server.sessions import Connect, ConnectHosted
from tests.server.settings import make_settings

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
        "force": {"type": "boolean"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 9},
        "offset": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"name": "a", "argument": {}},
            "'argument'; it takes name, arguments, force, limit, offset, tags. Did you mean 'a",
        ),
        ({"nam": "a"}, "has no argument 'nam'; it takes name, arguments, .* Did you mean 'name'"),
        ({"skill": "a"}, "Did you mean 'name'"),
        ({"name": "a", "vars": {"x": "y"}}, "Did you mean 'arguments'"),
        ({"name": "a", "zzz": None}, "has no argument 'zzz'; it takes [a-z, ]*\\.$"),
        ({}, "name is missing; the call has nothing"),
        ({"limit": 1}, "name is missing; the call has limit"),
        ({"name": None}, "name is missing"),
        ({"name": 1}, "name must be a string"),
        ({"name": "a", "arguments": "x=y"}, "arguments must be an object of strings, such as"),
        ({"name": "a", "force": "yes"}, "force must be true or false"),
        ({"name": "a", "limit": True}, "limit must be a whole number from 1 to 9"),
        ({"name": "a", "offset": "one"}, "offset must be a whole number, from 0 on"),
        ({"name": "a", "offset": 1.5}, "offset must be a whole number, from 0 on"),
        ({"name": "a", "offset": math.inf}, "offset must be a whole number, from 0 on"),
        ({"name": "a", "offset": "1.5"}, "offset must be a whole number, from 0 on"),
        ({"name": "a", "offset": "true"}, "offset must be a whole number, from 0 on"),
        ({"name": "a", "arguments": '["x"]'}, "arguments must be an object of strings, such as"),
        ({"name": "a", "arguments": '{"x": NaN}'}, "arguments must be an object of strings, such as"),
        ({"name": "a", "arguments": '{"x":' * 101 + "1" + "}" * 101}, "arguments must be an object of strings"),
        ({"name": "a", "arguments": '{"x":' * 100_000}, "arguments must be an object of strings, such as"),
        ({"name": "a", "tags": {}}, "tags must be a list of strings"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_with_what_was_expected(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        read_arguments("tool", arguments, SCHEMA)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": st.text(),
    "arguments": st.dictionaries(st.text(), st.text()),
    "force": st.booleans(),
    "limit": st.integers(),
    "offset": st.integers(),
    "tags": st.lists(st.text()),
}
JSON: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()) | st.just({})
)


OPTIONAL = {name: st.none() | values for name, values in VALUES.items() if name != "name"}


@given(st.fixed_dictionaries({"name": VALUES["name"]}, optional=OPTIONAL))
def test_valid_arguments_pass_unchanged_and_null_counts_as_missing(arguments: dict[str, Any]) -> None:
    given = {name: value for name, value in arguments.items() if value is not None}
    assert read_arguments("tool", arguments, SCHEMA) == given


@given(st.fixed_dictionaries({"name": VALUES["name"]}, optional=OPTIONAL))
def test_a_value_may_be_given_as_a_string_of_its_json(arguments: dict[str, Any]) -> None:
    texts = {name: value if name == "name" or value is None else json.dumps(value) for name, value in arguments.items()}
    assert read_arguments("tool", texts, SCHEMA) == read_arguments("tool", arguments, SCHEMA)


@given(st.integers(-(2**53), 2**53))
def test_an_integer_may_be_written_as_a_float(number: int) -> None:
    found = read_arguments("tool", {"name": "5.0", "limit": float(number)}, SCHEMA)
    assert found == {"name": "5.0", "limit": number}
    assert isinstance(found["limit"], int)


def test_a_lone_surrogate_in_a_string_of_json_is_replaced() -> None:
    found = read_arguments("tool", {"name": "a", "arguments": r'{"x": "\ud83d"}'}, SCHEMA)
    assert found["arguments"] == {"x": "\ufffd"}


@given(st.dictionaries(st.sampled_from(sorted(VALUES)) | st.text(max_size=8), JSON, max_size=4))
def test_any_arguments_are_accepted_or_refused_by_name(arguments: dict[str, Any]) -> None:
    known = all(name in VALUES for name in arguments)
    try:
        found = read_arguments("tool", arguments, SCHEMA)
    except InvalidRequestError:
        return
    assert known
    assert isinstance(arguments["name"], str)
    assert all(_IS[SCHEMA["properties"][name]["type"]](value) for name, value in found.items())


@pytest.mark.parametrize("added", ADDED_ARGUMENTS)
def test_an_extra_field_of_clients_is_ignored_unless_the_tool_has_such_an_argument(added: str) -> None:
    assert without_additions({"name": "a", added: "x", "zzz": 1}, SCHEMA) == {"name": "a", "zzz": 1}
    own = {"type": "object", "properties": {added: {"type": "string"}}}
    assert without_additions({added: "x"}, own) == {added: "x"}


async def test_calls_as_clients_send_them_are_answered(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("one", body="Use {{format}}.", files={"a.md": b"a"})
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("find_skills", {"query": "one", "limit": 1.0, "tags": None}, "one: "),
        ("find_skills", {"query": "one", "limit": None, "tags": "[]", "wait_for_previous": False}, "one: "),
        ("read_skill_file", {"skill": "one", "path": "a.md", "toolCallId": "call_1"}, "a"),
        ("activate_skill", {"name": "one", "arguments": '{"format": "csv"}'}, "Use csv."),
        ("activate_skill", {"name": "one", "arguments": {"format": None}, "have": None}, "without a value: format"),
    ]
    async with connect() as session:
        for tool, arguments, told in calls:
            result = await session.client.call_tool(tool, arguments)
            assert not result.is_error, result
            assert told in result.content[0].text


def test_every_own_tool_forbids_unknown_arguments_and_uses_checked_types(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    settings = make_settings(tools=tuple(OptionalTool))
    library = Library(explicit_sources([skills]), current_environment)
    listed = Snapshot(library.catalog, settings).tools(ListingLayout(1000))["tools"]
    assert len(listed) > 5
    for tool in listed:
        schema = tool["inputSchema"]
        assert schema["additionalProperties"] is False, tool["name"]
        assert {each["type"] for each in schema["properties"].values()} <= _IS.keys(), tool["name"]


async def test_a_call_with_an_unknown_argument_is_refused_before_it_has_any_effect(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("one", files={"a.md": b"a"})
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("activate_skill", {"name": "one", "parameters": {"a": "b"}}, "Did you mean 'arguments'?"),
        ("read_skill_file", {"name": "one", "path": "a.md"}, "Did you mean 'skill'?"),
        ("find_skills", {"q": "one"}, "Did you mean 'query'?"),
    ]
    async with connect() as session:
        for tool, arguments, told in calls:
            result = await session.client.call_tool(tool, arguments)
            assert result.is_error
            assert told in result.content[0].text


DECLARED = """tools:
- name: double
  description: Doubles a number.
  script: double.py
  parameters: {type: object, properties: {n: {type: integer}}, required: [n]}
"""


async def test_a_declared_tool_is_unknown_if_its_skill_disappears_during_the_call(
    make_skill: MakeSkill, skills: Path, in_memory: ConnectHosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jsonschema")
    make_skill("other")
    folder = make_skill("numbers", fields=DECLARED, files={"double.py": b"print(1)"})
    async with in_memory(skills, watch=False, skill_tools=("numbers/*",)) as session:
        assert "numbers__double" in {tool.name for tool in (await session.client.list_tools()).tools}

        def gone(_: DeclaredToolHandler) -> None:
            shutil.rmtree(folder)
            session.host.library.reload()

        monkeypatch.setattr(DeclaredToolHandler, "_opened", gone)
        result = await session.client.call_tool("numbers__double", {"n": 1})
        assert result.is_error
        assert "Unknown tool: numbers__double" in result.content[0].text
