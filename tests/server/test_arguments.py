"""The arguments of a call are held against the schema that its tool is listed with, before anything is done."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.arguments import _IS, check_arguments
from server.config import OptionalTool, Settings
from server.environment import current_environment
from server.faults import InvalidRequestError
from server.listing.offer import Room
from server.listing.snapshot import Snapshot
from server.run.declared_calls import DeclaredCalls
from skills_core import Library, explicit_sources
from tests.conftest import MakeSkill
from tests.server.sessions import Connect, ConnectHosted

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
        ({"name": "a", "offset": "1"}, "offset must be a whole number, from 0 on"),
        ({"name": "a", "tags": {}}, "tags must be a list of strings"),
    ],
)
def test_what_does_not_fit_is_answered_with_what_was_expected(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        check_arguments("tool", arguments, SCHEMA)


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
def test_what_fits_passes_and_a_null_is_no_argument(arguments: dict[str, Any]) -> None:
    check_arguments("tool", arguments, SCHEMA)


@given(st.dictionaries(st.sampled_from(sorted(VALUES)) | st.text(max_size=8), JSON, max_size=4))
def test_any_arguments_pass_or_are_told_of(arguments: dict[str, Any]) -> None:
    known = all(name in VALUES for name in arguments)
    try:
        check_arguments("tool", arguments, SCHEMA)
    except InvalidRequestError:
        return
    assert known
    assert isinstance(arguments["name"], str)


def test_every_tool_of_ours_forbids_unknown_arguments_and_has_types_that_are_checked(
    skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    settings = Settings(tools=tuple(OptionalTool))
    library = Library(explicit_sources([skills]), current_environment)
    listed = Snapshot(library.catalog, settings).tools(Room(1000))["tools"]
    assert len(listed) > 5
    for tool in listed:
        schema = tool["inputSchema"]
        assert schema["additionalProperties"] is False, tool["name"]
        assert {each["type"] for each in schema["properties"].values()} <= _IS.keys(), tool["name"]


async def test_a_call_with_an_unknown_argument_does_nothing_and_says_so(
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


async def test_a_declared_tool_whose_skill_goes_while_it_is_called_is_an_unknown_tool(
    make_skill: MakeSkill, skills: Path, in_memory: ConnectHosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jsonschema")
    make_skill("other")
    folder = make_skill("numbers", fields=DECLARED, files={"double.py": b"print(1)"})
    async with in_memory(skills, watch=False, skill_tools=("numbers/*",)) as session:
        assert "numbers__double" in {tool.name for tool in (await session.client.list_tools()).tools}

        def gone(_: DeclaredCalls) -> None:
            shutil.rmtree(folder)
            session.host.library.reload()

        monkeypatch.setattr(DeclaredCalls, "_opened", gone)
        result = await session.client.call_tool("numbers__double", {"n": 1})
        assert result.is_error
        assert "Unknown tool: numbers__double" in result.content[0].text
