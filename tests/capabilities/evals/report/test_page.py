"""The page: one file, complete, in which foreign text is text."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import time
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.evals.report.workspace import read_workspace
from server.capabilities.evals.report.writing import current_page, write_report
from server.capabilities.evals.workspace import STALE_SECONDS, EvalError, remove_sign, renew_sign
from server.html.differences import MAX_COMPARED, description_diff
from tests.capabilities.evals.report.workspaces import (
    HOSTILE,
    creator_workspace,
    full_workspace,
    hostile_workspace,
    write_iteration,
)

URLS = {"src", "href", "action", "formaction", "xlink:href", "data", "poster", "srcset", "background"}


class Parsed(HTMLParser):
    """All elements of a page, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._pieces: list[str] = []
        self.feed(page)
        self.close()
        self.text = "".join(self._pieces)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self._pieces.append(data)

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for element, attributes in self.elements if element == name]


def parts_of(page: str) -> dict[str, Any]:
    """Return what the page shows when parts are opened, by their names; images as data."""
    (block,) = re.findall('<script type="application/json" id="parts">(.*?)</script>', page, re.DOTALL)
    lines = [line.split(" ", 1) for line in block.splitlines()]
    return {name: content if content.startswith("data:") else unpacked(content) for name, content in lines}


def unpacked(content: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(content, validate=True)))


def texts_of(value: Any) -> list[str]:
    """Return all texts in a value of JSON."""
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in values for text in texts_of(each)]


@pytest.mark.parametrize("write", [full_workspace, hostile_workspace, creator_workspace])
@pytest.mark.parametrize("served", [True, False])
def test_the_page_has_nothing_but_its_own_elements(tmp_path: Path, write: object, *, served: bool) -> None:
    assert callable(write)
    page = Parsed(current_page(read_workspace(write(tmp_path / "workspace")), served=served, running=True))
    # Of the two, one is data, which nothing runs.
    assert page.named("script") == [{"type": "application/json", "id": "parts"}, {}]
    assert len(page.named("style")) == 1
    assert not page.named("link")
    for element, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in URLS & attributes.keys():
            value = attributes[name] or ""
            assert re.fullmatch(r"#[a-z]+(-[0-9]+)?", value), element


def test_the_policy_comes_first_and_allows_no_request(tmp_path: Path) -> None:
    page = current_page(read_workspace(full_workspace(tmp_path)), running=False)
    first, second = Parsed(page).named("meta")[:2]
    assert first == {"charset": "utf-8"}
    assert second["http-equiv"] == "Content-Security-Policy"
    rules = dict((rule.split(" ", 1)) for rule in (second["content"] or "").split("; "))
    assert rules["default-src"] == rules["connect-src"] == rules["form-action"] == rules["base-uri"] == "'none'"
    assert rules["img-src"] == "data:"
    assert re.fullmatch(r"'sha256-[\w+/]{43}='", rules["script-src"])
    assert "unsafe" not in (second["content"] or "")


def test_every_hostile_text_is_shown_as_it_is(tmp_path: Path) -> None:
    page = current_page(read_workspace(hostile_workspace(tmp_path / "workspace")), running=False)
    parsed, parts = Parsed(page), parts_of(page)
    shown = HOSTILE
    for character in "\0\x1b\u202e\u2066":
        shown = shown.replace(character, f"[U+{ord(character):04X}]")
    texts = texts_of([each for each in parts.values() if isinstance(each, dict)])
    assert parsed.text.count(shown) > 5
    assert sum(shown in text for text in texts) > 8
    hidden = "[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]"
    assert not re.search(hidden, parsed.text)
    assert not re.search(hidden, "".join(text for text in texts if not text.startswith("data:image/")))


def test_the_parts_cannot_end_their_element(tmp_path: Path) -> None:
    page = current_page(read_workspace(hostile_workspace(tmp_path / "workspace")), running=False)
    (block,) = re.findall('id="parts">(.*?)</script>', page, re.DOTALL)
    assert re.fullmatch(r"((case|query)-[0-9-a-z]+ (data:image/[a-z+]+;base64,)?[\w+/=]+\n?)+", block)


def test_the_scripts_make_no_markup_of_texts(tmp_path: Path) -> None:
    write_iteration(tmp_path / "iteration-1", {"a": ((True,), (True,))})
    page = current_page(read_workspace(tmp_path))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment", page)
    assert not re.search(r"\beval\b\(|new Function|DOMParser|setHTML", page)


