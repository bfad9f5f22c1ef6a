""""""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Reason, Severity
from skills_core.format.document import Document, has_frontmatter, parse_document, read_lines

HEAD = b"---\nname: a\ndescription: d\n---\n"


def parse(raw: bytes) -> Document:
    return parse_document(raw, "a/SKILL.md")


def errors(document: Document) -> list[tuple[Reason, int | None]]:
    return [(found.code, found.line) for found in document.diagnostics if found.severity is Severity.ERROR]


@pytest.mark.parametrize(
    "raw",
    [
        b"---\nname: a\ndescription: d\n---\nBody\n",
        b"\xef\xbb\xbf---\nname: a\ndescription: d\n---\nBody\n",
        b"---\r\nname: a\r\ndescription: d\r\n---\r\nBody\r\n",
        b"\xef\xbb\xbf---\r\nname: a\r\ndescription: d\r\n---\r\n\r\nBody",
        b"--- \t\nname: a\ndescription: d\n---  \n\n\n  Body  \n\n",
        b"---\n\n# a comment\nname: a\n\ndescription: d\n\n---\nBody",
        b"---\nname: 'a'\ndescription: \"d\"\n---\nBody",
    ],
)
def test_fences_byte_order_mark_and_line_ends_make_no_difference(raw: bytes) -> None:
    document = parse(raw)
    assert (dict(document.fields), document.body) == ({"name": "a", "description": "d"}, "Body")
    assert (document.diagnostics, document.fault, document.verbatim) == ((), None, True)


@pytest.mark.parametrize(
    ("raw", "reason", "line"),
    [
        (b"", Reason.EMPTY, None),
        (b" \r\n\t\n", Reason.EMPTY, None),
        (b"\xef\xbb\xbf", Reason.EMPTY, None),
        (b"# A title\n", Reason.MISSING_FRONTMATTER, 1),
        (b"\n---\nname: a\n---\n", Reason.MISSING_FRONTMATTER, 1),
        (b" ---\nname: a\n---\n", Reason.MISSING_FRONTMATTER, 1),
        (b"----\nname: a\n----\n", Reason.MISSING_FRONTMATTER, 1),
        (b"--- name: a\n---\n", Reason.MISSING_FRONTMATTER, 1),
        (b"---", Reason.UNCLOSED_FRONTMATTER, 1),
        (b"---\nname: a\n", Reason.UNCLOSED_FRONTMATTER, 1),
        (b"---\nname: a\n ---\nBody", Reason.UNCLOSED_FRONTMATTER, 1),
        (b"---\nname: a\n--- x\nBody", Reason.UNCLOSED_FRONTMATTER, 1),
        (b"---\nname: a ---\nBody", Reason.UNCLOSED_FRONTMATTER, 1),
        (b"\xff\xfe-\x00-\x00-\x00", Reason.NOT_UTF8, 1),
        (b"---\nname: caf\xe9\n---\n", Reason.NOT_UTF8, 2),
        (HEAD + b"one\ntwo \xf0\x9f\n", Reason.NOT_UTF8, 6),
        (b"---\n- a\n- b\n---\n", Reason.INVALID_YAML, 0),
        (b"---\n\x00\n---\n", Reason.INVALID_YAML, 0),
    ],
)
def test_an_unusable_document_has_one_error_with_its_line(raw: bytes, reason: Reason, line: int | None) -> None:
    document = parse(raw)
    assert document.fault is reason
    assert [code for code, _ in errors(document)] == [reason]
    assert line == 0 or errors(document) == [(reason, line)]
    assert dict(document.fields) == {}
    assert not document.verbatim


@pytest.mark.parametrize("raw", [b"---\n---\nBody", b"---\r\n---\r\nBody", b"---\n\n---\nBody", b"---\n# x\n---\nBody"])
def test_frontmatter_without_fields_still_ends_at_its_fence(raw: bytes) -> None:
    document = parse(raw)
    assert (dict(document.fields), document.body) == ({}, "Body")


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (HEAD, ""),
        (HEAD[:-1], ""),
        (HEAD + b"\n\n  one\n\n---\ntwo  \n\n", "one\n\n---\ntwo"),
        (HEAD + b"---\n", "---"),
        (HEAD + b"one\r\ntwo\r\n", "one\r\ntwo"),
    ],
)
def test_the_body_is_what_follows_the_closing_fence_trimmed_at_both_ends(raw: bytes, body: str) -> None:
    assert parse(raw).body == body


@pytest.mark.parametrize(
    ("raw", "body"), [(b"# Only text\n", "# Only text\n"), (b"---\n- a\n---\nBody", "Body"), (b"---\n- a\n", "")]
)
def test_the_body_is_kept_if_the_frontmatter_is_unusable(raw: bytes, body: str) -> None:
    assert parse(raw).body == body


