"""Charts of rates and of numbers, drawn as SVG by the templates `rate_chart` and `bar_chart`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from server.html.words import percent

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 8, 14, 34

_INSET = 56
# Of the first and the last position, for the points beside it and half of its label.

_APART = 14
# Between two lines at one position, so that equal rates do not hide one another.

_STYLES: Final = 4
# Styles of lines in the style sheet, and shapes of points in the template; further lines repeat them.

_MAX_LABELS = 12
# Labels of the horizontal axis that fit beside one another.

_MAX_BAR_LABELS: Final = 7
# The same for bars, with labels such as `11-27` in the large letters of a narrow screen.

_GRID: Final = 4
# Steps of the vertical axis.

_BAR: Final = 0.7
# Of the room of a bar, its width.

MAX_PARTS: Final = _STYLES
"""Parts of a bar that can be told apart."""


@dataclass(frozen=True, slots=True)
class Line:
    """The rates of one arm or set, by position; None where there is none. `intervals` are 95 % intervals."""

    name: str
    rates: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...] = ()


class Series(NamedTuple):
    """A line as it is drawn: its points, and its intervals as (x, y of the low end, y of the high end)."""

    name: str
    style: int
    points: list[tuple[float, float]]
    whiskers: list[tuple[float, float, float]]


class Bars(NamedTuple):
    """The bars of one part as they are drawn: x, y, width and height of each."""

    name: str
    style: int
    bars: list[tuple[float, float, float, float]]


_DrawnT = TypeVar("_DrawnT", Series, Bars)


class Chart(NamedTuple, Generic[_DrawnT]):
    """A chart as it is drawn, with its numbers in `words`. `grid` and `ticks` are the labels of both axes."""

    series: list[_DrawnT]
    words: str
    grid: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT


def draw_chart(labels: Sequence[str], lines: Sequence[Line]) -> Chart[Series]:
    """Return where the parts of the chart of some lines are; the labels are those of the positions."""
    words = [f"{line.name}: {', '.join(percent(rate) for rate in line.rates)}" for line in lines]
    series = [_drawn(line, number, len(lines), len(labels)) for number, line in enumerate(lines)]
    grid = [(_y(step / _GRID), percent(step / _GRID)) for step in range(_GRID + 1)]
    return Chart(series, "; ".join(words), grid, list(_ticks(labels)))


def _ticks(labels: Sequence[str]) -> Iterator[tuple[float, str]]:
    every = -(-len(labels) // _MAX_LABELS) or 1
    for place in range(0, len(labels), every):
        shown = labels[place] if len(labels[place]) <= len("iteration-100") else f"{labels[place][:11]}…"
        yield _x(place, len(labels)), shown


def _drawn(line: Line, number: int, lines: int, places: int) -> Series:
    # Lines are moved to the side, less where positions are close together.
    apart = min(_APART, 1.6 * _INSET / max(1, lines - 1), (_WIDTH - _LEFT - _RIGHT) / max(1, places) / (lines + 1))
    at = [round(_x(place, places) + apart * (number - (lines - 1) / 2), 1) for place in range(places)]
    return Series(
        line.name,
        number % _STYLES,
        [(x, _y(rate)) for x, rate in zip(at, line.rates, strict=True) if rate is not None],
        [(x, _y(ends[0]), _y(ends[1])) for x, ends in zip(at, line.intervals, strict=False) if ends is not None],
    )


def _x(place: int, places: int) -> float:
    room = _WIDTH - _LEFT - _RIGHT - 2 * _INSET
    return round(_LEFT + _INSET + (room / 2 if places == 1 else room * place / (places - 1)), 1)


def _y(rate: float) -> float:
    return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - rate), 1)


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of one part, such as a client, by position."""

    name: str
    values: tuple[int, ...]


def draw_bars(labels: Sequence[str], parts: Sequence[Counts]) -> Chart[Bars]:
    """Return where the bars of some numbers are, the first part at the bottom; the labels are those of the bars."""
    highest = max((sum(each) for each in zip(*(part.values for part in parts), strict=True)), default=0)
    step = _round_step(highest)
    top = step * _GRID
    room = (_WIDTH - _LEFT - _RIGHT) / max(1, len(labels))
    below = [0] * len(labels)
    series: list[Bars] = []
    for number, part in enumerate(parts):
        bars: list[tuple[float, float, float, float]] = []
        for place, value in enumerate(part.values):
            if value:
                begin, end = _y(below[place] / top), _y((below[place] + value) / top)
                left = round(_LEFT + room * (place + (1 - _BAR) / 2), 1)
                bars.append((left, end, round(room * _BAR, 1), round(begin - end, 1)))
            below[place] += value
        series.append(Bars(part.name, number % _STYLES, bars))
    words = "; ".join(f"{part.name}: {sum(part.values):,}" for part in parts)
    grid = [(_y(line / _GRID), f"{line * step:,}") for line in range(_GRID + 1)]
    every = -(-len(labels) // _MAX_BAR_LABELS) or 1
    middle = [(round(_LEFT + room * (place + 0.5), 1), labels[place]) for place in range(0, len(labels), every)]
    return Chart(series, words, grid, middle)


def _round_step(highest: int) -> int:
    """Return the distance of grid lines, 1, 2 or 5 times a power of ten, with which a number fits below the last."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power * _GRID >= highest:
                return digit * power
        power *= 10