def test_landmarks_headings_and_captions_are_there(tmp_path: Path) -> None:
    page = Parsed(current_page(read_workspace(full_workspace(tmp_path)), running=False))
    assert page.named("html") == [{"lang": "en"}]
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(page.named(landmark)) == 1, landmark
    assert len(page.named("caption")) == len(page.named("table"))
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    links = [(attributes["href"] or "")[1:] for attributes in page.named("a")]
    assert set(links) <= set(identifiers)
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "aria-describedby", "for"):
            assert set((attributes.get(name) or "").split()) <= set(identifiers)


def test_a_page_of_running_work_refreshes_itself_and_a_complete_one_does_not(tmp_path: Path) -> None:
    write_iteration(tmp_path / "iteration-1", {"a": ((True,), (True,))}, complete=False)
    renew_sign(tmp_path)
    running = Parsed(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "data-running" in running.named("body")[0]
    assert "The work is running" in running.text
    done = Parsed(write_report(tmp_path, running=False).read_text(encoding="utf-8"))
    assert "data-running" not in done.named("body")[0]
    # Without a script, no page can tell that it is old; so none refreshes itself.
    for page in (running, done):
        assert "refresh" not in [attributes.get("http-equiv") for attributes in page.named("meta")]
    assert "Not complete" in done.text


def test_a_page_shows_feedback_and_that_of_the_iteration_before(tmp_path: Path) -> None:
    parts = parts_of(current_page(read_workspace(full_workspace(tmp_path))))
    found = {part["name"]: (part["feedback"], part["earlier"]) for part in parts.values() if "feedback" in part}
    assert found["top-months-chart"] == ("Months are in alphabetical order.",) * 2
    assert found["empty-file"] == ("", "")
    assert found["merge-two-files"] == (None, "")


def test_a_served_page_leaves_the_details_of_cases_to_its_server(tmp_path: Path) -> None:
    page = current_page(read_workspace(full_workspace(tmp_path), details=False), served=True)
    assert not parts_of(page)
    assert [fold["data-key"] for fold in Parsed(page).named("details") if "data-key" in fold]


def test_the_chart_says_its_numbers_in_words(tmp_path: Path) -> None:
    page = current_page(read_workspace(full_workspace(tmp_path)))
    assert re.search(r"<desc[^>]*>with skill: 76\s%, 91\s%, 96\s%; without skill: 13\s%", page)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("Reads CSV.", "Reads CSV.", "Reads CSV."),
        ("Reads CSV.", "Reads CSV files.", "Reads CSV[added:  files]."),
        ("Reads CSV.", "Writes CSV.", "[removed: Reads][added: Writes] CSV."),
        ("Reads the file.", "Writes the page.", "[removed: Reads the file][added: Writes the page]."),
        (
            "Reads all of the file.",
            "Sees all of the page.",
            "[removed: Reads][added: Sees] all of the [removed: file][added: page].",
        ),
        ("", "New.", "[added: New.]"),
        ("Old.", "", "[removed: Old.]"),
    ],
)
def test_a_difference_says_in_words_what_was_added_and_removed(before: str, after: str, shown: str) -> None:
    marks = {"kept": "{}", "added": "[added: {}]", "removed": "[removed: {}]"}
    pieces = description_diff(before, after)
    assert "".join(marks[kind].format(words) for kind, words in pieces) == shown


def test_a_description_beyond_all_bounds_is_not_compared() -> None:
    ((kind, words),) = description_diff("a " * MAX_COMPARED, "b " * MAX_COMPARED)
    assert (kind, len(words) < MAX_COMPARED + 100) == ("kept", True)


def test_the_report_replaces_the_file_and_follows_no_link(tmp_path: Path) -> None:
    write_iteration(tmp_path / "workspace/iteration-1", {"a": ((True,), (True,))})
    other = tmp_path / "other.txt"
    other.write_text("keep me")
    (tmp_path / "workspace/report.html").symlink_to(other)
    with pytest.raises(EvalError, match="choose another file"):
        write_report(tmp_path / "workspace")
    assert other.read_text() == "keep me"
    assert write_report(tmp_path / "workspace", tmp_path / "new/page.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("sign", [None, "killed", "ended"])
def test_a_page_of_work_that_was_killed_does_not_claim_to_run(tmp_path: Path, sign: str | None) -> None:
    write_iteration(tmp_path / "iteration-1", {"a": ((True,), (True,))}, complete=False)
    if sign is not None:
        renew_sign(tmp_path)
    if sign == "killed":
        old = time.time() - STALE_SECONDS
        os.utime(tmp_path / ".running", (old, old))
    if sign == "ended":
        remove_sign(tmp_path)
    page = Parsed(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "data-running" not in page.named("body")[0]
    assert "Not complete: the work was interrupted." in page.text
