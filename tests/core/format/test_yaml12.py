"""YAML 1.2 core, as npm `yaml` 2.9.1 reads it: the expected values of the tables are that package's answers.

Every test runs on libyaml and on PyYAML's own parser.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core.format import yaml12
from skills_core.format.yaml12 import JsonValue, YamlError, YamlFault, YamlMapping, YamlNoteKind, load_mapping
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHARACTERS = 262_144
REPLACEMENT = "\ufffd"


@pytest.fixture(scope="module", params=["libyaml", "python"], autouse=True)
def _parser(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(yaml12, "_new_parser", yaml.SafeLoader)
        yield


def value_of(text: str) -> JsonValue:
    """Return the value of `a`, the only field of a text, as JSON."""
    mapping = load_mapping(text)
    assert list(mapping.value) == ["a"]
    json_of(mapping)
    return mapping.value["a"]


def json_of(mapping: YamlMapping) -> bytes:
    return json.dumps(mapping.value, ensure_ascii=False, allow_nan=False).encode("utf-8")


def refusal_of(text: str) -> YamlError:
    with pytest.raises(YamlError) as caught:
        load_mapping(text)
    return caught.value


def note_kinds(mapping: YamlMapping) -> list[tuple[YamlNoteKind, int]]:
    return [(note.kind, note.line) for note in mapping.notes]


class TestPlainScalarsResolveByTheCoreSchema:
    @pytest.mark.parametrize("text", ["null", "Null", "NULL", "~", "", "# a comment"])
    def test_null(self, text: str) -> None:
        assert value_of(f"a: {text}") is None

    @pytest.mark.parametrize(
        ("text", "value"),
        [("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False), ("FALSE", False)],
    )
    def test_booleans(self, text: str, value: bool) -> None:  # noqa: FBT001
        assert value_of(f"a: {text}") is value

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("0", 0),
            ("-1", -1),
            ("+12", 12),
            ("010", 10),
            ("-007", -7),
            ("0o17", 15),
            ("0x1F", 31),
            ("0xdeadbeef", 3_735_928_559),
            ("9007199254740993", 9_007_199_254_740_993),
            ("0" * 5_000 + "7", 7),
        ],
    )
    def test_integers(self, text: str, value: int) -> None:
        assert (value_of(f"a: {text}"), type(value_of(f"a: {text}"))) == (value, int)

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("1.5", 1.5),
            ("-0.25", -0.25),
            ("+.5", 0.5),
            (".5", 0.5),
            ("1.", 1.0),
            ("1.0", 1.0),
            ("1e3", 1000.0),
            ("1.e5", 100_000.0),
            ("-12E-1", -1.2),
            ("0" * 5_000 + ".5", 0.5),
        ],
    )
    def test_floats(self, text: str, value: float) -> None:
        assert (value_of(f"a: {text}"), type(value_of(f"a: {text}"))) == (value, float)

    @pytest.mark.parametrize(
        "text",
        [
            *("yes", "Yes", "no", "on", "off", "y", "n", "tRUE", "nULL", "none", "None"),
            *("1_000", "1:30", "12:30:45", "0b1", "0o8", "0xg", "-0o17", "+0x1", "0O17", "0X1F"),
            *("2001-12-14", "2001-12-14t21:59:43.10-05:00", "1.2.3", "1e", "e3", ".", "..", "+", "-.", "1e1.5"),
            *("+.nan", "-.nan", ".iNF", "inf", "nan", "Infinity", "=", "<<", "٣", "1\u00a0", "a#b", "http://a.b:80/c"),
        ],
    )
    def test_everything_else_is_a_string(self, text: str) -> None:
        assert value_of(f"a: {text}") == text

    @pytest.mark.parametrize("text", ["1", "true", "null", "~", "", "1.5", ".nan", "0x1F"])
    def test_quoted_and_block_scalars_are_strings(self, text: str) -> None:
        assert (value_of(f"a: '{text}'"), value_of(f'a: "{text}"')) == (text, text)
        assert value_of(f"a: |-\n  {text}") == text

    def test_resolution_reaches_into_collections(self) -> None:
        assert value_of("a: [yes, 010, {b: 1e3}, ~, '1']") == ["yes", 10, {"b": 1000.0}, None, "1"]
        assert value_of("a: [b: 1, c]") == [{"b": 1}, "c"]

    def test_a_merge_key_is_an_ordinary_key(self) -> None:
        assert value_of("a:\n  <<: {b: 1}\n  c: 2") == {"<<": {"b": 1}, "c": 2}


class TestNumbersThatJsonLacks:
    @pytest.mark.parametrize(
        "text",
        [
            *(".inf", "-.INF", "+.Inf", ".nan", ".NaN", ".NAN", "1e400", "-1e400"),
            *("9" * 400, "-" + "9" * 200_000, "0x1" + "0" * 256, "0o1" + "0" * 400),
        ],
    )
    def test_are_null_with_a_note(self, text: str) -> None:
        mapping = load_mapping(f"b: 1\na: {text}")
        assert (mapping.value["a"], note_kinds(mapping)) == (None, [(YamlNoteKind.NON_FINITE_NUMBER, 2)])

    def test_integers_that_fit_a_double_stay_exact(self) -> None:
        assert value_of(f"a: {10**308 + 1}") == 10**308 + 1
        assert value_of(f"a: -{10**308 + 1}") == -(10**308) - 1


class TestExplicitTags:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("!!str 12", "12"),
            ("!!str", ""),
            ("!<tag:yaml.org,2002:str> 12", "12"),
            ("! 12", "12"),
            ("! [12]", [12]),
            ('!!int "0x1F"', 31),
            ("!!float '1.5'", 1.5),
            ('!!bool "true"', True),
            ("!!null ''", None),
            ("!!map {b: 1}", {"b": 1}),
            ("!!seq [1]", [1]),
        ],
    )
    def test_of_the_core_schema_are_honoured(self, text: str, value: JsonValue) -> None:
        assert value_of(f"a: {text}") == value

    @pytest.mark.parametrize(
        "text",
        [
            *("!!python/object/apply:os.system [ls]", "!!python/name:os.system x", "!!python/none", "!foo bar"),
            *("!foo {b: 1}", "!foo [1]", "!!set {b, c}", "!!omap [b: 1]", "!!pairs [b: 1]", "!!merge x"),
            *("!!timestamp 2001-12-14", "!!int foo", "!!int 1e3", "!!float 1", "!!bool yes", "!!null foo"),
            *("!!str [b]", "!!map x", "!!map [b]", "!!seq {b: 1}", "!!seq x", "!" + "x" * 300 + " y"),
        ],
    )
    def test_that_do_not_fit_are_refused_with_their_place(self, text: str) -> None:
        error = refusal_of(f"b: 1\na: {text}")
        assert (error.fault, error.line, error.column) == (YamlFault.UNSUPPORTED_TAG, 2, 4)

    def test_binary_stays_base64_with_a_note(self) -> None:
        mapping = load_mapping("b: 1\na: !!binary |\n  aGVs\n  bG8=\n")
        assert (mapping.value["a"], note_kinds(mapping)) == ("aGVsbG8=", [(YamlNoteKind.BINARY, 2)])


class TestKeys:
    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("1", "1"),
            ("0x10", "16"),
            ("-0", "0"),
            ("1.0", "1"),
            ("1.50", "1.5"),
            ("1e21", "1e+21"),
            ("1e20", "100000000000000000000"),
            ("1e-6", "0.000001"),
            ("1e-7", "1e-7"),
            ("-2.5e-10", "-2.5e-10"),
            ("12345678901234567890", "12345678901234567000"),
            ("true", "true"),
            ("False", "false"),
            ("null", ""),
            ("~", ""),
            (".nan", "NaN"),
            (".inf", "Infinity"),
            ("-.inf", "-Infinity"),
            ("9" * 400, "Infinity"),
        ],
    )
    def test_that_are_no_strings_are_named_as_in_javascript_with_a_note(self, text: str, key: str) -> None:
        mapping = load_mapping(f"{text}: x")
        assert (mapping.value, mapping.lines) == ({key: "x"}, {key: 1})
        assert note_kinds(mapping) == [(YamlNoteKind.NON_STRING_KEY, 1)]

    @pytest.mark.parametrize("text", ["'1'", '"1"', "!!str 1", "! 1"])
    def test_that_are_strings_need_no_note(self, text: str) -> None:
        assert load_mapping(f"{text}: x") == YamlMapping({"1": "x"}, {"1": 1}, ())

    @pytest.mark.parametrize("text", ["a: {{name}}", "[a, b]: x", "? {a: b}\n: x", "a: &b [c]\n*b : d"])
    def test_that_are_collections_are_refused(self, text: str) -> None:
        assert refusal_of(text).fault is YamlFault.SYNTAX

    def test_without_a_value_have_null(self) -> None:
        assert value_of("? a") is None
        assert value_of("{a}") is None

    def test_of_the_top_level_know_their_lines(self) -> None:
        mapping = load_mapping("# one\na: |\n  x\n\n  y\n'b':\n  c: 1\n? d\n: e\n")
        assert mapping.lines == {"a": 2, "b": 6, "d": 8}

    def test_that_repeat_keep_the_last_value_with_a_note_at_any_depth(self) -> None:
        mapping = load_mapping("a: 1\nb:\n  - {c: 1, c: 2}\na: 3\n1: x\n'1': y")
        assert mapping.value == {"a": 3, "b": [{"c": 2}], "1": "y"}
        assert mapping.lines == {"a": 4, "b": 2, "1": 6}
        assert note_kinds(mapping) == [
            (YamlNoteKind.DUPLICATE_KEY, 3),
            (YamlNoteKind.DUPLICATE_KEY, 4),
            (YamlNoteKind.NON_STRING_KEY, 5),
            (YamlNoteKind.DUPLICATE_KEY, 6),
        ]


class TestAliases:
    def test_stand_for_the_last_node_of_their_name(self) -> None:
        mapping = load_mapping("a: &x 1\nb: *x\nc: &x [2]\nd: [*x, *x]")
        assert mapping.value == {"a": 1, "b": 1, "c": [2], "d": [[2], [2]]}

    def test_see_an_anchor_inside_the_node_that_shares_its_name(self) -> None:
        assert value_of("a: [&x [&x 1, *x], *x]") == [[1, 1], 1]

    def test_can_be_keys(self) -> None:
        assert load_mapping("&x a: 1\nb: {*x : 2}\n").value == {"a": 1, "b": {"a": 2}}

    def test_of_a_number_that_json_lacks_are_null_too(self) -> None:
        mapping = load_mapping("a: &x .inf\nb: *x")
        assert mapping.value == {"a": None, "b": None}
        assert note_kinds(mapping) == [(YamlNoteKind.NON_FINITE_NUMBER, 1), (YamlNoteKind.NON_FINITE_NUMBER, 2)]

    def test_of_nothing_are_refused(self) -> None:
        error = refusal_of("a: 1\nb: *nothing")
        assert (error.fault, error.line, error.column) == (YamlFault.SYNTAX, 2, 4)

    @pytest.mark.parametrize("text", ["a: &x [*x]", "&x a: &y {b: [*y]}", "a: &x\n  b:\n    c: *x", "&x\na: *x"])
    def test_inside_their_own_node_are_refused(self, text: str) -> None:
        assert refusal_of(text).fault is YamlFault.TOO_DEEP


class TestBounds:
    def test_length(self) -> None:
        longest = "a: " + "x" * (MAX_CHARACTERS - 3)
        assert value_of(longest) == "x" * (MAX_CHARACTERS - 3)
        assert refusal_of(longest + "x").fault is YamlFault.TOO_LARGE

    def test_depth_in_brackets(self) -> None:
        assert json.dumps(value_of("a: " + "[" * 64 + "]" * 64)).count("[") == 64
        error = refusal_of("a: " + "[" * 65 + "]" * 65)
        assert (error.fault, error.line, error.column) == (YamlFault.TOO_DEEP, 1, 68)

    def test_depth_in_blocks(self) -> None:
        rows = [" " * depth + "a:" for depth in range(66)]
        load_mapping("\n".join(rows[:65]))
        assert refusal_of("\n".join(rows)).fault is YamlFault.TOO_DEEP

    def test_depth_through_aliases(self) -> None:
        text = "a: &x " + "[" * 32 + "]" * 32 + "\nb: &y " + "[" * 16 + "*x" + "]" * 16
        load_mapping(f"{text}\nc: " + "[" * 16 + "*y" + "]" * 16)
        assert refusal_of(f"{text}\nc: " + "[" * 17 + "*y" + "]" * 17).fault is YamlFault.TOO_DEEP

    @pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a:\n  " + "- " * 100_000, "a: " + "[a: " * 60_000])
    def test_depth_beyond_any_stack(self, text: str) -> None:
        assert refusal_of(text).fault is YamlFault.TOO_DEEP

    def test_number_of_nodes_with_keys_and_collections(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(yaml12, "MAX_NODES", 100)
        assert value_of("a: [" + "1," * 97 + "]") == [1] * 97
        assert refusal_of("a: [" + "1," * 98 + "]").fault is YamlFault.TOO_MANY_NODES
        assert refusal_of("a: {" + "b: 1," * 49 + "}").fault is YamlFault.TOO_MANY_NODES

    def test_number_of_nodes_with_aliases_expanded(self) -> None:
        text = "a: &x [" + "1," * 99 + "]\nb: ["
        assert load_mapping(text + "*x," * 498 + "]").value["b"] == [[1] * 99] * 498
        assert refusal_of(text + "*x," * 499 + "]").fault is YamlFault.TOO_MANY_NODES

    def test_an_alias_bomb_is_never_expanded(self) -> None:
        rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        rows += [f"a{i}: &a{i} [" + f"*a{i - 1}, " * 9 + "]" for i in range(1, 60)]
        error = refusal_of("\n".join(rows))
        assert (error.fault, error.line) == (YamlFault.TOO_MANY_NODES, 5)

    def test_aliases_of_a_long_string_count_by_its_length(self) -> None:
        text = "a: &x " + "y" * 100_000 + "\nb: ["
        assert len(json_of(load_mapping(text + "*x," * 10 + "]"))) > 1_000_000
        assert refusal_of(text + "*x," * 1_000 + "]").fault is YamlFault.TOO_MANY_NODES


class TestDocuments:
    @pytest.mark.parametrize("text", ["", " ", "\n\n", "# only\n# comments", "\ufeff", "---", "--- # nothing", "~"])
    def test_without_content_are_no_mapping(self, text: str) -> None:
        assert refusal_of(text).fault is YamlFault.NOT_A_MAPPING

    @pytest.mark.parametrize("text", ["# one\n\n- a\n", "\n\n[a]", "\n\njust text", "\n\n'a: b'", "\n\n|\n  a: b"])
    def test_that_are_no_mapping_say_where(self, text: str) -> None:
        error = refusal_of(text)
        assert (error.fault, error.line) == (YamlFault.NOT_A_MAPPING, 3)

    @pytest.mark.parametrize("text", ["---\na: 1", "a: 1\n...", "--- {a: 1}\n...\n", "%YAML 1.2\n---\na: 1"])
    def test_may_have_markers(self, text: str) -> None:
        assert value_of(text) == 1

    @pytest.mark.parametrize("text", ["a: 1\n---\n", "a: 1\n---\nb: 2", "# x\n---\na: 1\n...\n---\nb: 2"])
    def test_are_one_to_a_text(self, text: str) -> None:
        error = refusal_of(text)
        assert (error.fault, error.line) == (YamlFault.SYNTAX, text.count("\n", 0, text.rindex("---")) + 1)

    def test_do_not_change_the_schema_by_a_directive(self) -> None:
        assert value_of("%YAML 1.1\n---\na: [yes, 010, 1:30, 2001-12-14]") == ["yes", 10, "1:30", "2001-12-14"]

    @pytest.mark.parametrize(
        ("text", "line"),
        [("a: b: c", 1), ("a: 1\nb: 'x", 3), ("a: 1\nb: [1, 2\n", 3), ("a: 1\nb: @x", 2), ("a: 1\n\tb: 2", 2)],
    )
    def test_that_are_no_yaml_say_where_in_one_short_line(self, text: str, line: int) -> None:
        error = refusal_of(text)
        assert (error.fault, error.line) == (YamlFault.SYNTAX, line)
        assert str(error) == f"line {line}: {error.message}"
        assert 0 < len(error.message) <= 200
        assert "\n" not in error.message


class TestBlockScalars:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("a: |\n  x\n  y\n", "x\ny\n"),
            ("a: |-\n  x\n  y\n", "x\ny"),
            ("a: |+\n  x\n\n", "x\n\n"),
            ("a: >\n  x\n  y\n\n  z\n", "x y\nz\n"),
            ("a: >-\n  x\n    y\n  z\n", "x\n  y\nz"),
            ("a: |2\n   x\n", " x\n"),
            ("a: |\r\n  x\r\n  y\r\n", "x\ny\n"),
            ("a: |\n  x\n    \n  y\n", "x\n  \ny\n"),
            ("a: |", ""),
        ],
    )
    def test_fold_and_chomp(self, text: str, value: str) -> None:
        assert value_of(text) == value

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("a: |\n  x", "x\n"),
            ("a: >\n  x\n  y", "x y\n"),
            ("a: |+\n  x", "x\n"),
            ("a: |-\n  x", "x"),
            ("a: >-\n  x", "x"),
            ("a: |\n  x\n  ", "x\n"),
            ("a: |\n  x\n    ", "x\n  \n"),
            ("a: |\r\n  x", "x\n"),
        ],
    )
    def test_end_in_a_line_break_even_where_the_text_ends_first(self, text: str, value: str) -> None:
        assert value_of(text) == value


class TestIndentation:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ('a: "x\n  y"', "x y"),
            ("a: 'x\n\n y'", "x\ny"),
            ('a: "x\r\n\r\n y"\r\n', "x\ny"),
            ("a: [\n  x,\n  y\n]", ["x", "y"]),
            ("a: {\n  b: 'x\n y',\n# a comment\n \n }", {"b": "x y"}),
            ("{\na: 'x\ny'\n}", "x y"),
            ("a:\n- 'x\n y'", ["x y"]),
            ("a: !!map\n  b: &c 'x\n   y'", {"b": "x y"}),
        ],
    )
    def test_deeper_than_the_key_continues_quotes_and_brackets(self, text: str, value: JsonValue) -> None:
        assert value_of(text) == value

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ('a: "x\ny"', (2, 1)),
            ("a: 'x\n\n  y\nz'", (4, 1)),
            ('a: "x\n\ty"', (2, 1)),
            ("a:\n  b: 'x\n  y'", (3, 3)),
            ("a:\n  - b: 'x\n    y'", (3, 5)),
            ("a: [\nx\n]", (2, 1)),
            ("a: [\n  [x\n]]", (3, 1)),
            ("a:\n  b: [\n  x]", (3, 3)),
            ("a:\n  b: {\n c: d }", (3, 2)),
        ],
    )
    def test_no_deeper_than_the_key_is_refused(self, text: str, place: tuple[int, int]) -> None:
        error = refusal_of(text)
        assert (error.fault, error.line, error.column) == (YamlFault.SYNTAX, *place)


class TestCharacters:
    @pytest.mark.parametrize(
        "text", ["é", "日本語", "😀", "👩\u200d👩", "a\u00a0b", "\ue000", "\U0010fffd", "a\u00adb"]
    )
    def test_that_print_are_kept(self, text: str) -> None:
        assert load_mapping(f"{text}: {text}").value == {text: text}

    @pytest.mark.parametrize("character", [*map(chr, range(0x7F, 0xA0)), *"\u2028\u2029\ufeff\ufffe\uffff"])
    def test_that_pyyaml_would_refuse_or_break_lines_at_are_kept(self, character: str) -> None:
        text = f"x{character}y"
        assert load_mapping(f"{text}: '{text}'\nb: |\n  {text}\n{character}c: 1").value == {
            text: text,
            "b": f"{text}\n",
            f"{character}c": 1,
        }

    @pytest.mark.parametrize("character", [*map(chr, range(9)), *"\x0b\x0c\x0e\x1b\x1f\ud800\udfff", "\r"])
    def test_that_yaml_forbids_are_refused_with_their_place(self, character: str) -> None:
        error = refusal_of(f"a: 1\r\nb: 'x{character}y'")
        assert (error.fault, error.line, error.column) == (YamlFault.SYNTAX, 2, 6)

    def test_a_byte_order_mark_may_come_first(self) -> None:
        assert load_mapping("\ufeffa: 1\nb: 2") == YamlMapping({"a": 1, "b": 2}, {"a": 1, "b": 2}, ())

    def test_line_ends_of_windows_make_no_difference(self) -> None:
        text = "a: 1\nb:\n  - x\n  - 'y\n    z'\n"
        assert load_mapping(text.replace("\n", "\r\n")) == load_mapping(text)

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            (r"\ud83d\ude00", "😀"),
            (r"\uD83D\uDE00 \ud83d\ude01", "😀 😁"),
            (r"\U0001f600\u00e9\x41\/\t\0", "😀éA/\t\0"),
            (r"\ud800", REPLACEMENT),
            (r"x\ude00\ud83dy", f"x{REPLACEMENT}{REPLACEMENT}y"),
            (r"\ud800\ud83d\ude00", f"{REPLACEMENT}😀"),
            (r"\U0000d83d\ude00", "😀"),
            (r"\\ud83d", r"\ud83d"),
        ],
    )
    def test_escapes_of_surrogates_join_or_are_replaced(self, text: str, value: str) -> None:
        assert load_mapping(f'"{text}": "{text}"').value == {value: value}

    @pytest.mark.parametrize("text", [r"\ud83d\ude00", r"C:\uDfff", r"\U0000d83d"])
    def test_outside_double_quotes_a_backslash_is_a_backslash(self, text: str) -> None:
        assert load_mapping(f"a: {text}\nb: '{text}'\nc: |\n  {text}").value == {"a": text, "b": text, "c": f"{text}\n"}

    def test_private_characters_of_the_text_are_not_taken_for_ours(self) -> None:
        text = "".join(map(chr, range(0xE000, 0xE080))) + r" \ue080 \uE081 e082 "
        assert value_of(f"a: '{text}\u2028'") == f"{text}\u2028"
        assert value_of(f'a: "{text}\\ud83d\\ude00"').endswith(" \ue080 \ue081 e082 😀")  # type: ignore[union-attr]

    def test_a_text_that_leaves_no_private_character_is_refused(self) -> None:
        text = "".join(map(chr, range(0xE000, 0xF900)))
        assert value_of(f"a: {text}") == text
        assert refusal_of(f"a: {text}\u2028").fault is YamlFault.SYNTAX

    @pytest.mark.parametrize("text", [r"\UFFFFFFFF", r"\U00110000", r"\xg0", r"\q", r"\ud8"])
    def test_escapes_of_nothing_are_refused(self, text: str) -> None:
        assert refusal_of(f'a: "{text}"').fault is YamlFault.SYNTAX


def test_a_typical_frontmatter_reads_as_written() -> None:
    text = (
        "name: pdf-forms\n"
        "description: >-\n"
        "  Fill PDF forms: text, boxes and signatures.\n"
        "  Use when the user has a form.\n"
        "license: Apache-2.0 # see LICENSE\n"
        "allowed-tools: Bash(git:*) Read\n"
        "user-invocable: yes\n"
        "version: 1.10\n"
        "metadata:\n"
        "  {\n"
        '    "openclaw": { "emoji": "\\ud83d\\udcc4", "requires": { "bins": ["qpdf"] }, },\n'
        "  }\n"
        "tags:\n"
        "- pdf\n"
        "- 2024-01-31\n"
    )
    assert load_mapping(text) == YamlMapping(
        {
            "name": "pdf-forms",
            "description": "Fill PDF forms: text, boxes and signatures. Use when the user has a form.",
            "license": "Apache-2.0",
            "allowed-tools": "Bash(git:*) Read",
            "user-invocable": "yes",
            "version": 1.1,
            "metadata": {"openclaw": {"emoji": "📄", "requires": {"bins": ["qpdf"]}}},
            "tags": ["pdf", "2024-01-31"],
        },
        {
            "name": 1,
            "description": 2,
            "license": 5,
            "allowed-tools": 6,
            "user-invocable": 7,
            "version": 8,
            "metadata": 9,
            "tags": 13,
        },
        (),
    )


def test_without_libyaml_the_parser_is_that_of_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml._yaml", None)
    spec = importlib.util.spec_from_file_location("yaml12_without_libyaml", yaml12.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert module._new_parser is yaml.SafeLoader
    assert module.load_mapping("a: yes").value == {"a": "yes"}


KEYS = st.text(max_size=40)
"""Short: libyaml refuses an implicit key of more than 1,024 characters, as YAML does outside of flow mappings."""
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    LEAVES | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
LAYOUTS = st.sampled_from(
    [
        {"ensure_ascii": True},
        {"ensure_ascii": False},
        {"ensure_ascii": True, "indent": 2},
        {"ensure_ascii": False, "separators": (",", ":")},
    ]
)


@settings(deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=5), LAYOUTS)
def test_json_is_yaml(value: dict[str, JsonValue], layout: dict[str, object]) -> None:
    mapping = load_mapping(json.dumps(value, **layout))  # type: ignore[arg-type]
    assert json.dumps(mapping.value) == json.dumps(value)
    assert (set(mapping.lines), mapping.notes) == (set(value), ())


ANY_TEXT = st.text(st.characters(exclude_categories=()))
PIECES = st.sampled_from(
    [
        *("a", "b: ", ": ", "- ", "? ", "\n", "\n  ", "\r\n", "\t", " ", "[", "]", "{", "}", ","),
        *("&x ", "*x", "&x [*x]", "!!str ", "! ", "!!binary ", "!x ", "!!python/name:a "),
        *("|", ">-", "|+\n", '"', "'", "\\", r"\ud800", "#", " # c", "---", "...", "%YAML 1.1\n", "@", "`", "%"),
        *("1", "0x", ".nan", "~", "true", "<<", "=", "é", "😀", "\u2028", "\x85", "\ufeff", "\ue000"),
    ]
)
NEAR_YAML = st.lists(PIECES | ANY_TEXT, max_size=30).map("".join)


@settings(deadline=None, max_examples=examples(150))
@given(ANY_TEXT | NEAR_YAML | NEAR_YAML.map("a: {}".format))
def test_any_text_gives_json_or_a_refusal(text: str) -> None:
    refusal, mapping = None, None
    try:
        mapping = load_mapping(text)
    except YamlError as error:
        refusal = error
    if refusal is not None:
        assert refusal.message.splitlines() == [refusal.message]
        assert refusal.message.encode("utf-8")
        assert refusal.line is None or 1 <= refusal.line <= text.count("\n") + 2
    if mapping is not None:
        assert json.loads(json_of(mapping)) == mapping.value
        assert set(mapping.lines) == set(mapping.value)