@pytest.mark.parametrize(
    ("yaml", "value"),
    [
        ("description: |\n  one\n  two", "one\ntwo\n"),
        ("description: |-\n  one\n  two", "one\ntwo"),
        ("description: |+\n  one\n\n", "one\n\n"),
        ("description: >\n  one\n  two", "one two\n"),
        ("description: |\n  one\n  two\nname: a", "one\ntwo\n"),
    ],
)
def test_a_block_scalar_at_the_end_of_the_frontmatter_reads_as_anywhere_else(yaml: str, value: str) -> None:
    document = parse(f"---\n{yaml}\n---\n".encode())
    assert document.fields["description"] == value
    assert document.verbatim


@pytest.mark.parametrize("value", [".nan", "-.inf", "1e400", "!!binary aGk=", r'"\ud83d"', "{a: 1, a: 2}"])
def test_frontmatter_that_parsers_read_differently_is_diagnosed_and_not_verbatim(value: str) -> None:
    document = parse(f"---\nname: a\nx: {value}\n---\n".encode())
    assert (document.fault, document.verbatim) == (None, False)
    assert [diagnostic.severity for diagnostic in document.diagnostics] == [Severity.WARNING]


@pytest.mark.parametrize("value", ["{1: a}", r'"\ud83d\ude00"', "2026-01-02", "0x10"])
def test_frontmatter_that_all_parsers_read_alike_is_verbatim(value: str) -> None:
    assert parse(f"---\nname: a\nx: {value}\n---\n".encode()).verbatim


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("style", ["|", ">", "|-", ">-"])
def test_a_block_scalar_reads_the_same_with_either_line_end(style: str, end: str) -> None:
    plain = f"---\nname: a\ndescription: {style}\n  one\n  two\n---\nBody\n"
    document = parse(plain.replace("\n", end).encode())
    assert document.fields == parse(plain.encode()).fields
    assert (document.fault, document.verbatim) == (None, True)


