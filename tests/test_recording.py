"""The recording of the README: screens of a terminal as a picture that needs nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.recording.picture import svg_of
from tools.recording.screens import Cast, read_cast, screens_of, write_cast
from tools.recording.session import AFTER, BEFORE

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).parents[1]
PICTURE = REPOSITORY / "docs/assets/edit-arrives.svg"
MAX_BYTES = 300_000
SVG = "{http://www.w3.org/2000/svg}"

PRINTED = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=30)
PLAIN = st.text(st.sampled_from("abc<>&\"'é… "), min_size=1, max_size=10)


def cast_of(*texts: str, pause: float = 1.0) -> Cast:
    return Cast(10, 3, tuple((number * pause, text) for number, text in enumerate(texts)))


def drawn(root: ET.Element) -> list[str]:
    """Return the text of each screen of a picture, from top to bottom and without spaces."""
    rows = {group.get("id"): "".join(group.itertext()) for group in root.findall(f"{SVG}defs/{SVG}g")}
    film = root.find(f".//{SVG}g[@class='film']")
    assert film is not None
    return [
        "".join("".join(rows[use.attrib["href"][1:]] for use in screen)).replace(" ", "")
        for screen in film.findall(f"{SVG}g")
    ]


def picture_of(cast: Cast) -> ET.Element:
    return ET.fromstring(svg_of(screens_of(cast), cast.columns, cast.rows, "a <title>"))  # noqa: S314 - our own


def texts_of(cast: Cast) -> list[list[str]]:
    return [["".join(run.text for run in row) for row in screen.rows] for screen in screens_of(cast)]


def test_each_change_is_a_screen_with_its_time() -> None:
    cast = cast_of("a", "\r\nb", "\x1b[?25h", "\x1b[2J\x1b[Hc")
    assert [screen.begin for screen in screens_of(cast)] == [0.0, 1.0, 3.0]
    assert [[text.strip() for text in rows] for rows in texts_of(cast)] == [
        ["a", "", ""],
        ["a", "b", ""],
        ["c", "", ""],
    ]


def test_what_follows_at_once_belongs_to_the_same_screen() -> None:
    assert len(screens_of(cast_of("a", "b", "c", pause=0.01))) == 1


def test_colours_the_cursor_and_reversed_text_keep_their_look() -> None:
    (screen,) = screens_of(cast_of("\x1b[1;31mab\x1b[0;7mc\x1b[0m\x1b[2;4H"))
    (coloured, reverse), (cursor,) = screen.rows[:2]
    assert (coloured.text, coloured.style.foreground, coloured.style.bold) == ("ab", "red", True)
    assert (reverse.text, reverse.style.background) == ("c", "white")
    assert (cursor.column, cursor.width, cursor.style.background) == (3, 1, "white")


def test_a_wide_character_takes_two_columns() -> None:
    (screen,) = screens_of(cast_of("\x1b[?25l\x1b[4m漢\x1b[0m"))
    assert [(run.text, run.width) for run in screen.rows[0]] == [("漢", 2)]


@given(st.lists(PRINTED, min_size=1, max_size=4))
def test_any_text_makes_a_picture_that_can_be_parsed(texts: list[str]) -> None:
    assert picture_of(cast_of(*texts)).tag == f"{SVG}svg"


@given(st.lists(PLAIN, min_size=1, max_size=3))
def test_the_picture_has_the_text_of_each_screen(texts: Sequence[str]) -> None:
    cast = cast_of(*(f"\x1b[2J\x1b[H{text}" for text in texts))
    assert drawn(picture_of(cast)) == ["".join(rows).replace(" ", "") for rows in texts_of(cast)]


@given(st.lists(st.tuples(st.floats(0, 9), PRINTED), min_size=1))
def test_a_recording_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[float, str]]
) -> None:
    path = tmp_path_factory.mktemp("cast") / "a.cast"
    write_cast(path, Cast(5, 4, tuple(events)))
    found = read_cast(path)
    assert (found.columns, found.rows) == (5, 4)
    assert [text for _, text in found.events] == [text for _, text in events]
    assert [begin for begin, _ in found.events] == pytest.approx([begin for begin, _ in events], abs=0.001)


def test_the_recording_begins_with_the_server_and_ends_with_the_new_description_in_the_client() -> None:
    screens = drawn(ET.parse(PICTURE).getroot())  # noqa: S314 - our own
    before, after = BEFORE.replace(" ", ""), AFTER.replace(" ", "")
    first, last = screens[0], screens[-1]
    assert "http://127.0.0.1:8000/mcp" in first
    assert "❯" in first.rpartition("ClaudeCode")[2]  # noqa: RUF001 - its prompt
    assert after not in first
    # The edit pane shows the old description too; the last part of a screen is the client's.
    assert after in last.rpartition("ClaudeCode")[2]
    assert any(before in screen.rpartition("ClaudeCode")[2] for screen in screens)


def test_the_recording_is_small_and_requests_nothing() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text.encode()) < MAX_BYTES
    root = ET.fromstring(text)  # noqa: S314 - our own
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        *("svg", "title", "style", "defs", "g", "rect", "text", "use"),
    }
    assert all(use.attrib["href"].startswith("#") for use in root.iter(f"{SVG}use"))
    assert re.findall(r"url\(|@import|@font-face|\bon\w+=", text) == []


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_pages_show_the_recording(page: str) -> None:
    source = REPOSITORY / page
    shown = re.findall(r'<img [^>]*src="([^"]+)"|!\[[^]]*\]\(([^)]+)\)', source.read_text(encoding="utf-8"))
    assert PICTURE.resolve() in {(source.parent / (one or other)).resolve() for one, other in shown}
