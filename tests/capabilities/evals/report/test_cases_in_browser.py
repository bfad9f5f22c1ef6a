"""The list of cases in a real Chromium: small at the start, opened on demand, filtered, ordered and searched."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.evals.report.writing import write_report
from tests.capabilities.evals.report.large import ASSERTIONS, large_workspace
from tests.capabilities.evals.report.test_browser import press
from tests.capabilities.evals.report.workspaces import grading, png, write, write_case, write_run
from tests.chromium import CHROMIUM, Chromium

CASES, RUNS = 100, 10
MAX_BYTES, MAX_NODES = 2_000_000, 5000


class Elements(HTMLParser):
    """Counts the elements and the texts between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.nodes = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - counted
        self.nodes += 1

    def handle_data(self, data: str) -> None:  # noqa: ARG002 - counted
        self.nodes += 1


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = large_workspace(tmp_path_factory.mktemp("large") / "csv-analyzer-workspace", CASES, RUNS)
    return write_report(root, running=False)


def test_a_page_of_100_cases_and_10_runs_in_two_arms_is_small_at_the_start(large: Path) -> None:
    content = large.read_bytes()
    assert len(content) < MAX_BYTES
    assert Elements(content.decode()).nodes < MAX_NODES


@pytest.mark.parametrize("texts", ["long", "many"])
def test_no_output_makes_the_page_larger(tmp_path: Path, texts: str) -> None:
    for name in ("a", "b"):
        folder = write_case(tmp_path / "iteration-1", name, "p" * 300_000)
        outputs: dict[str, object] = {f"{number}.txt": f"{number}\n" for number in range(5000)}
        if texts == "long":
            # Numbers that do not compress to nothing.
            outputs = {
                f"{number}.txt": "".join(f"{n * 7919 % 99_991:x}" for n in range(400_000)) for number in range(3)
            }
        write_run(folder / "with_skill", grading(*[True] * 2000), outputs=outputs, transcript=["x" * 2_000_000] * 20)
        write_run(folder / "without_skill", grading(False))
    content = write_report(tmp_path, running=False).read_bytes()
    assert len(content) < MAX_BYTES
    assert Elements(content.decode()).nodes < MAX_NODES


