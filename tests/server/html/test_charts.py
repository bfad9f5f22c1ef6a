"""Charts of numbers, and lists in pages."""

from __future__ import annotations

import pytest

from server.html.charts import Counts, draw_bars
from server.html.paging import page_number, paged
from server.html.words import dollars, moment_text


@pytest.mark.parametrize("highest", [0, 1, 3, 4, 5, 99, 100, 101, 12_345, 10**12])
def test_bars_are_stacked_below_the_last_line_of_the_grid(highest: int) -> None:
    chart = draw_bars(["a", "b"], [Counts("one", (highest, 0)), Counts("two", (0, highest))])
    tops = [y for series in chart.series for _, y, _, _ in series.bars]
    highest_line = min(y for y, _ in chart.grid)
    assert all(y >= highest_line for y in tops)
    assert len(tops) == 2 * bool(highest)
    # The lines are whole numbers, each of them once.
    assert len({words for _, words in chart.grid}) == len(chart.grid)


def test_a_part_lies_on_the_one_before_it() -> None:
    chart = draw_bars(["a"], [Counts("one", (2,)), Counts("two", (2,))])
    [[(_, top, _, height)], [(_, next_top, _, next_height)]] = [series.bars for series in chart.series]
    assert next_top + next_height == pytest.approx(top)
    assert height == pytest.approx(next_height)
    assert chart.words == "one: 2; two: 2"


def test_no_bars_and_many_labels_are_drawn() -> None:
    assert draw_bars([], []).series == []
    assert len(draw_bars([str(each) for each in range(365)], []).ticks) <= 12


@pytest.mark.parametrize(
    ("query", "expected"),
    [({}, [0, 1]), ({"page": "3"}, [4]), ({"page": "9"}, [4]), ({"page": "0"}, [0, 1]), ({"page": "²"}, [0, 1])],
)
def test_a_page_beyond_the_last_is_the_last(query: dict[str, str], expected: list[int]) -> None:
    assert paged(range(5), 2, page_number(query), "/x").entries == range(5)[expected[0] : expected[-1] + 1]


def test_links_to_other_pages_keep_what_was_chosen() -> None:
    page = paged(range(5), 2, 2, "/x", {"q": "a&b"})
    assert (page.pages, page.address(1), page.address(3)) == (3, "/x?q=a%26b", "/x?q=a%26b&page=3")
    assert paged([], 2, 1, "/x").address(1) == "/x"


def test_moments_and_prices_in_words() -> None:
    assert moment_text("2026-11-27T10:00:00+02:00") == "2026-11-27 08:00:00 UTC"
    assert moment_text("2026-11-27") == "2026-11-27 00:00:00 UTC"
    assert moment_text("soon") == "soon"
    assert moment_text(None) == dollars(None) == "—"
    assert [dollars(each) for each in (0.0, 0.00281, 1234.5)] == ["$0.00", "$0.0028", "$1,234.50"]
