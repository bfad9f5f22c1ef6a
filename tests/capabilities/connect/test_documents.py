from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.connect import jsonc
from server.capabilities.connect.documents import (
    DocumentError,
    DocumentFormat,
    read_document,
    with_entry,
    without_entry,
)

JSON, TOML, YAML = DocumentFormat.JSON, DocumentFormat.TOML, DocumentFormat.YAML
ENTRY: dict[str, Any] = {"command": "/bin/skillserve", "args": ["serve", "/a b"], "env": {"A": "1"}}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)

COMMENTED = """{
  // mine
  "mcpServers": {
    "a": {"command": "x"}, // about a
  },
  /* and so on */
  "z": [1, 2,],
}
"""
WINDOWS = COMMENTED.replace("\n", "\r\n")
ONE_LINE = '{ "mcpServers": {"a": {}}, "z": 1 }'
TABS = '{\n\t"mcpServers": {\n\t\t"a": {}\n\t}\n}'
CODEX = """# mine
model = "x"

[mcp_servers.other]
command = "y" # about other

[mcp_servers.other.env]
B = "2"

[zz]
a = 1
"""
GOOSE = """# mine
extensions:
  dev:
    enabled: true # about dev
    type: builtin

# about the rest
other: 1
"""
CONTINUE = """name: me
mcpServers:
  - name: a
    command: x # about a
models:
  - m
"""
FLAT = CONTINUE.replace("\n  ", "\n")


@pytest.mark.parametrize(
    ("text", "kind", "holder"),
    [
        (COMMENTED, JSON, "mcpServers"),
        (WINDOWS, JSON, "mcpServers"),
        (ONE_LINE, JSON, "mcpServers"),
        (TABS, JSON, "mcpServers"),
        (CODEX, TOML, "mcp_servers"),
        (CODEX.rstrip("\n"), TOML, "mcp_servers"),
        (GOOSE, YAML, "extensions"),
        (CONTINUE, YAML, "mcpServers"),
    ],
)
def test_what_is_added_and_removed_again_leaves_every_byte_as_it_was(
    text: str, kind: DocumentFormat, holder: str
) -> None:
    path = (holder, "skills")
    entry = {"name": "skills", **ENTRY} if text is CONTINUE else ENTRY
    in_list = text is CONTINUE
    added = with_entry(text, kind, path, entry, in_list=in_list)
    assert added != text
    assert without_entry(added, kind, path).rstrip("\n") == text.rstrip("\n")
    # An entry is replaced by the next one, in its place or at the end.
    assert read_document(with_entry(added, kind, path, entry, in_list=in_list), kind) == read_document(added, kind)


@pytest.mark.parametrize(("text", "kind"), [(COMMENTED, JSON), (CODEX, TOML), (GOOSE, YAML)])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_line_ends_stay(text: str, kind: DocumentFormat, mark: str, end: str) -> None:
    holder = {JSON: "mcpServers", TOML: "mcp_servers", YAML: "extensions"}[kind]
    before = mark + text.replace("\n", end)
    added = with_entry(before, kind, (holder, "skills"), ENTRY)
    assert added.startswith(mark)
    assert added.count("\n") == added.count(end)
    assert without_entry(added, kind, (holder, "skills")) == before


NESTED = "# mine\nmcp:\n  # about servers\n  servers:\n    a:\n      command: x\n  other: 1\nz: 2\n"


@pytest.mark.parametrize("text", [NESTED, "mcp:\n  servers:\n    a: {}\n", "mcp:\n  other: 1\n", "z: 1\n", ""])
def test_an_entry_deep_in_yaml_leaves_every_byte_as_it_was(text: str) -> None:
    path = ("mcp", "servers", "skills")
    added = with_entry(text, YAML, path, ENTRY)
    assert read_document(added, YAML)["mcp"]["servers"]["skills"] == ENTRY
    left = without_entry(added, YAML, path, drops_empty="servers:" not in text)
    assert left.rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        ('{"a": 1}', JSON, ("mcp", "servers", "skills")),
        ('{\n  // mine\n  "a": 1\n}\n', JSON, ("mcpServers", "skills")),
        ("a = 1\n", TOML, ("mcp_servers", "skills")),
        ("a: 1\n", YAML, ("extensions", "skills")),
    ],
)
def test_tables_that_were_added_go_too(text: str, kind: DocumentFormat, path: tuple[str, ...]) -> None:
    assert without_entry(with_entry(text, kind, path, ENTRY), kind, path, drops_empty=True) == text