@pytest.mark.parametrize(
    ("lines", "value", "line"),
    [
        ("description: Use when: the user asks", "Use when: the user asks", 3),
        ("description: Use when:\n  the user: asks\n  twice: over", "Use when: the user: asks twice: over", 3),
        ("description: | Does a thing", "| Does a thing", 3),
        ("description: @mention first", "@mention first", 3),
        ("description: `code` first", "`code` first", 3),
        ("description: [never closed", "[never closed", 3),
        ("description: % of users", "% of users", 3),
        ('description: "quoted" and then not', '"quoted" and then not', 3),
        ("description: say \\ and: this", "say \\ and: this", 3),
        ("version: '1'\ndescription: a: b", "a: b", 4),
        ("\n# why\ndescription: a: b", "a: b", 5),
    ],
)
def test_a_value_that_is_not_valid_yaml_is_repaired_with_a_diagnostic(lines: str, value: str, line: int) -> None:
    document = parse(f"---\nname: a\n{lines}\nlicense: MIT\n---\nBody".encode())
    assert document.fields["description"] == value
    assert (document.fields["license"], document.body, document.verbatim) == ("MIT", "Body", False)
    assert [(found.severity, found.code, found.line) for found in document.diagnostics] == [
        (Severity.WARNING, Reason.YAML_REPAIRED, line)
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("rule", ["", "\n---\n\nmore: text\n", "\n---\n"])
@pytest.mark.parametrize(("fence", "body"), [("---# Title", "# Title"), ("---Title", "Title"), ("------", "---")])
def test_a_closing_fence_followed_by_text_ends_the_frontmatter(fence: str, body: str, rule: str, end: str) -> None:
    raw = f"---\nname: a\ntags: [x, y]\n{fence}\n\nDo: it - [\n{rule}".replace("\n", end)
    document = parse(raw.encode())
    assert document.fields == {"name": "a", "tags": ["x", "y"]}
    assert document.body == f"{body}\n\nDo: it - [\n{rule}".replace("\n", end).strip()
    assert (document.fault, document.verbatim) == (None, False)
    assert [(found.severity, found.code, found.line) for found in document.diagnostics] == [
        (Severity.WARNING, Reason.YAML_REPAIRED, 4)
    ]


def test_three_dashes_in_a_value_close_nothing() -> None:
    document = parse(b"---\nname: a\ndescription: |\n  one\n  ---two\n---\nBody\n---# three\n---\n")
    assert (document.fields["description"], document.body) == ("one\n---two\n", "Body\n---# three\n---")
    assert (document.diagnostics, document.verbatim) == ((), True)


def test_a_line_of_dashes_without_yaml_before_it_is_no_fence() -> None:
    document = parse(b"---\nname: a\n\n# Title\n\nSome: [text\n-----\n")
    assert document.fault is Reason.UNCLOSED_FRONTMATTER


def test_a_repair_works_with_carriage_returns_and_keeps_the_lines_of_what_follows() -> None:
    document = parse(b"---\r\nname: a\r\ndescription: Use: it\r\n  or: not\r\nlicense: MIT\r\n---\r\nBody\r\n")
    assert document.fields == {"name": "a", "description": "Use: it or: not", "license": "MIT"}
    assert document.lines["license"] == 5


def test_two_broken_values_are_both_repaired() -> None:
    document = parse(b"---\nname: a: b\ndescription: c: d\n---\n")
    assert document.fields == {"name": "a: b", "description": "c: d"}


@pytest.mark.parametrize("prefix", ["", "\ufeff"])
def test_lines_of_fields_are_lines_of_the_file(prefix: str) -> None:
    document = parse(f"{prefix}---\nname: a\n\n# note\ndescription: d\nmetadata:\n  x: y\ntags: [t]\n---\n".encode())
    assert document.lines == {"name": 2, "description": 5, "metadata": 6, "tags": 8}


PIECES = "--- \n \r\n name:·a description:· | > :· -· [ { &a· *a !!binary· ' \" \ufeff"
PIECES += " \t ·· \x00 \u2028 <<:· ?· 1e999 .nan 2020-01-01 é 😀"
PARTS = st.sampled_from([*PIECES.replace("·", "\u00a0").split(" "), "0x" + "f" * 40]).map(
    lambda piece: piece.replace("\u00a0", " ")
)


@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=300).map(lambda raw: b"---\n" + raw + b"\n---\nBody"),
        st.lists(PARTS, max_size=30).map(lambda parts: "".join(parts).encode()),
        st.lists(PARTS, max_size=30).map(lambda parts: ("---\n" + "".join(parts) + "\n---\n").encode()),
    )
)
def test_no_bytes_raise_and_all_fields_are_json(raw: bytes) -> None:
    document = parse(raw)
    again = json.dumps(document.fields, allow_nan=False).encode("utf-8")
    assert json.loads(again) == document.fields
    assert set(document.lines) <= set(document.fields)
    assert (document.fault is None) == (not errors(document))
    document.body.encode("utf-8")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_frontmatter_between_stars_is_read_with_a_warning(mark: bytes, end: str) -> None:
    text = "***\nname: a\ndescription: d\nversion: 1.0.0\n***\n\nYou are now a reviewer.\n\n***\n\nMore.\n"
    document = parse(mark + text.replace("\n", end).encode())
    assert dict(document.fields) == {"name": "a", "description": "d", "version": "1.0.0"}
    assert document.body.splitlines()[0] == "You are now a reviewer."
    assert [(found.severity, found.code, found.line) for found in document.diagnostics] == [
        (Severity.WARNING, Reason.STAR_FENCES, 1)
    ]
    assert (document.lines["description"], document.verbatim) == (3, False)


def test_frontmatter_between_stars_is_repaired_as_any_other() -> None:
    document = parse(b"***\nname: a\ndescription: Use when: asked\n***\nBody")
    assert document.fields["description"] == "Use when: asked"
    assert [found.code for found in document.diagnostics] == [Reason.STAR_FENCES, Reason.YAML_REPAIRED]


@pytest.mark.parametrize(
    "text",
    [
        "***\n\nA quotation.\n\n***\n",
        "***\nNote: a thematic break, and another\n***\n",
        "***\nname: a\ndescription: d\n",
        "***\nname: a\ndescription: d\n---\n",
        "***\n***\n",
        "****\nname: a\n****\n",
    ],
)
def test_a_thematic_break_is_not_a_fence(text: str) -> None:
    assert parse(text.encode()).fault is Reason.MISSING_FRONTMATTER
    assert not has_frontmatter(text.encode())


TEXT = """\
name: a
steps:
  - kind: x
    deep:
      list: [1,
        2]
  - plain
base: &b
  one: 1
again: *b
"""


def test_each_field_and_each_item_has_the_line_where_it_begins() -> None:
    assert {path: line for path, line in read_lines(TEXT).items() if path} == {
        "name": 1,
        "steps": 2,
        "steps[0]": 3,
        "steps[0].kind": 3,
        "steps[0].deep": 4,
        "steps[0].deep.list": 5,
        "steps[0].deep.list[0]": 5,
        "steps[0].deep.list[1]": 6,
        "steps[1]": 7,
        "base": 8,
        "base.one": 9,
        "again": 10,
    }
