"""A chart of rates as inline SVG; the table of the same numbers is its text alternative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from server.evals.report.html.markup import Html, foreign, tag
from server.evals.report.html.parts import table
from server.evals.report.numbers import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Line", "rate_chart"]

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 8, 14, 34

_INSET = 56
# Of the first and the last position, for the points beside it and half of its label.

_APART = 14
# Between two lines at one position, so that equal rates do not hide one another.

_MARKERS: Final = 4
# Styles of lines and shapes of points in the style sheet and below; further lines repeat them.

_MAX_LABELS = 12
# Labels of the horizontal axis that fit beside one another.


@dataclass(frozen=True, slots=True)
class Line:
    """The rates of one arm or set, by position; None where there is none. `intervals` are 95 % intervals."""

    name: str
    rates: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...] = ()


def rate_chart(identifier: str, title: str, labels: Sequence[str], lines: Sequence[Line]) -> Html:
    """Return the chart with its legend and its numbers."""
    best = [f"{line.name}: {', '.join(percent(rate) for rate in line.rates)}" for line in lines]
    drawing = tag(
        "svg",
        tag("title", title, id=f"{identifier}-name"),
        tag("desc", "; ".join(best), id=f"{identifier}-text"),
        *_axes(labels),
        *(
            _drawn(line, place, _offset(place, len(lines), len(labels)), len(labels))
            for place, line in enumerate(lines)
        ),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_labelledby=f"{identifier}-name {identifier}-text",
        class_="chart",
    )
    legend = tag("ul", *(_legend(line, place) for place, line in enumerate(lines)), class_="legend")
    rows = [[label, *(_cell(line, place) for line in lines)] for place, label in enumerate(labels)]
    numbers = tag(
        "details",
        tag("summary", "The chart as a table"),
        table(title, ["Position", *(line.name for line in lines)], rows),
    )
    return tag("figure", tag("figcaption", title), legend, drawing, numbers, id=identifier)


def _cell(line: Line, place: int) -> str:
    interval = line.intervals[place] if line.intervals else None
    shown = f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
    return f"{percent(line.rates[place])}{shown}"


def _x(place: int, places: int) -> float:
    room = _WIDTH - _LEFT - _RIGHT - 2 * _INSET
    return round(_LEFT + _INSET + (room / 2 if places == 1 else room * place / (places - 1)), 1)


def _y(rate: float) -> float:
    return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - rate), 1)


def _axes(labels: Sequence[str]) -> Iterator[Html]:
    for step in range(5):
        rate = step / 4
        yield tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=_y(rate), y2=_y(rate), class_="grid")
        yield tag("text", percent(rate), x=_LEFT - 8, y=_y(rate) + 4, text_anchor="end", class_="tick")
    every = -(-len(labels) // _MAX_LABELS)
    for place in range(0, len(labels), every):
        shown = labels[place] if len(labels[place]) <= len("iteration-100") else f"{labels[place][:11]}…"
        yield foreign("text", shown, x=_x(place, len(labels)), y=_HEIGHT - 10, text_anchor="middle", class_="tick")


def _offset(number: int, lines: int, places: int) -> float:
    """Return how far a line is moved to the side: less where positions are close together."""
    apart = min(_APART, 1.6 * _INSET / max(1, lines - 1), (_WIDTH - _LEFT - _RIGHT) / max(1, places) / (lines + 1))
    return apart * (number - (lines - 1) / 2)


def _drawn(line: Line, number: int, offset: float, places: int) -> Html:
    at = [round(_x(place, places) + offset, 1) for place in range(places)]
    points = [(at[place], _y(rate)) for place, rate in enumerate(line.rates) if rate is not None]
    whiskers = [_whisker(at[place], interval) for place, interval in enumerate(line.intervals) if interval is not None]
    path = tag("polyline", points=" ".join(f"{x},{y}" for x, y in points), class_="line")
    return tag("g", *whiskers, path, *(_marker(x, y, number) for x, y in points), class_=f"series s{number % _MARKERS}")


def _whisker(x: float, interval: tuple[float, float]) -> Html:
    return tag("line", x1=x, x2=x, y1=_y(interval[0]), y2=_y(interval[1]), class_="whisker")


def _marker(x: float, y: float, number: int) -> Html:
    """Return a point whose shape tells the lines apart without colour."""
    match number % _MARKERS:
        case 0:
            return tag("circle", cx=x, cy=y, r=5, class_="point")
        case 1:
            return tag("rect", x=x - 5, y=y - 5, width=10, height=10, class_="point")
        case 2:
            return tag("path", d=f"M{x} {y - 6}L{x + 6} {y + 5}L{x - 6} {y + 5}Z", class_="point")
    return tag("path", d=f"M{x} {y - 7}L{x + 7} {y}L{x} {y + 7}L{x - 7} {y}Z", class_="point")


def _legend(line: Line, number: int) -> Html:
    shape = tag("svg", tag("g", _marker(9, 9, number), class_=f"series s{number % _MARKERS}"), viewBox="0 0 18 18")
    return tag("li", tag("span", shape, class_="key", aria_hidden="true"), foreign("span", line.name))
