"""The page in a real Chromium: nothing leaves, nothing foreign runs, people can use it. Skipped without Chromium."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.evals.report.serving import save_feedback
from server.capabilities.evals.report.writing import write_report
from server.capabilities.evals.workspace import renew_sign
from tests.capabilities.evals.report.workspaces import (
    creator_workspace,
    full_workspace,
    grading,
    hostile_workspace,
    write_case,
    write_iteration,
    write_run,
)
from tests.chromium import CHROMIUM, Chromium
from tests.thoroughness import EVERY_CASE

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None or sys.platform == "win32", reason="needs Chromium, and pipes of POSIX"),
    # All tests share one browser.
    pytest.mark.slow,
]

REPOSITORY = Path(__file__).parents[4]
AXE = REPOSITORY / "conformance/node_modules/axe-core/axe.min.js"

WORKSPACES = {"full": full_workspace, "hostile": hostile_workspace, "creator": creator_workspace}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: Chromium) -> Chromium:
    chromium.show()
    chromium.requests.clear()
    return chromium


@pytest.fixture(scope="module", params=WORKSPACES)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("pages") / "csv-analyzer-workspace"
    return write_report(WORKSPACES[request.param](root), running=False).as_uri()


def open_all(browser: Chromium) -> None:
    """Open all that is folded, also what is made by opening something else."""
    browser.evaluate("document.querySelectorAll('#case-list > details').forEach((fold) => { fold.hidden = false; })")
    browser.wait_until(
        """(() => {
          const closed = [...document.querySelectorAll('details:not([open])')];
          closed.forEach((fold) => { fold.open = true; });
          const waiting = [...document.querySelectorAll('.details')].filter((area) => !area.childElementCount);
          return !closed.length && !waiting.length && !document.querySelector('[aria-busy=true]');
        })()"""
    )


def test_nothing_foreign_runs_and_no_request_leaves(browser: Chromium, page: str) -> None:
    browser.open(page)
    open_all(browser)
    browser.evaluate("Promise.all([...document.images].map((image) => image.decode().catch(() => 0))).then(() => 1)")
    assert browser.evaluate("window.hacked") is None
    assert [url for url in browser.requests if not url.startswith("data:image/")] == [page]
    assert browser.evaluate("window.violations") == []
    assert browser.evaluate("[...document.scripts].map((script) => script.type)") == ["application/json", ""]
    assert browser.evaluate("document.querySelectorAll('[onerror], [onload], iframe, object, embed').length") == 0


def test_the_policy_stops_markup_that_escaped_all_the_same(browser: Chromium, page: str) -> None:
    browser.open(page)
    browser.evaluate(
        """(() => {
          document.body.insertAdjacentHTML('beforeend',
            '<img src="x" onerror="window.hacked = 1"><img src="http://127.0.0.1:9/leak">');
          const script = document.createElement('script');
          script.textContent = 'window.hacked = 1';
          document.body.append(script);
        })()"""
    )
    browser.wait_until("window.violations.length >= 3")
    assert browser.evaluate("window.hacked") is None


@pytest.mark.parametrize(
    ("width", "dark"), [(360, False), (1200, True), *([(360, True), (1200, False)] if EVERY_CASE else [])]
)
def test_the_page_is_readable_at_each_width_in_light_and_dark(
    browser: Chromium, page: str, width: int, *, dark: bool
) -> None:
    browser.show(width=width, dark=dark)
    browser.open(page)
    open_all(browser)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(19, 21, 26)" if dark else "rgb(247, 247, 245)")


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core, which `make conformance` installs")
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_has_no_barrier_that_axe_finds(browser: Chromium, page: str, *, dark: bool) -> None:
    browser.show(dark=dark)
    browser.open(page)
    open_all(browser)
    browser.evaluate(f"{AXE.read_text(encoding='utf-8')}; 0")
    found = browser.evaluate(
        "axe.run(document).then((result) => result.violations.map((each) => [each.id, each.help]))"
    )
    assert found == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser: Chromium, page: str) -> None:
    browser.open(page)
    press(browser, "Tab")
    assert browser.evaluate("document.activeElement.className") == "skip"
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert browser.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    open_all(browser)
    # What scrolls by itself can be scrolled by the keyboard.
    unreachable = browser.evaluate(
        """[...document.querySelectorAll('pre, .scrolled')].filter((each) =>
          each.scrollHeight > each.clientHeight + 1 && each.tabIndex < 0 && !each.closest('[tabindex="0"]')).length"""
    )
    assert unreachable == 0


KEYS = {"Tab": 9, "Enter": 13, "ArrowDown": 40, "ArrowUp": 38, "/": 191}


def press(browser: Chromium, key: str) -> None:
    text = {"Enter": "\r", "/": "/"}.get(key, "")
    for kind in ("keyDown", "keyUp"):
        pressed = {
            "type": kind,
            "key": key,
            "windowsVirtualKeyCode": KEYS[key],
            "text": text if kind == "keyDown" else "",
        }
        browser.call("Input.dispatchKeyEvent", **pressed)


def test_print_shows_all_of_a_text_and_no_controls(browser: Chromium, page: str) -> None:
    browser.show(media="print", dark=True)
    browser.open(page)
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    overflows = "[...new Set([...document.querySelectorAll('pre')].map((each) => getComputedStyle(each).overflowY))]"
    assert browser.evaluate(overflows) in ([], ["visible"])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A workspace with running work, and the address of its server."""
    root = tmp_path / "csv-analyzer-workspace"
    write_iteration(root / "iteration-1", {"a": ((True,), (False,)), "b": ((True,), (False,))}, complete=False)
    renew_sign(root)
    command = [sys.executable, "-u", "-m", "server", "report", str(root), "--open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment()) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("Serving "))
        yield root, line.split()[1]
        process.terminate()
        process.wait(60)


def environment() -> dict[str, str]:
    # No browser of the desktop opens.
    return {**os.environ, "BROWSER": "true", "PYTHONPATH": str(REPOSITORY)}


def open_case(browser: Chromium, place: int = 0) -> None:
    browser.evaluate(f"document.querySelectorAll('#case-list > details')[{place}].open = true")
    browser.wait_until(f"document.querySelectorAll('#case-list > details')[{place}].querySelector('form') !== null")


def saved(root: Path) -> Any:
    found = json.loads((root / "iteration-1/feedback.json").read_text(encoding="utf-8"))
    return {name: each for name, each in found.items() if name != "reviews"}


def test_feedback_is_saved_and_said_aloud(browser: Chromium, served: tuple[Path, str]) -> None:
    root, url = served
    browser.open(url)
    open_case(browser)
    assert browser.evaluate("document.querySelector('.saved').getAttribute('role')") == "status"
    browser.evaluate("document.querySelector('textarea').focus()")
    browser.call("Input.insertText", text="no labels </textarea><script>window.hacked = 1</script>")
    assert browser.evaluate("document.querySelector('.saved').textContent") == "Not saved yet."
    browser.evaluate("document.querySelector('form.feedback button').click()")
    browser.wait_until("document.querySelector('.saved').textContent === 'Saved.'")
    assert saved(root) == {"eval-a": "no labels </textarea><script>window.hacked = 1</script>"}
    browser.open(url)
    # What was opened is open again.
    browser.wait_until("document.querySelector('textarea') !== null")
    text = "document.querySelector('textarea').value"
    assert browser.evaluate(text) == "no labels </textarea><script>window.hacked = 1</script>"
    assert browser.evaluate("window.hacked") is None
    # An empty text means that the case is fine.
    open_case(browser, 1)
    browser.evaluate("document.querySelectorAll('form.feedback')[1].requestSubmit()")
    browser.wait_until("document.querySelectorAll('.saved')[1].textContent === 'Saved.'")
    assert saved(root)["eval-b"] == ""
    assert all(request.startswith((url, "data:image/")) for request in browser.requests)
    assert browser.evaluate("window.violations") == []


def test_a_page_of_running_work_shows_new_results_by_itself(browser: Chromium, served: tuple[Path, str]) -> None:
    root, url = served
    browser.open(url)
    assert browser.evaluate("document.querySelectorAll('.case').length") == 2
    open_case(browser)
    browser.wait_until(f"performance.getEntriesByName('{url}state').length > 0")
    write_run(write_case(root / "iteration-1", "c") / "with_skill", grading(True))
    browser.wait_until("document.querySelectorAll('.case').length === 3")
    # What was opened stays open.
    browser.wait_until("document.querySelectorAll('.case form').length === 1")
    browser.evaluate("document.getElementById('pause').click()")
    assert browser.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "true"


def test_another_tab_overwrites_nothing_unasked(browser: Chromium, served: tuple[Path, str]) -> None:
    root, url = served
    browser.open(url)
    open_case(browser)
    area = "document.querySelector('textarea')"
    browser.evaluate(f"{area}.value = 'from this tab'; {area}.dispatchEvent(new Event('input'))")
    # The other tab saves first.
    save_feedback(root, "iteration-1", "eval-a", "from the other tab")
    send, status = (
        "document.querySelector('form.feedback').requestSubmit()",
        "document.querySelector('.saved').textContent",
    )
    for _ in range(2):
        browser.evaluate(send)
        browser.wait_until(f"{status}.startsWith('Not saved')")
    assert "from the other tab" in browser.evaluate(status)
    assert saved(root) == {"eval-a": "from the other tab"}
    browser.evaluate("document.querySelector('.replace').click()")
    browser.wait_until(f"{status} === 'Saved.'")
    assert browser.evaluate("document.querySelector('.replace').hidden")
    assert saved(root) == {"eval-a": "from this tab"}


def test_the_page_of_killed_work_stops_refreshing(browser: Chromium, tmp_path: Path) -> None:
    root = tmp_path / "csv-analyzer-workspace"
    write_iteration(root / "iteration-1", {"a": ((True,), (False,))}, complete=False)
    page = write_report(root, running=True)
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r'data-made="[0-9.]+"', 'data-made="1000.0"', text), encoding="utf-8")
    browser.open(page.as_uri())
    said = "document.getElementById('state').textContent"
    assert browser.evaluate(said) == "Not updated any more: the work was interrupted."
    assert browser.evaluate("document.getElementById('pause').hidden")
