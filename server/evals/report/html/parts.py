"""Pieces that several sections of the page use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.evals.report.html.markup import Child, Html, foreign, join, tag
from server.evals.report.model import Tone

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from server.evals.report.model import ShownVerdict

__all__ = ["arm_name", "badge", "facts", "listed", "scrolled", "section", "table", "text_block", "verdict_box"]

_MARKS = {Tone.GOOD: "✓", Tone.BAD: "✗", Tone.MIXED: "±", Tone.NONE: "?"}

_LONG_CELL = 150
# Characters of markup from which a cell gets a wider column.


def arm_name(arm: str) -> str:
    """Return an arm as people read it."""
    return arm.replace("_", " ")


def section(identifier: str, title: str, *children: Child) -> Html:
    """Return a section of the page with its heading."""
    heading = tag("h2", title, id=f"{identifier}-title")
    return tag("section", heading, *children, id=identifier, aria_labelledby=f"{identifier}-title")


def badge(kind: str, words: str) -> Html:
    """Return a short outcome, told by its words and not by its colour alone."""
    return tag("span", words, class_=f"badge {kind}")


def verdict_box(verdict: ShownVerdict) -> Html:
    """Return a verdict with its reasons."""
    word = badge(verdict.tone.value, f"{_MARKS[verdict.tone]} {verdict.title}")
    return tag("p", word, " ", foreign("span", verdict.reason), class_=f"verdict {verdict.tone.value}")


def facts(pairs: Iterable[tuple[str, Child]]) -> Html | None:
    """Return names with values; None without any."""
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs if value]
    return tag("dl", *rows, class_="facts") if rows else None


def listed(items: Sequence[Child]) -> Html:
    """Return a list."""
    return tag("ul", *(tag("li", item) for item in items))


def scrolled(label: str, *children: Child, class_: str = "scrolled") -> Html:
    """Return an area that scrolls by itself, which the keyboard can reach."""
    return tag("div", *children, class_=class_, tabindex=0, role="region", aria_label=label)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Child]]) -> Html:
    """Return a table; the first cell of a row is its heading."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    body = (tag("tr", tag("th", row[0], scope="row"), *map(_cell, row[1:])) for row in rows)
    content = tag("table", tag("caption", caption), head, tag("tbody", *body))
    return scrolled(f"Table: {caption}", content, class_="scrolled table")


def _cell(content: Child) -> Html:
    return tag("td", content, class_="long" if len(content or "") > _LONG_CELL else None)


def text_block(label: str, text: str, note: str = "") -> Html:
    """Return foreign text as it is, in an area that scrolls."""
    block = foreign("pre", text, tabindex=0, role="region", aria_label=label)
    return join(block, tag("p", note, class_="note") if note else None)
