"""The cache for the output of scripts, and its limits."""

from __future__ import annotations

from skills_core.scripts import tools as output
from skills_core.scripts.tools import OutputCache, OutputSlice, OutputText


def test_parts_of_a_stream_join_to_the_whole() -> None:
    text = "äöü" * 33
    offset: int | None = 0
    joined = ""
    while offset is not None:
        piece = OutputSlice.of(text, offset, 10)
        joined += piece.text
        offset = piece.next_offset
    assert joined == text


def test_beyond_the_end_there_is_nothing() -> None:
    piece = OutputSlice.of("abc", 100, 10)
    assert (piece.text, piece.total, piece.next_offset) == ("", 3, None)


def test_the_oldest_output_is_evicted_beyond_the_number() -> None:
    kept: OutputCache[OutputText] = OutputCache()
    names = [kept.keep(OutputText(str(number), "")) for number in range(output.MAX_OUTPUTS + 1)]
    assert kept.find(names[0]) is None
    assert kept.find(names[1]) == OutputText("1", "")
    assert len(set(names)) == len(names)


def test_the_oldest_output_is_evicted_beyond_the_size_but_never_the_last() -> None:
    kept: OutputCache[OutputText] = OutputCache()
    large = OutputText("x" * (output.MAX_CHARACTERS // 2 + 1), "")
    first, second = kept.keep(large), kept.keep(large)
    assert kept.find(first) is None
    assert kept.find(second) == large


def test_an_output_expires() -> None:
    now = 0.0
    kept: OutputCache[OutputText] = OutputCache(lambda: now)
    name = kept.keep(OutputText("x", ""))
    now = output.MAX_SECONDS - 1
    assert kept.find(name) == OutputText("x", "")
    now = output.MAX_SECONDS
    assert kept.find(name) is None
