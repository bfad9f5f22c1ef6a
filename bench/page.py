"""What the page in a browser costs: 10,000 skills beside 100, and beside a server that has the same bytes ready.

Two servers run in processes of their own, and a floor in a third: Starlette with a fixed answer of the length of the
list. Requests are interleaved. With Chromium, the first paint and the time from a key to the list are measured as well.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx2
from corpus import skill_name, write_corpus
from processes import HOST, Command, free_port, running

from tests.chromium import CHROMIUM, Chromium

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PATHS: Final = {
    "the list": "/",
    "a later page": "/?page=40",
    "a search by words": "/?q=report",
    "a search as models do": "/?q=please+make+reports+for+me",
    "the page of a skill": f"/page/skill/{skill_name(7)}",
}
HTML: Final = {"Accept": "text/html"}
FLOOR: Final = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
body = "x" * int(sys.argv[1])
async def page(request):
    return HTMLResponse(body)
uvicorn.run(Starlette(routes=[Route("/", page)]), port=int(sys.argv[2]), log_level="critical")
"""


def main() -> None:
    """Measure and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--skills", type=int, default=10_000)
    arguments.add_argument("--calls", type=int, default=30)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder, ExitStack() as stack:
        root = Path(folder)
        servers = {}
        for count in (100, given.skills):
            write_corpus(root / str(count), count, bundled=False)
            words = (sys.executable, "-m", "server", "serve", "{dir}", "--transport", "http", "--port", "{port}")
            port = free_port()
            command = Command((*words, "--log-level", "warning"), REPOSITORY, root)
            process = stack.enter_context(running(command, root / str(count), port, piped=False))
            servers[count] = port, process.pid
        client = stack.enter_context(httpx2.Client(timeout=120, headers=HTML))
        for port, _ in servers.values():
            _until_listening(client, port)
        resting = {count: _resident(pid) for count, (_, pid) in servers.items()}
        length = len(client.get(f"http://{HOST}:{servers[given.skills][0]}/").content)
        floor = free_port()
        floor_words = (sys.executable, "-c", FLOOR, str(length), "{port}")
        stack.enter_context(running(Command(floor_words, REPOSITORY, root), root, floor, piped=False))
        _until_listening(client, floor)
        print(f"{'milliseconds, median':<28}{'floor':>8}{'100':>9}{given.skills:>9,}{'/ floor':>9}{'/ 100':>8}")
        for name, path in PATHS.items():
            times = _times(
                client, {0: (floor, "/"), **{n: (port, path) for n, (port, _) in servers.items()}}, given.calls
            )
            low, small, large = (statistics.median(times[each]) * 1000 for each in (0, 100, given.skills))
            print(f"{name:<28}{low:>8.2f}{small:>9.2f}{large:>9.2f}{large / low:>9.1f}{large / small:>8.2f}")
        for count, (_, pid) in servers.items():
            print(
                f"memory with {count:,} skills: {resting[count]:.0f} MB before the page, {_resident(pid):.0f} MB after"
            )
        if CHROMIUM is not None:
            for count, (port, _) in servers.items():
                _look(root / f"profile-{count}", count, port)


def _times(client: httpx2.Client, places: dict[int, tuple[int, str]], calls: int) -> dict[int, list[float]]:
    times: dict[int, list[float]] = {each: [] for each in places}
    for number in range(calls + 1):
        for each, (port, path) in places.items():
            begin = time.perf_counter()
            answer = client.get(f"http://{HOST}:{port}{path}")
            if number:  # the first one prepares what is kept
                times[each].append(time.perf_counter() - begin)
            if answer.status_code != httpx2.codes.OK:
                raise SystemExit(f"{path}: HTTP {answer.status_code}")
    return times


def _look(profile: Path, count: int, port: int) -> None:
    browser = Chromium(profile)
    try:
        paints = []
        for _ in range(5):
            browser.open(f"http://{HOST}:{port}/")
            browser.wait_until("performance.getEntriesByName('first-contentful-paint').length > 0")
            paints.append(browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        browser.evaluate(_WATCH)
        for number, letter in enumerate("report", 1):
            code = ord(letter.upper())
            for kind in ("keyDown", "keyUp"):
                text = {"text": letter} if kind == "keyDown" else {}
                browser.call("Input.dispatchKeyEvent", type=kind, key=letter, windowsVirtualKeyCode=code, **text)
            browser.wait_until(f"window.waits.length >= {number}")
        waits = browser.evaluate("window.waits")
        longest = browser.evaluate("Math.max(0, ...window.stalls)")
        print(
            f"{count:,} skills in Chromium: first paint {statistics.median(paints):.0f} ms, key to list"
            f" {statistics.median(waits):.0f} ms (80 of them a pause for the next key), longest stall {longest:.0f} ms"
        )
    finally:
        browser.close()


_WATCH: Final = """(() => {
  const words = document.getElementById('q');
  window.waits = []; window.stalls = [];
  new PerformanceObserver((all) => all.getEntries().forEach((each) => window.stalls.push(each.duration)))
    .observe({ entryTypes: ['longtask'] });
  let typed = 0;
  words.addEventListener('input', () => { typed = performance.now(); });
  const ask = window.fetch;
  window.fetch = async (...given) => {
    const answer = await ask(...given);
    const read = answer.text.bind(answer);
    answer.text = async () => {
      const text = await read();
      // What the page makes of the text is done before a timer runs.
      setTimeout(() => window.waits.push(performance.now() - typed));
      return text;
    };
    return answer;
  };
  words.focus();
})()"""


def _until_listening(client: httpx2.Client, port: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            client.get(f"http://{HOST}:{port}/")
        except httpx2.TransportError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("a server does not start")


def _resident(pid: int) -> float:
    """Return the memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    main()