needs_browser = [
    pytest.mark.skipif(CHROMIUM is None or sys.platform == "win32", reason="needs Chromium, and pipes of POSIX"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    browser.show()
    yield browser
    browser.close()


@pytest.fixture
def opened(browser: Chromium, large: Path) -> Chromium:
    # A page that was left has its own state.
    browser.open("about:blank")
    browser.open(large.as_uri())
    browser.evaluate("sessionStorage.clear()")
    browser.open("about:blank")
    browser.open(large.as_uri())
    return browser


COUNT = """(() => {
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
  let nodes = 1;
  while (walker.nextNode()) nodes += 1;
  return nodes;
})()"""


class TestList:
    """The list of the large page."""

    pytestmark = needs_browser

    def test_few_nodes_are_made_before_a_case_is_opened(self, opened: Chromium) -> None:
        assert opened.evaluate(COUNT) < MAX_NODES
        fold(opened, "document.querySelector('.case')")
        assert opened.evaluate(COUNT) < MAX_NODES + 2000
        assert opened.evaluate("document.querySelectorAll('.case table')[0].rows.length") == ASSERTIONS + 1
        assert opened.evaluate("window.violations") == []

    def test_the_failing_cases_come_first(self, opened: Chromium) -> None:
        outcomes = opened.evaluate("[...document.querySelectorAll('.case')].map((each) => each.dataset.outcome)")
        assert outcomes[: outcomes.count("lost")] == ["lost"] * outcomes.count("lost")
        assert 0 < outcomes.count("lost") < CASES

    def test_cases_are_filtered_by_verdict_and_by_arm(self, opened: Chromium) -> None:
        choose(opened, "verdict", "lost")
        assert {each["outcome"] for each in shown(opened)} == {"lost"}
        assert re.fullmatch(rf"\d+ of {CASES} cases\.", opened.evaluate("document.getElementById('found').textContent"))
        choose(opened, "verdict", "passes")
        either = shown(opened)
        choose(opened, "arm", "0")
        ours = shown(opened)
        assert all("passes" in each["states"].split("|")[0] for each in ours)
        assert all("passes" in each["states"] for each in either)
        opened.evaluate("document.getElementById('filter').reset()")
        opened.wait_until(f"document.querySelectorAll('.case:not([hidden])').length === {CASES}")

    def test_cases_are_ordered(self, opened: Chromium) -> None:
        choose(opened, "order", "place")
        assert [int(each["place"]) for each in shown(opened)] == list(range(1, CASES + 1))
        choose(opened, "order", "difference")
        differences = [float(each["difference"]) for each in shown(opened)]
        assert differences == sorted(differences, reverse=True)
        choose(opened, "order", "seconds")
        seconds = [float(each["seconds"]) for each in shown(opened)]
        assert seconds == sorted(seconds, reverse=True)

    def test_a_search_finds_assertions_and_if_asked_outputs(self, opened: Chromium) -> None:
        fold(opened, "document.querySelector('.case')")
        word = opened.evaluate("document.querySelector('.case tbody th').textContent")
        type_words(opened, word)
        assert [each["rank"] for each in shown(opened)] == ["1"]
        answer = opened.evaluate("document.querySelector('.case .hunk pre').textContent").split()
        type_words(opened, " ".join(answer[5:14]))
        assert not shown(opened)
        opened.evaluate("document.querySelector('[name=deep]').click()")
        opened.wait_until("document.querySelectorAll('.case:not([hidden])').length === 1")
        assert opened.evaluate("document.querySelector('.case:not([hidden])').dataset.rank") == "1"

    def test_the_keyboard_alone_searches_and_opens(self, opened: Chromium) -> None:
        opened.evaluate("document.querySelector('.case summary').focus()")
        press(opened, "ArrowDown")
        press(opened, "ArrowDown")
        press(opened, "ArrowUp")
        assert opened.evaluate("document.activeElement.parentElement.dataset.rank") == "2"
        press(opened, "/")
        assert opened.evaluate("document.activeElement.name") == "words"
        name = opened.evaluate("document.querySelectorAll('.case h3')[4].textContent")
        opened.call("Input.insertText", text=name)
        press(opened, "Enter")
        assert opened.evaluate("document.activeElement.querySelector('h3').textContent") == name
        press(opened, "Enter")
        opened.wait_until("document.activeElement.parentElement.querySelector('table') !== null")
        assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    def test_a_link_of_the_first_screen_opens_its_case(self, opened: Chromium) -> None:
        link = opened.evaluate("document.querySelector('.changes a').getAttribute('href')")
        opened.evaluate("document.querySelector('.changes a').click()")
        opened.wait_until(f"document.querySelector('{link} table') !== null")

    def test_without_scripts_the_summary_and_the_rows_are_there(self, tmp_path: Path, large: Path) -> None:
        browser = Chromium(tmp_path)
        try:
            browser.call("Emulation.setScriptExecutionDisabled", value=True)
            browser.open(large.as_uri())
            seen = browser.evaluate("document.body.innerText")
            assert browser.evaluate("document.getElementById('filter').hidden")
        finally:
            browser.close()
        assert "Without JavaScript" in seen
        assert len(re.findall(r"points", seen)) > CASES


def fold(browser: Chromium, expression: str) -> None:
    """Open a case, and wait for its details."""
    browser.evaluate(f"{expression}.open = true")
    browser.wait_until(f"{expression}.querySelector('.details').childElementCount > 0")


def shown(browser: Chromium) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.evaluate(
        "[...document.querySelectorAll('.case:not([hidden])')].map((each) => ({...each.dataset}))"
    )
    return found


def choose(browser: Chromium, name: str, value: str) -> None:
    browser.evaluate(
        f"""(() => {{
          const field = document.querySelector('[name={name}]');
          field.value = '{value}';
          for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {{ bubbles: true }}));
        }})()"""
    )


def type_words(browser: Chromium, words: str) -> None:
    browser.evaluate(
        "document.querySelector('[name=words]').value = ''; document.querySelector('[name=words]').focus()"
    )
    browser.call("Input.insertText", text=words)


class TestComparison:
    """The outputs of two runs side by side."""

    pytestmark = needs_browser

    @pytest.fixture
    def compared(self, browser: Chromium, tmp_path: Path) -> Chromium:
        root = tmp_path / "compared"
        folder = write_case(root / "iteration-1", "a")
        same = "\n".join(f"line {number}" for number in range(40))
        for number in (1, 2):
            ours = {"a.md": f"{same}\nnew words here\nend", "b.txt": "equal", "c.png": png(), "big.txt": "a\n" * 9000}
            theirs = {
                "a.md": f"{same}\nold words here\nend",
                "b.txt": "equal",
                "d.txt": "alone",
                "big.txt": "b\n" * 9000,
            }
            write_run(folder / f"with_skill/run-{number}", grading(True), outputs={**ours, "n.txt": str(number)})
            write_run(folder / f"without_skill/run-{number}", grading(False), outputs=theirs)
        write(root / "iteration-1/config.json", {})
        browser.open(write_report(root, running=False).as_uri())
        fold(browser, "document.querySelector('.case')")
        browser.evaluate("document.querySelectorAll('[id$=-outputs] details').forEach((each) => { each.open = true; })")
        browser.wait_until("[...document.querySelectorAll('[id$=-outputs] details')].every((each) => each.children[1])")
        return browser

    def part(self, browser: Chromium, name: str) -> str:
        all_parts = "[...document.querySelectorAll('[id$=-outputs] details')]"
        is_named = f"each.querySelector('summary code').textContent === '{name}'"
        return str(browser.evaluate(f"{all_parts}.find((each) => {is_named}).innerText"))

    def test_what_differs_is_marked_word_by_word(self, compared: Chromium) -> None:
        assert compared.evaluate("document.querySelector('.compared del').textContent") == "old"
        assert compared.evaluate("document.querySelector('.compared ins').textContent") == "new"
        assert "Show 37 equal lines" in self.part(compared, "a.md")
        compared.evaluate("document.querySelector('.compared .more').click()")
        assert "line 20" in self.part(compared, "a.md")

    def test_what_is_equal_alone_or_too_long_is_said(self, compared: Chromium) -> None:
        assert "Equal in both." in self.part(compared, "b.txt")
        assert "Not written." in self.part(compared, "d.txt")
        assert "Too different to be compared line by line." in self.part(compared, "big.txt")
        assert compared.evaluate("document.querySelector('[id$=-outputs] img').src.startsWith('data:image/png')")

    def test_other_runs_can_be_chosen(self, compared: Chromium) -> None:
        choice = "document.querySelectorAll('.case select')[1]"
        titles = compared.evaluate(f"[...{choice}.options].map((each) => each.textContent)")
        place = titles.index("with skill, run 2")
        compared.evaluate(f"{choice}.value = {place}; {choice}.dispatchEvent(new Event('change', {{ bubbles: true }}))")
        assert "with skill, run 2" in compared.evaluate("document.querySelector('.heads').textContent")
