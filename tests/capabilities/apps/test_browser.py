"""Pages of tools in a real Chromium, inside a host of the reference implementation, at a real server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skills_core.testing import Call
from tests.capabilities.apps.reference_host import BRIDGE, ESBUILD, MODULES, ReferenceHost, serving_host, until
from tests.chromium import CHROMIUM, Chromium
from tests.conftest import write_skill
from tests.model_endpoint import Answer, ModelEndpoint
from tests.server.sessions import REPOSITORY, server_command, server_environment

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None or sys.platform == "win32", reason="needs Chromium, and pipes of POSIX"),
    pytest.mark.skipif(not (BRIDGE.exists() and ESBUILD.exists()), reason="`make conformance` installs the host (npm)"),
    # All tests share one browser.
    pytest.mark.slow,
]

AXE = MODULES / "axe-core/axe.min.js"

HOSTILE = (
    '<img src=http://127.0.0.1:9/leak onerror="top.hacked=1"><script>top.hacked=1</script>'
    "</script><style>*{display:none}</style> \u202eevil\u202c\u200b {{7*7}} ${7*7}"
)


@contextmanager
def server(skills: Path, origin: str, **settings: str) -> Iterator[str]:
    """Run `skillserve serve` over HTTP, which pages of `origin` may reach; yield its address."""
    allowed = {"SKILLSERVE_ALLOWED_ORIGINS": origin, **settings}
    with subprocess.Popen(
        server_command(skills, "--transport", "http", "--port", "0"),
        cwd=REPOSITORY,
        env=server_environment(**allowed),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.strip().startswith("address"))
        drain = threading.Thread(target=process.stderr.read)
        drain.start()
        try:
            yield line.split()[-1]
        finally:
            process.terminate()
            drain.join()


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("skills")
    write_skill(root, "pdf-forms", "Fills forms of PDF files.", body="# Forms\n\nFill each field.\n" + "More. " * 3000)
    write_skill(root, "pdf-merge", "Merges PDF files.", body="Merge them for {{who}}.", fields="parameters: [who]")
    write_skill(root, "hostile", f"Hostile PDF texts: '{HOSTILE}'", body=f"Body {HOSTILE}")
    write_skill(root, "worker", "Works.", fields="confirm_patterns: ['run_command']")
    return root


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with serving_host(tmp_path_factory.mktemp("host")) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def address(skills: Path, pages: tuple[str, str]) -> Iterator[str]:
    with server(skills, pages[0].removesuffix("/host.html")) as found:
        yield found


@pytest.fixture(params=["handshake", "modern"])
def host(request: Any, chromium: Chromium, pages: tuple[str, str], address: str) -> ReferenceHost:
    chromium.show()
    chromium.requests.clear()
    found = ReferenceHost(chromium, pages[1])
    found.connect(pages[0], address, modern=request.param == "modern")
    return found


def test_a_person_searches_and_looks_at_a_skill(host: ReferenceHost) -> None:
    host.show("find_skills", {"query": "fill PDF forms"})
    assert "pdf-forms" in host.text
    host.view("document.querySelector('input').value = 'merge'")
    host.press("Search")
    host.wait("document.querySelector('h2').textContent === 'pdf-merge'")
    host.press("pdf-merge")
    host.wait("document.querySelector('.text')?.textContent.includes('Merge them for {{who}}.')")
    host.press("Use this skill")
    host.wait("document.querySelector('#status').textContent.includes('asked')")
    assert host.evaluate("host.sent") == [["message", 'Use the skill "pdf-merge".']]


def test_what_an_activation_has_given_the_model_is_shown(host: ReferenceHost) -> None:
    host.show("activate_skill", {"name": "pdf-merge", "arguments": {"who": "<b>me</b>"}})
    assert "Merge them for <b>me</b>." in host.text
    assert "given to the model" in host.text
    given = host.evaluate("host.result.content[0].text")
    assert host.view("document.querySelector('.text').textContent") == given
    host.show("activate_skill", {"name": "nothing-like-it"})
    assert "There is no active skill 'nothing-like-it'" in host.view(
        "document.querySelector('[role=alert]').textContent"
    )


def test_hostile_texts_stay_text_and_what_is_hidden_is_shown(host: ReferenceHost) -> None:
    host.show("find_skills", {"query": "hostile PDF texts"})
    host.press("hostile")
    host.wait("document.querySelector('.text')?.textContent.includes('Body <img')")
    for tool, arguments in (("find_skills", {"query": "hostile PDF texts"}), ("activate_skill", {"name": "hostile"})):
        host.show(tool, arguments)
        shown = host.view("document.querySelector('#content').textContent")
        assert "</script><style>*{display:none}</style> [U+202E]evil[U+202C][U+200B] {{7*7}} ${7*7}" in shown
        assert host.view("document.querySelectorAll('img, iframe, object, embed, [onerror], [onload]').length") == 0
        assert host.view("[document.scripts.length, document.querySelectorAll('style').length]") == [1, 1]
        assert host.view("getComputedStyle(document.querySelector('main')).display") == "flow-root"
    assert host.evaluate("window.hacked") is None


def test_the_network_sees_the_host_and_the_server_alone(
    host: ReferenceHost, address: str, pages: tuple[str, str]
) -> None:
    for tool, arguments in (("find_skills", {"query": "PDF"}), ("activate_skill", {"name": "hostile"})):
        host.show(tool, arguments)
    # Markup that came in all the same would neither load nor run anything.
    host.view(
        """(() => {
          window.violations = [];
          document.addEventListener('securitypolicyviolation', (event) => violations.push(event.effectiveDirective));
          document.body.insertAdjacentHTML('beforeend', '<img src="http://127.0.0.1:9/leak" onerror="top.hacked = 1">');
          const script = document.createElement('script');
          script.textContent = 'top.hacked = 1';
          document.body.append(script);
        })()"""
    )
    host.wait("violations.includes('img-src') && violations.some((each) => each.startsWith('script-src'))")
    assert host.evaluate("window.hacked") is None
    allowed = {pages[0], pages[0].replace(".html", ".js"), pages[1], address}
    asked = [url for url in host.browser.requests if not url.startswith("data:")]
    assert set(asked) - {"http://127.0.0.1:9/leak"} == allowed


def test_a_page_follows_the_colours_of_its_client(host: ReferenceHost) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    host.show("activate_skill", {"name": "pdf-merge"})
    assert host.view(background) == "rgb(255, 255, 255)"
    host.evaluate("host.become({ theme: 'dark' })")
    host.wait(f"{background} === 'rgb(27, 30, 37)'")
    host.evaluate("host.become({ styles: { variables: { '--color-background-primary': 'rgb(1, 2, 3)' } } })")
    host.wait(f"{background} === 'rgb(1, 2, 3)'")
    host.show("activate_skill", {"name": "pdf-merge"}, context={"theme": "dark"})
    assert host.view(background) == "rgb(27, 30, 37)"


def test_a_page_tells_its_height_and_fits_a_narrow_frame(host: ReferenceHost) -> None:
    host.browser.show(width=320)
    host.show("find_skills", {"query": "PDF"})
    host.wait("document.documentElement.scrollHeight <= innerHeight")
    assert host.view("document.documentElement.scrollWidth") <= host.view("innerWidth")
    before = host.evaluate("host.sizes.at(-1)")
    host.press("pdf-forms")
    host.wait("document.querySelector('.text') && document.documentElement.scrollHeight <= innerHeight")
    assert host.evaluate("host.sizes.at(-1)") > before


def test_the_keyboard_alone_finds_and_opens_a_skill(host: ReferenceHost) -> None:
    host.show("find_skills", {"query": "fill PDF forms"})
    host.view("document.querySelector('input').focus(); document.querySelector('input').select()")
    for key in "merge":
        host.browser.call("Input.dispatchKeyEvent", type="char", text=key)
    press(host, "Enter", "\r")
    host.wait("document.querySelector('h2').textContent === 'pdf-merge'")
    for _ in range(2):
        press(host, "Tab")
    assert host.view("document.activeElement.textContent") == "pdf-merge"
    assert host.view("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(host, "Enter", "\r")
    host.wait("document.activeElement.getAttribute('aria-expanded') === 'true'")


def press(host: ReferenceHost, key: str, text: str = "") -> None:
    code = {"Tab": 9, "Enter": 13}[key]
    down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
    host.browser.call("Input.dispatchKeyEvent", **down, key=key, code=key, windowsVirtualKeyCode=code)
    host.browser.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core, which `make conformance` installs")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_have_no_barrier_that_axe_finds(host: ReferenceHost, theme: str) -> None:
    for tool, arguments in (("find_skills", {"query": "PDF"}), ("activate_skill", {"name": "pdf-forms"})):
        host.show(tool, arguments, context={"theme": theme})
        host.view(f"{AXE.read_text(encoding='utf-8')}; 0")
        run = "axe.run(document).then(({ violations }) => violations.map((each) => [each.id, each.help]))"
        assert host.view(run) == []


def test_a_host_that_passes_on_no_calls_gets_a_page_without_buttons_for_them(host: ReferenceHost) -> None:
    host.show("find_skills", {"query": "PDF"}, abilities={})
    assert "pdf-merge" in host.text
    assert host.view("document.querySelectorAll('button, input').length") == 0


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"content": []}, "The result has no text."),
        ({"content": [{"type": "text", "text": "only text"}]}, "only text"),
        ({"content": [], "isError": True}, "The skill was not activated."),
    ],
)
def test_odd_results_are_told_of(host: ReferenceHost, result: dict[str, Any], shown: str) -> None:
    host.show("activate_skill", {"name": "pdf-merge"})
    host.evaluate(f"host.give({json.dumps(result)})")
    host.wait(f"document.body.innerText.includes({json.dumps(shown)})")


def test_a_page_tells_of_a_cancelled_call_and_lets_its_client_end_it(host: ReferenceHost) -> None:
    host.show("find_skills", {"query": "PDF"})
    host.evaluate("host.cancel('the user stopped it')")
    host.wait("document.querySelector('[role=alert]').textContent.includes('the user stopped it')")
    assert host.evaluate("host.teardown()") == {}


SCRIPT: list[Answer] = [
    Call("run_command", {"command": [sys.executable, "-c", "open('mark', 'w')"]}),
    "All done <b>&</b>.",
]


@pytest.mark.skipif(sys.platform != "linux", reason="runs a command")
@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(("answer", "agreed"), [("Allow", True), ("Do not allow", False)])
def test_a_person_decides_on_a_step_of_a_run(
    chromium: Chromium,
    pages: tuple[str, str],
    skills: Path,
    tmp_path: Path,
    endpoint: ModelEndpoint,
    answer: str,
    *,
    modern: bool,
    agreed: bool,
) -> None:
    endpoint.script = [*SCRIPT]
    work = tmp_path / "work"
    work.mkdir()
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "SKILLSERVE_RUN_TOOLS": "run_command",
        "SKILLSERVE_WORKSPACE": str(work),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    with server(skills, pages[0].removesuffix("/host.html"), **settings) as url:
        host = ReferenceHost(chromium, pages[1])
        host.connect(pages[0], url, modern=modern)
        host.show("run_skill", {"name": "worker", "message": "make a mark"})
        assert "The run asks for your consent" in host.text
        assert "open('mark', 'w')" in host.view("document.querySelector('.text').textContent")
        assert not (work / "mark").exists()
        host.press(answer)
        host.wait("document.querySelector('#status').textContent === 'completed'")
        assert "All done <b>&</b>." in host.text
        assert (work / "mark").exists() is agreed
        until(lambda: len(host.evaluate("host.sent")) == 2, "the model is told", lambda: host.text)
        (kind, told), (other, asked) = host.evaluate("host.sent")
    # What the run has said is quoted, and not said in the user's name.
    assert (kind, other) == ("context", "message")
    assert "> All done <b>&</b>." in told
    assert "All done" not in asked
    assert ("have allowed" in asked) is agreed
