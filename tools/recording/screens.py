"""What a terminal shows during a recording, as a sequence of screens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyte

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Cast", "Run", "Screen", "Style", "read_cast", "screens_of", "write_cast"]

SHORTEST = 0.04
"""Seconds; what follows within this time belongs to the same screen."""


@dataclass(frozen=True, slots=True)
class Cast:
    """What a terminal of this size received, with the time of each part in seconds from the start."""

    columns: int
    rows: int
    events: tuple[tuple[float, str], ...]

    @property
    def seconds(self) -> float:
        """The time of the last part."""
        return self.events[-1][0]


@dataclass(frozen=True, slots=True)
class Style:
    """How characters look; a colour is the name of one of the 16, or six hexadecimal digits."""

    foreground: str
    background: str
    bold: bool
    italic: bool
    underlined: bool


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one style that stand side by side, from a column on."""

    column: int
    width: int
    text: str
    style: Style


@dataclass(frozen=True, slots=True)
class Screen:
    """What the terminal shows from a time on."""

    begin: float
    rows: tuple[tuple[Run, ...], ...]


def write_cast(path: Path, cast: Cast) -> None:
    """Write a recording in the format asciicast 2."""
    head = {"version": 2, "width": cast.columns, "height": cast.rows}
    lines = [head, *([round(begin, 3), "o", text] for begin, text in cast.events)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def read_cast(path: Path) -> Cast:
    """Read a recording in the format asciicast 2."""
    head, *events = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return Cast(head["width"], head["height"], tuple((begin, text) for begin, kind, text in events if kind == "o"))


def screens_of(cast: Cast) -> tuple[Screen, ...]:
    """Return the screens of a recording, each different from the one before."""
    terminal = pyte.Screen(cast.columns, cast.rows)
    stream = pyte.Stream(terminal)
    screens: list[Screen] = []
    for number, (begin, text) in enumerate(cast.events):
        stream.feed(text)
        following = cast.events[number + 1][0] if number + 1 < len(cast.events) else None
        if following is not None and following - begin < SHORTEST:
            continue
        rows = tuple(tuple(_runs(terminal, row)) for row in range(cast.rows))
        if not screens or rows != screens[-1].rows:
            screens.append(Screen(begin, rows))
    return tuple(screens)


def _runs(terminal: pyte.Screen, row: int) -> Iterator[Run]:
    """Yield the runs of a row that can be seen."""
    begin = 0
    styles = [_style(terminal, row, column) for column in range(terminal.columns)]
    texts = [terminal.buffer[row][column].data for column in range(terminal.columns)]
    for column in range(1, terminal.columns + 1):
        if column < terminal.columns and styles[column] == styles[begin]:
            continue
        text, style = "".join(texts[begin:column]), styles[begin]
        if text.strip() or style.background != "default" or style.underlined:
            yield Run(begin, column - begin, text, style)
        begin = column


def _style(terminal: pyte.Screen, row: int, column: int) -> Style:
    cell = terminal.buffer[row][column]
    cursor = terminal.cursor
    has_cursor = not cursor.hidden and (cursor.y, cursor.x) == (row, column)
    colours = (cell.fg, cell.bg)
    if cell.reverse != has_cursor:
        # The default colours take each other's place too.
        colours = (
            "black" if cell.bg == "default" else cell.bg,
            "white" if cell.fg == "default" else cell.fg,
        )
    return Style(*colours, cell.bold, cell.italics, cell.underscore)
