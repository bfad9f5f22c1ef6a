"""Measure one server on very large folders once: what it answers when, and what memory it takes.

    .venv/bin/python bench/scale_once.py FOLDER... --skills 1000000 --work DIR

The folders are those of `scale_corpus.py --few-files`, with `--sources` as many as the server's bound for one folder
asks for. A cold start, without an index, and a warm one follow each other, each with requests when the server is
settled or has had its time; then one edit. Lines are printed as measured, so that a run that is ended early has told
what it reached. Run it in a memory cgroup to bound the memory.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from client import connected
from processes import Command
from scale_changes import is_marked, mark, measure_change
from scale_measures import Place, call, cpu_seconds, pages, quantile, query, serves, uri_of
from wire import BenchError, Era, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from client import Client
    from record import Call
    from wire import Message

HERE = Path(__file__).resolve().parent
REPORT_SECONDS, QUIET_SECONDS, QUIET_CPU = 20.0, 6.0, 0.15
CALLS = 5
ANSWER_SECONDS = 600.0


def main() -> None:
    """Measure a cold and a warm start and what the server then does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--skills", type=int, required=True, help="how many skills the folders have")
    parser.add_argument("--work", type=Path, required=True, help="a folder for what the server writes")
    parser.add_argument("--seconds", type=float, default=3600.0, help="most seconds to wait for a settled server")
    parser.add_argument("--starts", nargs="+", choices=("cold", "warm"), default=("cold", "warm"))
    options = parser.parse_args()
    options.work.mkdir(exist_ok=True)
    roots = [folder.resolve() for folder in options.folders]
    place = Place(roots[0], options.skills, options.work.resolve())
    for name in options.starts:
        _measure(name, place, roots, options.seconds)


def _measure(name: str, place: Place, roots: list[Path], seconds: float) -> None:
    home = place.work / "home"
    home.mkdir(exist_ok=True)
    log = place.work / f"{name}.log"
    command = shlex.join([sys.executable, "-m", "server", "serve", *map(str, roots)])
    words = ("sh", "-c", f"exec {command} 2>{shlex.quote(str(log))}")
    with connected(Command(words, HERE.parent, home), place.root, "stdio", Era.HANDSHAKE) as client:
        client.timed("tools/list")
        _say(name, client, "first answer")
        _follow(name, client, place, seconds)
        _requests(name, client, place)
        if name == "warm":
            _edit(name, client, place, roots)
        ended = time.perf_counter()
    print(f"{name}: ended after {time.perf_counter() - ended:.2f} s", flush=True)


def _follow(name: str, client: Client, place: Place, seconds: float) -> None:
    """Ask for the sample until the server serves it all and is settled; tell the longest of these requests."""
    end, reported = client.spawned + seconds, 0.0
    missing, longest = list(place.sample), 0.0
    quiet, before = time.perf_counter(), cpu_seconds(client.pid)
    while time.perf_counter() < end:
        time.sleep(0.25)
        asked = time.perf_counter()
        is_served = _serves(client, missing[0] if missing else place.sample[0])
        longest = max(longest, time.perf_counter() - asked)
        if not is_served:
            missing.append(missing.pop(0))
        elif missing:
            missing = [path for path in missing[1:] if not _serves(client, path)]
            if not missing:
                _say(name, client, "all of the sample served")
        now, cpu = time.perf_counter(), cpu_seconds(client.pid)
        if now - reported > REPORT_SECONDS:
            reported = now
            _report(name, client, place, f"{len(place.sample) - len(missing)} of {len(place.sample)}", longest)
            longest, cpu = 0.0, cpu_seconds(client.pid)
        if cpu - before > QUIET_CPU:
            quiet, before = time.perf_counter(), cpu
        elif not missing and now - quiet > QUIET_SECONDS:
            _say(name, client, "settled")
            return
    _say(name, client, f"not settled; {len(place.sample) - len(missing)} of the sample served")


def _serves(client: Client, path: str) -> bool:
    """Return whether the server knows the skill; other than `serves`, wait for an answer as long as it takes."""
    try:
        client.timed("skills/get", {"uri": uri_of(path)}, ANSWER_SECONDS)
    except RefusedError:
        return False
    return True


def _report(name: str, client: Client, place: Place, served: str, longest: float) -> None:
    method, params = call("find_skills", query=query(place.sample[-1]))
    answer = client.timed(method, params, ANSWER_SECONDS)
    first = answer.reply["result"]["content"][-1]["text"][:160].replace("\n", " | ")
    _say(
        name,
        client,
        f"{served}; longest skills/get {longest * 1e3:.0f} ms; find_skills {answer.seconds * 1e3:.0f} ms: {first}",
    )


def _requests(name: str, client: Client, place: Place) -> None:
    sample = [path for path in place.sample if serves(client, path) is not None]
    asked: dict[str, Callable[[str], Call]] = {
        "activate_skill": lambda path: call("activate_skill", name=path.split("/")[1]),
        "skills/get": lambda path: ("skills/get", {"uri": uri_of(path)}),
        "resources/read": lambda path: ("resources/read", {"uri": uri_of(path)}),
        "find_skills": lambda path: call("find_skills", query=query(path)),
    }
    for method, request in asked.items():
        first = [_seconds(client, *request(path)) for path in sample]
        again = [_seconds(client, *request(path)) for _ in range(CALLS) for path in sample]
        _say(
            name,
            client,
            f"{method}: first calls p50 {statistics.median(first) * 1e3:.2f}, longest {max(first) * 1e3:.1f} ms; "
            f"later p50 {statistics.median(again) * 1e3:.2f}, p99 {quantile(again, 0.99) * 1e3:.2f} ms",
        )
    begin = time.perf_counter()
    took, skills = list[float](), 0
    for page in pages(client):
        took.append(time.perf_counter() - begin)
        skills += len(page["skills"])
        begin = time.perf_counter()
    _say(
        name,
        client,
        f"skills/list: {skills} skills in {len(took)} pages, {sum(took):.1f} s; a page p50 "
        f"{statistics.median(took) * 1e3:.2f}, longest {max(took) * 1e3:.1f} ms",
    )


def _seconds(client: Client, method: str, params: Message) -> float:
    try:
        return client.timed(method, params, timeout=ANSWER_SECONDS).seconds
    except RefusedError as error:
        raise BenchError(str(error)) from error


def _edit(name: str, client: Client, place: Place, roots: list[Path]) -> None:
    path = place.sample[-1]
    place = replace(place, root=next(root for root in roots if (root / path).exists()))
    client.subscribe([uri_of(path)])
    try:
        told, cpu = measure_change(client, lambda: mark(place, [path]), lambda: is_marked(client, path))
    finally:
        mark(place, [path], remove=True)
    text = "not notified" if told is None else f"notified {told:.0f} ms past the debounce"
    _say(name, client, f"one edit: {text}, {cpu / 1e3:.1f} s of processor time")


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _say(name: str, client: Client, text: str) -> None:
    process = psutil.Process(client.pid)
    memory = sum(_rss(each) for each in (process, *process.children(recursive=True))) / 1e6
    at = time.perf_counter() - client.spawned
    print(f"{name} {at:8.2f} s, CPU {cpu_seconds(client.pid):7.1f} s, RSS {memory:6.0f} MB: {text}", flush=True)


if __name__ == "__main__":
    main()
