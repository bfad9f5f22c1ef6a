"""The page in a real Chromium: it follows the disk, people can use it by keyboard, and nothing leaves or runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from conformance.identity_provider import MODULES
from skills_core.live.watch_options import WatchMode
from tests.capabilities.evals.report.workspaces import full_workspace
from tests.capabilities.web.operators import let_in
from tests.chromium import CHROMIUM, Chromium
from tests.conftest import MakeSkill
from tests.server.serving import Served, serving
from tests.thoroughness import combined

AXE = MODULES / "axe-core/axe.min.js"
SHOTS = os.environ.get("SKILLSERVE_SCREENSHOTS")
# A folder for pictures of what the tests see, for a person to look at.

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"), pytest.mark.slow]

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    opened = Chromium(tmp_path / "profile")
    yield opened
    opened.close()


@pytest.fixture
def library(make_skill: MakeSkill, skills: Path) -> Path:
    for number in range(120):
        make_skill(f"skill-{number:03}", description=f"Counts to {number}. Use for counting.")
    make_skill(
        "pdf-forms",
        description="Fills forms. Use for a PDF form.",
        body="# Forms\n\n[more](more.md)",
        files={"more.md": b"# More"},
    )
    make_skill(
        "hostile",
        description=f"'{HOSTILE}'",
        body=f"{HOSTILE}\n\n[x](javascript:window.hacked=1)",
        files={"a.md": HOSTILE.encode()},
    )
    make_skill("person", fields="disable-model-invocation: true")
    make_skill("Not Fit")
    return skills


async def looked_at(library: Path, look: Callable[[Served], None]) -> None:
    """Look at a server of this process from a worker thread, while it follows the disk."""
    async with serving(library, watch=WatchMode.AUTO) as served, anyio.create_task_group() as tasks:
        tasks.start_soon(served.host.follow)
        await anyio.to_thread.run_sync(look, served)
        tasks.cancel_scope.cancel()


def shown(browser: Chromium) -> list[str]:
    found: list[str] = browser.evaluate("[...document.querySelectorAll('.skill h2')].map((each) => each.textContent)")
    return found


def press(browser: Chromium, key: str, code: int = 0, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        typed = {"text": text} if text and kind == "keyDown" else {}
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **typed)


async def test_an_edit_on_disk_appears_in_two_browsers_without_a_reload(
    library: Path, make_skill: MakeSkill, browser: Chromium, tmp_path: Path
) -> None:
    other = Chromium(tmp_path / "other")

    def look(served: Served) -> None:
        browser.open(served.at("/?q=new"))
        other.open(served.at("/page/skill/pdf-forms"))
        for each in (browser, other):
            each.evaluate("window.before = true")
            each.wait_until("document.getElementById('live').textContent === 'Live'")
        make_skill("new-one", description="Appears. Use for news.")
        make_skill("pdf-forms", description="Other words. Use for a PDF form.", body="Changed text.")
        browser.wait_until("[...document.querySelectorAll('.skill h2')].some((each) => each.textContent === 'new-one')")
        other.wait_until("document.querySelector('.markdown')?.textContent.includes('Changed text.')")
        assert browser.evaluate("window.before") is True
        assert other.evaluate("window.before") is True
        # A skill that goes away says so.
        (library / "pdf-forms/SKILL.md").unlink()
        other.wait_until("document.querySelector('main h1').textContent === 'Not found'")

    try:
        await looked_at(library, look)
    finally:
        other.close()


async def test_the_page_says_when_the_server_is_gone_and_when_it_is_back(library: Path, browser: Chromium) -> None:
    def look(served: Served) -> None:
        browser.open(served.at("/"))
        browser.wait_until("document.getElementById('live').textContent === 'Live'")
        browser.call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        for part in served.host.http_parts:
            part.drain()
        browser.wait_until("document.getElementById('live').textContent === 'Not connected'")

    await looked_at(library, look)


async def test_a_page_that_cannot_be_made_anew_stays_and_is_made_later(
    library: Path, make_skill: MakeSkill, browser: Chromium, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(served: Served) -> None:
        browser.open(served.at("/page/skill/pdf-forms"))
        browser.wait_until("document.getElementById('live').textContent === 'Live'")
        browser.evaluate(
            "const real = fetch; window.fetch = async (...all) => { window.last = await real(...all); return last; }"
        )
        with monkeypatch.context() as busy:
            busy.setattr("server.capabilities.web.part.MAX_WAITING", -100)
            make_skill("pdf-forms", description="Other words. Use for a PDF form.", body="Changed text.")
            browser.wait_until("window.last?.status === 503")
            assert browser.evaluate("document.querySelector('main h1').textContent") == "pdf-forms"
        browser.wait_until("document.querySelector('.markdown')?.textContent.includes('Changed text.')")

    await looked_at(library, look)


async def test_a_search_while_typing_replaces_the_list_alone(library: Path, browser: Chromium) -> None:
    def look(served: Served) -> None:
        browser.open(served.at("/"))
        assert len(shown(browser)) == 100
        press(browser, "/", 191, "/")
        assert browser.evaluate("document.activeElement.id") == "q"
        for letter in "pdf":
            press(browser, letter, ord(letter.upper()), letter)
        browser.wait_until("document.querySelectorAll('.skill').length === 1")
        assert shown(browser) == ["pdf-forms"]
        assert browser.evaluate("document.getElementById('q').value") == "pdf"
        assert browser.evaluate("location.search") == "?q=pdf"
        press(browser, "ArrowDown", 40)
        assert browser.evaluate("document.activeElement.textContent") == "pdf-forms"
        press(browser, "Enter", 13, "\r")
        browser.wait_until("location.pathname === '/page/skill/pdf-forms' && document.readyState === 'complete'")
        # The list is found again as it was left.
        browser.evaluate("history.back()")
        browser.wait_until("location.search === '?q=pdf' && document.querySelectorAll('.skill').length === 1")

    await looked_at(library, look)


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core, which `make conformance` installs")
@pytest.mark.parametrize(("width", "dark"), combined([360, 800, 1600], [False, True]))
async def test_people_can_read_and_reach_everything(library: Path, browser: Chromium, width: int, dark: bool) -> None:  # noqa: FBT001
    await looked_at(library, lambda served: examine(browser, served, PLACES, width, dark=dark))


def examine(browser: Chromium, served: Served, places: dict[str, str], width: int, *, dark: bool) -> None:
    """Look at pages with everything opened: nothing is wider than the window, and axe finds no barrier."""
    browser.show(width=width, dark=dark)
    for name, path in places.items():
        browser.open(served.at(path))
        browser.wait_until("document.documentElement.classList.contains('scripted')")
        browser.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, path
        browser.evaluate(f"{AXE.read_text(encoding='utf-8')}; 0")
        found = browser.evaluate(
            "axe.run(document).then((all) => all.violations.map((each) => [each.id, each.nodes[0].html]))"
        )
        assert found == [], path
        if SHOTS:
            browser.screenshot(Path(SHOTS, f"{name}-{width}-{'dark' if dark else 'light'}.png"))


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core, which `make conformance` installs")
@pytest.mark.parametrize(("width", "dark"), combined([360, 1200], [True, False]))
async def test_operators_can_read_and_reach_everything(
    library: Path,
    browser: Chromium,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    width: int,
    dark: bool,  # noqa: FBT001
) -> None:
    let_in(monkeypatch, may_change=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    full_workspace(library / "pdf-forms-workspace")

    def look(served: Served) -> None:
        for number in range(3):
            served.host.activity.add("denied", f"skill-{number:03} denied: role", is_trouble=True, skill="person")
        examine(browser, served, TABS, width, dark=dark)

    await looked_at(library, look)


TABS = {
    **{tab: f"/page/{tab}" for tab in ("connect", "live", "activity", "runs", "schedules", "improvements")},
    "skill-for-operators": "/page/skill/pdf-forms",
}

PLACES = {
    "catalog": "/",
    "nothing": "/?q=qqqqqqq",
    "skill": "/page/skill/pdf-forms",
    "file": "/page/skill/pdf-forms?file=more.md",
    "hostile": "/page/skill/hostile",
    "missing": "/page/skill/none",
}


async def test_nothing_foreign_runs_and_nothing_leaves(library: Path, browser: Chromium) -> None:
    def look(served: Served) -> None:
        for path in (*PLACES.values(), "/page/skill/hostile?file=a.md", "/?q=hostile"):
            browser.open(served.at(path))
            assert browser.evaluate("window.hacked") is None
            assert browser.evaluate("window.violations") == []
        # Markup that would escape our escaping cannot run either.
        browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')")
        browser.wait_until("window.violations.length > 0")
        assert browser.evaluate("window.hacked") is None
        assert {each for each in browser.requests if not each.startswith((served.at("/"), "data:"))} <= {"about:blank"}

    await looked_at(library, look)


async def test_the_keyboard_reaches_the_list_by_one_key_and_shows_where_it_is(library: Path, browser: Chromium) -> None:
    def look(served: Served) -> None:
        browser.open(served.at("/"))
        press(browser, "Tab", 9)
        assert browser.evaluate("document.activeElement.className") == "skip"
        seen = set()
        for _ in range(12):
            press(browser, "Tab", 9)
            seen.add(browser.evaluate("document.activeElement.id || document.activeElement.textContent"))
            assert browser.evaluate("document.activeElement.matches(':focus-visible')")
        assert {"q", "state", "order", "hostile"} <= seen

    await looked_at(library, look)
