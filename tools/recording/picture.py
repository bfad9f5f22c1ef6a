"""Screens of a terminal as one animated SVG, which needs no script, no font and no other file."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.recording.screens import Run, Screen, Style

__all__ = ["svg_of"]

WIDTH, HEIGHT, SIZE, BASELINE = 8.4, 18, 14, 13.5
"""Of a character, in pixels."""

FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"

MARGIN = 14

REST = 4.0
"""Seconds for which the last screen stays."""

FOREGROUND, BACKGROUND, EDGE = "#d7dae0", "#16191f", "#4a505c"

COLOURS = {
    "black": BACKGROUND,
    "red": "#f27a84",
    "green": "#8fcf7a",
    "brown": "#e3c078",
    "blue": "#74b3f5",
    "magenta": "#d08ce6",
    "cyan": "#64c4d0",
    "white": FOREGROUND,
    "brightblack": "#8a919e",
    "brightred": "#ff9aa2",
    "brightgreen": "#aee49b",
    "brightbrown": "#f5d79a",
    "brightblue": "#9accff",
    "brightmagenta": "#e4adf5",
    "brightcyan": "#8adfea",
    "brightwhite": "#ffffff",
}
"""The names are those of pyte, which calls yellow brown."""


def svg_of(screens: Sequence[Screen], columns: int, rows: int, title: str) -> str:
    """Return a picture that plays the screens again and again.

    The screens stand below each other, and one animation moves them past a window. Where nothing is animated, the
    window shows the first screen; to a viewer who asked for reduced motion it shows the last one.
    """
    distinct = dict.fromkeys(row for screen in screens for row in screen.rows)
    unique = {row: number for number, row in enumerate(distinct)}
    width, height = columns * WIDTH, rows * HEIGHT
    seconds = screens[-1].begin - screens[0].begin + REST
    shown = (width + 2 * MARGIN, height + 2 * MARGIN)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {shown[0]:g} {shown[1]:g}" '
        f'width="{shown[0]:g}" height="{shown[1]:g}" role="img">'
    )
    edge = f'width="{shown[0] - 1:g}" height="{shown[1] - 1:g}" rx="8" fill="{BACKGROUND}" stroke="{EDGE}"'
    lines = (
        head,
        f"<title>{escape(title)}</title>",
        f"<style>\n{_style_sheet(screens, height, seconds)}</style>",
        "<defs>",
        *(f'<g id="r{number}">{"".join(map(_run, row))}</g>' for row, number in unique.items() if row),
        "</defs>",
        f'<rect x=".5" y=".5" {edge}/>',
        f'<svg x="{MARGIN}" y="{MARGIN}" width="{width:g}" height="{height:g}">',
        '<g class="film">',
        *(f"<g>{''.join(_rows(screen, unique, number * height))}</g>" for number, screen in enumerate(screens)),
        "</g>\n</svg>\n</svg>\n",
    )
    return "\n".join(lines)


def _style_sheet(screens: Sequence[Screen], height: int, seconds: float) -> str:
    begin = screens[0].begin
    last = (len(screens) - 1) * height
    keys = "".join(
        f"{(screen.begin - begin) / seconds:.3%}{{transform:translateY({-number * height}px)}}\n"
        for number, screen in enumerate(screens)
    )
    return (
        f"text{{font:{SIZE}px {FONTS};"
        f"fill:{FOREGROUND};white-space:pre}}\n"
        f".film{{animation:film {seconds:.2f}s step-end infinite}}\n"
        f"@keyframes film{{\n{keys}100%{{transform:translateY({-last}px)}}\n}}\n"
        f"@media(prefers-reduced-motion:reduce){{.film{{animation:none;transform:translateY({-last}px)}}}}\n"
    )


def _rows(screen: Screen, unique: dict[tuple[Run, ...], int], top: int) -> Iterator[str]:
    for number, row in enumerate(screen.rows):
        if row:
            yield f'<use href="#r{unique[row]}" y="{top + number * HEIGHT}"/>'


def _run(run: Run) -> str:
    x, width = run.column * WIDTH, run.width * WIDTH
    back = ""
    if run.style.background != "default":
        back = f'<rect x="{x:g}" width="{width:g}" height="{HEIGHT}" fill="{_colour(run.style.background)}"/>'
    text = run.text.rstrip()
    if not text:
        return back
    indent = len(text) - len(text.lstrip())
    cells = run.width - (len(run.text) - len(text)) - indent
    # Each font has to keep the grid of the terminal.
    grid = f'x="{(run.column + indent) * WIDTH:g}" y="{BASELINE:g}" textLength="{cells * WIDTH:g}" '
    look = f'lengthAdjust="spacingAndGlyphs"{_look(run.style)}'
    return f"{back}<text {grid}{look}>{escape(text.lstrip(), quote=False)}</text>"


def _look(style: Style) -> str:
    parts = (
        f"fill:{_colour(style.foreground)}" if style.foreground != "default" else "",
        "font-weight:bold" if style.bold else "",
        "font-style:italic" if style.italic else "",
        "text-decoration:underline" if style.underlined else "",
    )
    look = ";".join(filter(None, parts))
    return f' style="{look}"' if look else ""


def _colour(name: str) -> str:
    return COLOURS.get(name, f"#{name}")
