"""Measure what records, metrics, JSON logs, spans and the audit log cost each request over HTTP.

One server runs for each of them, one with all, and one with none; a client asks them in turn, block by block, so that
other load on the machine affects all of them equally. Compare the ratios to the server with none.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from corpus import skill_name, write_corpus
from http_link import HttpLink
from processes import HOST, Command, free_port, running
from wire import BenchError, Era, request

if TYPE_CHECKING:
    from wire import Message

ROOT = Path(__file__).parents[1]
START_SECONDS = 60.0
CALL_SECONDS = 30.0
BLOCK = 10
WARM_UP = 5
# Blocks that are not counted.

SERVE = (sys.executable, "-m", "server", "serve", "{dir}", "--transport", "http", "--port", "{port}")
LOG = ("--log-format", "json")

COLLECTOR = f"http://{HOST}:{free_port()}"
"""The address of the collector of spans."""

VARIANTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "none": ({}, ()),
    "metrics": ({"SKILLSERVE_METRICS": "true"}, ()),
    "JSON logs": ({}, LOG),
    "audit log": ({"SKILLSERVE_AUDIT_LOG": "true"}, ()),
    "analytics": ({"SKILLSERVE_ANALYTICS": "true"}, ()),
    "spans": ({"OTEL_EXPORTER_OTLP_ENDPOINT": COLLECTOR}, ()),
    "all": (
        {
            "SKILLSERVE_METRICS": "true",
            "SKILLSERVE_AUDIT_LOG": "true",
            "SKILLSERVE_ANALYTICS": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": COLLECTOR,
        },
        LOG,
    ),
}
"""The settings and the flags of each server."""


def calls() -> dict[str, tuple[str, Message]]:
    """Return the timed requests by their names: one that only lists, and one that uses a skill."""
    activation = {"name": "activate_skill", "arguments": {"name": skill_name(0)}}
    return {"tools/list": ("tools/list", {}), "activate_skill": ("tools/call", activation)}


def _command(name: str, home: Path) -> Command:
    settings, flags = VARIANTS[name]
    state = ("XDG_STATE_HOME", str(home / "state"))
    return Command((*SERVE, *flags), ROOT, home, (state, ("SKILLSERVE_ANALYTICS", "false"), *settings.items()))


def _opened(name: str, folder: Path, skills: Path, stack: ExitStack) -> HttpLink:
    home = folder / name.replace(" ", "-")
    home.mkdir()
    port = free_port()
    process = stack.enter_context(running(_command(name, home), skills, port, piped=False))
    link = HttpLink(process, port, Era.MODERN, START_SECONDS)
    stack.callback(link.close)
    return link


def _measure(count: int, calls_of_each: int, numbers: itertools.count[int]) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each call, by its name and by server."""
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        port = COLLECTOR.rpartition(":")[2]
        collector = stack.enter_context(subprocess.Popen([sys.executable, ROOT / "bench/collector.py", port]))
        stack.callback(collector.terminate)
        write_corpus(folder / "skills", count)
        links = {each: _opened(each, folder, folder / "skills", stack) for each in VARIANTS}
        found: dict[str, dict[str, list[float]]] = {call: {each: [] for each in links} for call in calls()}
        gc.disable()
        for block in range(-WARM_UP, calls_of_each // BLOCK):
            for call, (method, params) in calls().items():
                for each, link in links.items():
                    for _ in range(BLOCK):
                        message = request(Era.MODERN, next(numbers), method, params)
                        answer = link.exchange(message, CALL_SECONDS)
                        if "result" not in answer.reply:
                            raise BenchError(f"{each}: {call}: {answer.reply}")
                        if block >= 0:
                            found[call][each].append(answer.seconds)
        gc.enable()
        return found


def main() -> int:
    """Print a table for each request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=100, help="generated skills")
    parser.add_argument("--calls", type=int, default=500, help="calls of each kind on each server")
    options = parser.parse_args()
    for call, found in _measure(options.skills, options.calls, itertools.count(1)).items():
        floor = statistics.median(found["none"])
        print(f"{call:<16}{'median':>12}{'beyond':>12}{'ratio':>8}")
        for name, seconds in found.items():
            median = statistics.median(seconds)
            print(f"  {name:<14}{median * 1000:>9.3f} ms{(median - floor) * 1000:>9.3f} ms{median / floor:>8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
