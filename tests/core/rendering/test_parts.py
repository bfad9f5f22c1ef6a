"""Where long texts are cut: parts make up the whole, each fits, and no character, tag or parameter is split."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.rendering.parts import cut_before, end_of_part

WHOLE = [
    "a",
    "é",
    "e\u0301",
    "漢",
    "한",
    "👩\u200d👩\u200d👧",
    "👍🏽",
    "❤\ufe0f",
    "\r\n",
    "<skill_content>",
    '</skill_content name="a b">',
    "{{ format }}",
    "${{ secrets.A }}",
    "&lt;",
    "\\n",
    "\\u003c",
]
"""Characters as readers see them, and what must stay whole."""

pieces = st.lists(st.sampled_from([*WHOLE, " ", "b", ". ", "# ", "\n", "\n\n"]), min_size=1, max_size=300)


def parts_of(text: str, most: int, size: type[int] | None = None) -> list[str]:
    """Cut a text into parts of at most `most` characters, or bytes."""
    parts, start = [], 0
    while start < len(text):

        def fits(end: int, start: int = start) -> bool:
            part = text[start:end]
            return (len(part.encode()) if size else len(part)) <= most

        end = end_of_part(text, start, most, fits)
        assert end > start, "a part is empty"
        parts.append(text[start:end])
        start = end
    return parts


@given(st.text(max_size=200).map(lambda text: text * 20), st.integers(500, 900))
def test_parts_make_up_the_whole_and_each_fits(text: str, most: int) -> None:
    in_characters, in_bytes = parts_of(text, most), parts_of(text.encode("utf-8", "replace").decode(), most, int)
    assert "".join(in_characters) == text
    assert all(len(part) <= most for part in in_characters)
    assert all(len(part.encode()) <= most for part in in_bytes)


@given(pieces, st.integers(60, 200))
def test_no_character_tag_parameter_or_escape_is_split(pieces: list[str], most: int) -> None:
    text = "".join(pieces)
    # Where pieces join to longer characters, such as four regional indicators, the ends of pieces are still allowed.
    ends, position = set(), 0
    for piece in pieces:
        inner = re.finditer(r"(?<=[ \n])", piece) if piece in {". ", "# ", "\n\n"} else ()
        ends |= {position + match.start() for match in inner}
        position += len(piece)
        ends.add(position)
    position = 0
    for part in parts_of(text, most):
        position += len(part)
        assert position in ends, (part, text[position:][:20])


def test_a_part_ends_with_a_paragraph_that_is_near() -> None:
    text = "a" * 75 + "\n\n" + "b" * 20 + "\n" + "c" * 100
    assert text[: cut_before(text, 0, 95)] == "a" * 75 + "\n\n"


def test_a_part_ends_before_a_heading_that_is_near() -> None:
    text = "a" * 70 + "\n## Then\n" + "b" * 10 + "\n" + "c" * 100
    assert text[cut_before(text, 0, 92) :].startswith("## Then")


def test_a_part_may_end_exactly_at_a_paragraph() -> None:
    text = "a" * 50 + "\n\n" + "b" * 50
    assert cut_before(text, 0, 52) == 52


def test_a_part_ends_with_a_line_where_no_paragraph_is_near() -> None:
    text = "a" * 20 + "\n\n" + "b" * 50 + "\n" + "c" * 100
    assert text[: cut_before(text, 0, 95)].endswith("b\n")


def test_a_long_line_is_cut_between_words() -> None:
    assert cut_before("abc def " * 50, 0, 95) == 92


def test_a_long_word_is_cut_between_characters() -> None:
    assert cut_before("a" * 200, 0, 95) == 95
    assert cut_before("e\u0301" * 200, 0, 95) == 94


@pytest.mark.parametrize(
    "text", ["e" + "\u0301" * 5000, "🇩" * 5000, "\u200d" * 5000, "<" * 5000, "{{" * 5000, "\\" * 5000, "&" * 5000]
)
def test_text_that_is_one_endless_character_is_cut_all_the_same(text: str) -> None:
    parts = parts_of(text, 300)
    assert "".join(parts) == text
    assert len(parts) < 60


def test_a_tag_that_does_not_fit_gives_an_empty_part() -> None:
    assert cut_before("a <skill_content> b", 2, 10) == 2


def test_nothing_that_fits_gives_an_empty_part() -> None:
    assert end_of_part("abc", 1, 10, lambda end: end <= 1) == 1
    assert end_of_part("abc", 0, 10, lambda _: False) == 0


def test_a_text_that_fits_has_one_part() -> None:
    assert end_of_part("abc\n\ndef", 0, 10, lambda _: True) == 8
