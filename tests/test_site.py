"""The documentation is a site whose links lead somewhere, and whose pages request nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.chromium import CHROMIUM, Chromium

REPOSITORY = Path(__file__).parents[1]

OUTSIDE = re.compile(r"\s*(?:https?:|wss?:|ftp:)?//", re.IGNORECASE)
STYLE_REQUEST = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""", re.IGNORECASE)
RELATIVE_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#([^)\s]+))?\)")


class Page(HTMLParser):
    """What a browser requests for a page by itself, and the anchors that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.anchors: set[str] = set()
        self.policies: list[str] = []
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        self.requests += STYLE_REQUEST.findall(given.get("style", ""))
        if tag == "meta" and given.get("http-equiv", "").lower() == "content-security-policy":
            self.policies.append(given.get("content", ""))
        # A link that a person follows is no request of the page.
        self.requests += [
            value
            for name, value in given.items()
            if name in {"src", "srcset", "poster", "data", "action", "ping", "background"}
            or (name in {"href", "xlink:href"} and tag != "a")
        ]

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.requests += STYLE_REQUEST.findall(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    found = {page.relative_to(site).as_posix(): page for page in site.rglob("*.html")}
    return {name: Page(page.read_text(encoding="utf-8")) for name, page in found.items()}


def test_each_page_of_the_docs_is_built(pages: dict[str, Page]) -> None:
    sources = [page.relative_to(REPOSITORY / "docs") for page in (REPOSITORY / "docs").rglob("*.md")]
    assert {page.with_suffix(".html").as_posix() for page in sources} | {"404.html"} == pages.keys()


def test_no_page_requests_anything_from_another_host(pages: dict[str, Page]) -> None:
    assert {name: page.requests for name, page in pages.items() if any(map(OUTSIDE.match, page.requests))} == {}
    assert all("assets/javascripts/bundle" in " ".join(page.requests) for page in pages.values())


def test_no_style_sheet_requests_anything_from_another_host(site: Path) -> None:
    sheets = [*site.rglob("*.css")]
    assert sheets
    for sheet in sheets:
        assert [each for each in STYLE_REQUEST.findall(sheet.read_text("utf-8")) if OUTSIDE.match(each)] == []


def test_each_page_tells_the_browser_to_refuse_requests_of_scripts_to_other_hosts(pages: dict[str, Page]) -> None:
    allowed = {"default-src", "'self'", "'unsafe-inline'", "data:", "blob:"}
    assert {name for name, page in pages.items() if [*map(set, map(str.split, page.policies))] != [allowed]} == set()


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "conformance/README.md"])
def test_each_link_into_the_docs_leads_to_a_page_and_a_heading(name: str, pages: dict[str, Page]) -> None:
    source = REPOSITORY / name
    links = RELATIVE_LINK.findall(source.read_text(encoding="utf-8"))
    assert links
    for path, anchor in links:
        target = (source.parent / path).resolve()
        assert target.exists(), path
        if anchor:
            page = target.relative_to(REPOSITORY / "docs").with_suffix(".html")
            assert anchor in pages[page.as_posix()].anchors, f"{path}#{anchor}"


FOUND = '[...document.querySelectorAll(".md-search-result__link")].map((each) => each.href)'


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_the_search_finds_pages_when_the_site_is_opened_from_the_disk(site: Path, tmp_path: Path) -> None:
    browser = Chromium(tmp_path)
    try:
        browser.show(width=1300)
        # Also from a page that is not at the top.
        browser.open((site / "guides/run-scripts.html").as_uri())
        browser.evaluate("document.querySelector('[data-md-component=search-query]').focus()")
        for letter in "bubblewrap":
            browser.call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
            browser.call("Input.dispatchKeyEvent", type="keyUp", key=letter)
        browser.wait_until(f"{FOUND}.length > 0")
        found = browser.evaluate(FOUND)
    finally:
        browser.close()
    assert (site / "guides/run-scripts.html").as_uri() in {link.partition("?")[0].partition("#")[0] for link in found}
    assert {request.partition(":")[0] for request in browser.requests} <= {"file", "data", "about", "blob"}
    assert any("search_index.js" in request for request in browser.requests)
