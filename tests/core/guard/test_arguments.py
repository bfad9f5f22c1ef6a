"""ECMAScript's JSON.stringify: the expected texts of the tables are Node's answers, see also conformance."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skills_core
from skills_core.errors import NestedTooDeepError
from skills_core.format.yaml12 import JsonValue
from skills_core.guard.guard import MAX_DEPTH, json_text

TEXTS = st.text(st.characters(codec=None, categories=None) | st.sampled_from('"\\\n\x7f\u2028\ud83d\ude00'))
NUMBERS = (
    st.integers(-(10**30), 10**30)
    | st.floats()
    | st.integers(0, 2**64 - 1).map(lambda bits: float(struct.unpack("<d", struct.pack("<Q", bits))[0]))
)
KEYS = TEXTS | st.integers(-2, 20).map(str) | st.integers(2**32 - 4, 2**32 + 4).map(str) | st.just("__proto__")
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=8),
    max_leaves=30,
)


def nested(levels: int, *, objects: bool = False) -> JsonValue:
    value: JsonValue = {} if objects else []
    for _ in range(levels - 1):
        value = {"a": value} if objects else [value]
    return value


def parsed(value: JsonValue) -> JsonValue:
    """Give what JavaScript has of a value: doubles, null for those that JSON lacks, characters for pairs."""
    if isinstance(value, list):
        return [parsed(each) for each in value]
    if isinstance(value, dict):
        return {joined(key): parsed(each) for key, each in value.items()}
    if isinstance(value, str):
        return joined(value)
    if value is None or isinstance(value, bool):
        return value
    try:
        return float(value) + 0.0 if math.isfinite(value) else None
    except OverflowError:
        return None


def joined(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


class TestNumbersAreDoublesInTheFewestDigits:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-7, "-7"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (100.0, "100"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123456789.123e-15, "1.23456789123e-7"),
        ],
    )
    def test_a_whole_number_has_no_point_and_zero_no_sign(self, value: float, text: str) -> None:
        assert json_text(value) == text

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (2**53, "9007199254740992"),
            (2**53 + 1, "9007199254740992"),
            (2**53 + 3, "9007199254740996"),
            (-(2**53) - 1, "-9007199254740992"),
            (2**64, "18446744073709552000"),
            (123456789012345678901, "123456789012345680000"),
        ],
    )
    def test_an_integer_that_no_double_is_becomes_the_nearest_one(self, value: int, text: str) -> None:
        assert json_text(value) == text

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1e-6, "0.000001"),
            (-1.5e-6, "-0.0000015"),
            (1.2345678901234567e-5, "0.000012345678901234568"),
            (9.99e-7, "9.99e-7"),
            (1e-7, "1e-7"),
            (-1e-10, "-1e-10"),
            (5e-324, "5e-324"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (12345678901234567.0, "12345678901234568"),
            (-1e20, "-100000000000000000000"),
            (999999999999999900000.0, "999999999999999900000"),
            (1e21, "1e+21"),
            (10**21, "1e+21"),
            (-1.5e21, "-1.5e+21"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
        ],
    )
    def test_the_exponent_begins_below_a_millionth_and_at_1e21(self, value: float, text: str) -> None:
        assert json_text(value) == text

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400), 2**1024 - 2**970])
    def test_numbers_beyond_all_doubles_become_null(self, value: float) -> None:
        assert json_text([value]) == "[null]"

    def test_the_largest_integer_that_rounds_to_a_double_is_that_double(self) -> None:
        assert json_text(2**1024 - 2**970 - 1) == "1.7976931348623157e+308"

    def test_true_and_false_are_no_numbers(self) -> None:
        assert json_text([True, 1, False, 0, None]) == "[true,1,false,0,null]"


class TestStringsEscapeAsLittleAsTheyMust:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("", '""'),
            ('say "a\\b"', r'"say \"a\\b\""'),
            ("\b\t\n\f\r", r'"\b\t\n\f\r"'),
            ("\x00\x0b\x1b\x1f", r'"\u0000\u000b\u001b\u001f"'),
        ],
    )
    def test_quotes_backslashes_and_controls_are_escaped(self, value: str, text: str) -> None:
        assert json_text(value) == text

    @pytest.mark.parametrize(
        "value", [" ", "/", "'", "<&>", "\x7f", "\x80", "é", "\u2028\u2029", "\ufeff", "\uffff", "😀"]
    )
    def test_all_other_characters_stand_as_they_are(self, value: str) -> None:
        assert json_text(value) == f'"{value}"'

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("\ud800", r'"\ud800"'),
            ("\udfff", r'"\udfff"'),
            ("a\udabcb", r'"a\udabcb"'),
            ("\ude00\ud83d", r'"\ude00\ud83d"'),
            ("\ud83d\ude00", '"😀"'),
            ("\udbff\udfff", '"\U0010ffff"'),
            ("\ud83d\ud83d\ude00\ude00", r'"\ud83d😀\ude00"'),
            ("\ud83d😀\ude00", r'"\ud83d😀\ude00"'),
            ("\\\ud83d\n\ude00", r'"\\\ud83d\n\ude00"'),
        ],
    )
    def test_surrogates_are_one_character_in_a_pair_and_escaped_alone(self, value: str, text: str) -> None:
        assert json_text(value) == text
        assert json_text({value: value}) == f"{{{text}:{text}}}"

    def test_an_escape_that_the_string_spells_out_is_no_surrogate(self) -> None:
        assert json_text(r"\ud83d\ude00") == r'"\\ud83d\\ude00"'


class TestObjectsHaveTheirArrayIndicesFirst:
    @pytest.mark.parametrize(
        ("keys", "order"),
        [
            (["b", "a"], ["b", "a"]),
            (["b", "10", "a", "9", "0"], ["0", "9", "10", "b", "a"]),
            (["4294967295", "b", "4294967294", "1"], ["1", "4294967294", "4294967295", "b"]),
            (["b", "4294967295"], ["b", "4294967295"]),
            (["99999999999", "4294967296", "2"], ["2", "99999999999", "4294967296"]),
            (
                ["01", "-1", "1.5", "1e3", "+1", " 1", "1\n", "", "1"],
                ["1", "01", "-1", "1.5", "1e3", "+1", " 1", "1\n", ""],
            ),
            (["٣", "²", "3"], ["3", "٣", "²"]),
            (
                ["__proto__", "toString", "toJSON", "constructor", "1"],
                ["1", "__proto__", "toString", "toJSON", "constructor"],
            ),
        ],
    )
    def test_the_order_of_keys(self, keys: list[str], order: list[str]) -> None:
        assert list(json.loads(json_text(dict.fromkeys(keys)))) == order

    def test_each_key_keeps_its_value_at_every_level(self) -> None:
        value: JsonValue = {"z": [{"b": 1, "2": {"y": 2, "1": 3}}], "0": "first"}
        assert json_text(value) == '{"0":"first","z":[{"2":{"1":3,"y":2},"b":1}]}'

    def test_keys_that_differ_in_python_alone_are_one_with_the_last_value(self) -> None:
        assert json_text({"\ud83d\ude00": 1, "a": 2, "😀": 3}) == '{"😀":3,"a":2}'


class TestStructureHasNoBlanks:
    @pytest.mark.parametrize("text", ["[]", "{}", "[[]]", "[{}]", '{"":{}}', '[[],[[]],{"a":[]}]', '[1,"a",null,true]'])
    def test_what_javascript_wrote_stays_as_it_is(self, text: str) -> None:
        assert json_text(json.loads(text)) == text


class TestDepthIsBounded:
    @pytest.mark.parametrize("objects", [False, True])
    def test_the_maximum_depth_is_accepted(self, *, objects: bool) -> None:
        opening, closing = ('{"a":', "}") if objects else ("[", "]")
        inner = "{}" if objects else "[]"
        expected = opening * (MAX_DEPTH - 1) + inner + closing * (MAX_DEPTH - 1)
        assert json_text(nested(MAX_DEPTH, objects=objects)) == expected

    @pytest.mark.parametrize("objects", [False, True])
    @pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
    def test_more_levels_raise_the_documented_error(self, levels: int, *, objects: bool) -> None:
        value = nested(levels, objects=objects)
        with pytest.raises(NestedTooDeepError, match="deeper than 200 levels") as caught:
            json_text(["beside", value] if levels > MAX_DEPTH + 1 else value)
        assert caught.value.limit == MAX_DEPTH

    def test_values_beside_each_other_count_once(self) -> None:
        deep = nested(MAX_DEPTH - 1)
        assert json_text([deep, deep]) == f"[{json_text(deep)},{json_text(deep)}]"


class TestAnyValue:
    @given(VALUES)
    def test_reads_back_as_the_value_that_javascript_has(self, value: JsonValue) -> None:
        read = parsed(json.loads(json_text(value)))
        # As text, for Python has 1.0 and true for equal.
        assert json.dumps(read, sort_keys=True) == json.dumps(parsed(value), sort_keys=True)

    @given(VALUES)
    def test_has_a_text_that_does_not_change_when_it_is_read_and_written_again(self, value: JsonValue) -> None:
        text = json_text(value)
        assert json_text(json.loads(text)) == text

    @given(VALUES)
    def test_has_a_text_on_one_line_that_is_valid_utf_8(self, value: JsonValue) -> None:
        text = json_text(value)
        assert text.encode("utf-8").decode("utf-8") == text
        assert not any(char < " " for char in text)

    @given(st.dictionaries(KEYS, st.none(), max_size=20))
    def test_has_indices_ascending_and_then_its_own_order(self, value: dict[str, JsonValue]) -> None:
        keys = list(json.loads(json_text(value)))
        indices = [
            key for key in keys if key.isdecimal() and key.isascii() and str(int(key)) == key and int(key) < 2**32 - 1
        ]
        assert keys[: len(indices)] == sorted(indices, key=int)
        assert keys[len(indices) :] == [key for key in dict.fromkeys(map(joined, value)) if key not in indices]


def test_the_module_has_only_light_imports() -> None:
    program = (
        "import sys, types, pathlib\n"
        "package = types.ModuleType('skills_core')\n"
        "package.__path__ = [sys.argv[1]]\n"
        "sys.modules['skills_core'] = package\n"
        "from skills_core.guard.guard import json_text\n"
        "print(json_text({'a': 1.0}), *{'pydantic', 'yaml', 'asyncio', 'typing_extensions'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *skills_core.__path__], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == '{"a":1}'
