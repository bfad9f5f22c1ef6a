"""Measure `find_skills` under load: many clients over HTTP, each of which sends requests without a pause.

The result is the ratio to the median of `read_skill_file` under the same load. Clients and server share the machine,
so with many clients a median is mostly queueing time.

Before that, the processor time of a search with a reranker is compared with that of a search without one. The rerankers
compute nothing, so the difference is the cost of merging: one returns an order, the other similarities.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from client import START_TIMEOUT, Client
from corpus import OBJECTS, VERBS, skill_name, write_corpus
from http_link import HttpLink
from processes import Command, free_port, running
from wire import Era

from skills_core import (
    Environment,
    Library,
    SelectionPolicy,
    Similarities,
    SkillSearch,
    explicit_sources,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skills_core import Reranker, Skill

REPOSITORY = Path(__file__).resolve().parents[1]
SERVE = (sys.executable, "-m", "server", "serve", "{dir}", "--transport", "http", "--port", "{port}")

QUERIES = [f"{verb} {what}" for verb in VERBS[:10] for what in OBJECTS[:10]]
FIRST_FIVE = SelectionPolicy(top_k=5, min_score=0.0)
WARM_UP, ROUNDS = 1, 3

Params = dict[str, object]


def main() -> int:
    """Print a line for each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=1000)
    parser.add_argument("--clients", type=int, nargs="+", default=(1, 8, 32))
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of each measurement")
    options = parser.parse_args()
    searches = [_call("find_skills", query=query) for query in QUERIES]
    reads = [_call("read_skill_file", skill=skill_name(number), path="SKILL.md") for number in range(100)]
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder:
        root = Path(folder) / "skills"
        write_corpus(root, options.skills)
        _print_cost_of_merging(root)
        port = free_port()
        with running(Command(SERVE, REPOSITORY, Path(folder)), root, port, piped=False) as process:

            @contextmanager
            def connected() -> Iterator[Client]:
                with closing(HttpLink(process, port, Era.MODERN, START_TIMEOUT)) as link:
                    yield Client(link, Era.MODERN, process.spawned, process.pid)

            with connected() as warm:
                for call in (*searches, *reads):
                    warm.call("tools/call", call)
            print(f"{'clients':>8}{'search p50':>14}{'p95':>10}{'read p50':>14}{'ratio':>8}")
            for count in options.clients:
                found = _under_load(connected, count, searches, options.seconds)
                read = _under_load(connected, count, reads, options.seconds)
                median, floor = statistics.median(found), statistics.median(read)
                late = statistics.quantiles(found, n=20)[-1]
                print(f"{count:>8}{median:>11.1f} ms{late:>7.1f} ms{floor:>11.1f} ms{median / floor:>8.1f}", flush=True)
    return 0


def _print_cost_of_merging(root: Path) -> None:
    """Print the median processor time of a query, in rounds that alternate between the searches."""
    skills = Library(explicit_sources([root]), lambda: Environment(os="linux", has_bin=lambda _: True)).catalog.offered
    cosines = {skill.path: 1 - number / len(skills) for number, skill in enumerate(skills)}

    def order(_: str, given: Sequence[Skill]) -> Sequence[Skill]:
        return given

    def similar(_: str, given: Sequence[Skill]) -> Similarities:
        return Similarities((skill, cosines[skill.path]) for skill in given)

    rerankers: dict[str, Reranker | None] = {"no reranker": None, "an order": order, "similarities": similar}
    searches = {name: SkillSearch(reranker) for name, reranker in rerankers.items()}
    times: dict[str, list[float]] = {name: [] for name in searches}
    for turn in range(WARM_UP + ROUNDS):
        for query in QUERIES:
            for name, search in searches.items():
                begun = time.thread_time()
                search.select(skills, query, FIRST_FIVE)
                if turn >= WARM_UP:
                    times[name].append((time.thread_time() - begun) * 1000)
    floor = statistics.median(times["no reranker"])
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"processor time of a query, {name}: {median:.2f} ms, ratio {median / floor:.2f}")


def _call(tool: str, **arguments: str) -> Params:
    return {"name": tool, "arguments": arguments}


def _under_load(
    connected: Callable[[], AbstractContextManager[Client]], count: int, calls: Sequence[Params], seconds: float
) -> list[float]:
    """Return the milliseconds of each call, of `count` clients that call without a pause."""
    taken: list[float] = []
    until = time.monotonic() + seconds

    def ask(number: int) -> None:
        with connected() as client:
            at = number * 7
            while time.monotonic() < until:
                begun = time.perf_counter()
                client.call("tools/call", calls[at % len(calls)])
                taken.append((time.perf_counter() - begun) * 1000)
                at += 1

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    return taken


if __name__ == "__main__":
    sys.exit(main())
