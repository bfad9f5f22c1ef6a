"""Markdown of strangers: whatever it is, its HTML has our elements alone, and leads where the page says."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.html.markdown import MAX_RENDERED, render_markdown

PIECES = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[b](JaVaScRiPt&colon;alert(1))",
    "[c](data:text/html,<script>1</script>)",
    "![d](https://evil.example/x.png)",
    "![e](//evil.example/x.png)",
    "[f]: javascript:alert(1)\n\n[f]",
    "<a href=x>y</a>",
    "# one\n\n## two\n\n###### six",
    "| a | b |\n|---|---|\n| `<b>` | **c** |",
    "\u202egnp.exe",
    "&lt;script&gt;",
    "<!-- <svg onload=1> -->",
    "```html\n<iframe>\n```",
    "<https://example.com/a?b=c&d>",
    "> - 1. `x`",
    "\x00\ufffe\ud800",
]


class Read(HTMLParser):
    """The elements of a text, and the addresses of its links."""

    plain: ClassVar = {"p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong"}
    known: ClassVar = plain | {"s", "hr", "br", "table", "thead", "tbody", "tr", "th", "td", "a"}

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


def rendered(text: str) -> Read:
    return Read(render_markdown(text, lambda target: f"/page/file/{target}" if target == "a.md" else None))


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=40), max_size=6).map("\n\n".join))
def test_only_known_elements_and_safe_addresses_come_out(text: str) -> None:
    read = rendered(text)
    assert set(read.tags) <= Read.known | ({"pre"} if len(text) > MAX_RENDERED else set())
    assert read.names <= {"href", "rel", "start", "dir"}
    assert all(link.startswith(("http://", "https://", "mailto:", "/page/file/")) for link in read.links)
    assert "\u202e" not in read.text


@pytest.mark.parametrize("piece", PIECES)
def test_each_piece_stays_visible_or_harmless(piece: str) -> None:
    read = rendered(piece)
    assert "script" not in read.tags
    assert "img" not in read.tags


def test_links_to_files_lead_to_their_pages_and_others_are_words() -> None:
    assert rendered("[x](a.md)").links == ["/page/file/a.md"]
    read = rendered("[x](../../etc/passwd)")
    assert read.links == []
    assert read.text.strip() == "x"


def test_an_image_is_a_link_that_nothing_requests() -> None:
    read = rendered("![a map](https://example.com/map.png)")
    assert "img" not in read.tags
    assert read.links == ["https://example.com/map.png"]
    assert "a map" in read.text


def test_headings_are_below_those_of_the_page() -> None:
    assert rendered("# a\n\n## b\n\n### c\n\n##### e").tags == ["h3", "h4", "h5", "h6"]
    assert rendered("# a\n\n#### b\n\n###### c\n\n# d").tags == ["h3", "h4", "h5", "h3"]


def test_a_huge_text_is_shown_as_it_is() -> None:
    read = rendered("<b>*x*\n" * MAX_RENDERED)
    assert read.tags == ["pre"]
    assert read.text.startswith("<b>*x*\n")