def test_the_error_of_a_broken_file_quotes_none_of_its_lines() -> None:
    with pytest.raises(DocumentError) as caught:
        read_document("token: s3cret\na: [\n", YAML)
    assert "line 3" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_comment_stays_with_what_it_is_about() -> None:
    assert '"a": {"command": "x"}, // about a\n    "skills": {' in with_entry(
        COMMENTED, JSON, ("mcpServers", "skills"), ENTRY
    )
    assert "    type: builtin\n  skills:\n" in with_entry(GOOSE, YAML, ("extensions", "skills"), ENTRY)


@pytest.mark.parametrize("kind", DocumentFormat)
@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_becomes_one_with_the_entry(text: str, kind: DocumentFormat) -> None:
    assert read_document(with_entry(text, kind, ("servers", "skills"), ENTRY), kind) == {"servers": {"skills": ENTRY}}


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.sampled_from([None, 1, 2, "\t"]), st.text(min_size=1))
def test_an_entry_is_all_that_differs_in_any_json(document: dict[str, Any], indent: int | str | None, key: str) -> None:
    text = json.dumps(document, indent=indent)
    if key in document and not isinstance(document[key], dict):
        with pytest.raises(DocumentError, match="expected a table"):
            with_entry(text, JSON, (key, "skills"), ENTRY)
        return
    added = with_entry(text, JSON, (key, "skills"), ENTRY)
    assert json.loads(added) == {**document, key: {**document.get(key, {}), "skills": ENTRY}}
    left = {name: value for name, value in document.get(key, {}).items() if name != "skills"}
    assert json.loads(without_entry(added, JSON, (key, "skills"))) == {**document, key: left}


@given(VALUES, st.sampled_from([None, 2]))
def test_json_is_read_as_the_standard_library_reads_it(value: object, indent: int | None) -> None:
    assert jsonc.load(json.dumps(value, indent=indent)) == value


@given(st.text(max_size=60))
def test_a_text_is_json_with_comments_or_an_error(text: str) -> None:
    try:
        jsonc.load(text)
    except jsonc.JsoncError:
        with pytest.raises(ValueError):  # noqa: PT011 - of any message
            json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.text(st.characters(exclude_categories=["Cs"])),
        max_size=3,
    )
)
def test_texts_are_quoted_as_toml_and_yaml_want_them(env: dict[str, str]) -> None:
    entry = {"command": "x", "env": env}
    for kind, read in ((TOML, tomllib.loads), (YAML, yaml.safe_load)):
        assert read(with_entry("", kind, ("servers", "skills"), entry)) == {"servers": {"skills": entry}}


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("{ x", JSON, "line 1, column 3: expected a key in double quotes"),
        ("[1]", JSON, "expected a table at the top"),
        ('{"servers": 1}', JSON, "line 1: servers: expected a table, not a number"),
        ("{}{}", JSON, "expected the end of the file"),
        ('{"a": ' * 300, JSON, "nested more than"),
        ("a = ", TOML, "this is not valid TOML"),
        ("# x\nservers = 1", TOML, "line 2: servers: expected a table, not a number"),
        ("servers: {a: 1}", YAML, "cannot be edited here"),
        ("a: [", YAML, "this is not valid YAML"),
        ("- a", YAML, "expected a table at the top"),
        ('{"servers": {"skills": {}, "skills": {}}}', JSON, "line 1, column 28: skills is there twice"),
        ("servers:\n  a: {}\nservers:\n  b: {}\n", YAML, "line 3: servers is there twice"),
        ("[servers]\n[servers]", TOML, "this is not valid TOML"),
        ("a: 1\nservers:\n- a\n", YAML, "line 2: servers: expected a table, not a list"),
        ("a = 1\n[[servers]]\na = 1", TOML, "line 2: servers: expected a table, not a list"),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused_with_the_place(text: str, kind: DocumentFormat, told: str) -> None:
    with pytest.raises(DocumentError, match=told):
        with_entry(text, kind, ("servers", "skills"), ENTRY)
