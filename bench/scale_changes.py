"""Measure changes at one size: when a client is told, what a change costs, and how long requests wait meanwhile.

A client is told when a notification has arrived after which the server answers with the change; the times do not
include the debounce. The requests that may be stalled come over the same pipe, as a stdio server has one client.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from edits import DEBOUNCE_MS
from scale_corpus import skill_path
from scale_limits import Cost, load
from scale_measures import cpu_seconds, quantile, serves, settle, uri_of
from scale_report import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from client import Client
    from scale_measures import Place

AT_ONCE = 1000
TOLD_TIMEOUT = 120.0
TRIALS = 3
PING_PAUSE = 0.005
CALM_SECONDS, STALL_TIMEOUT = 5.0, 900.0
# Pings are calm again after so many spans in which each costs not much more processor time than before.
SPAN_SECONDS, CALM_SPANS, CALM_RATIO = 2.0, 2, 1.4
# Every description has this, and no body.
USE, MARK = "Use when", "Edited. Use when"
# Touches every file below a folder, as a process of its own: the pings need theirs.
TOUCH = (
    "import os, sys\nfor folder, _, names in os.walk(sys.argv[1]):\n for name in names: os.utime(folder + '/' + name)"
)


class Told(NamedTuple):
    """When a client was notified of a change, in ms past the debounce, and the server's processor time in ms.

    The time is None if the client was not notified within `TOLD_TIMEOUT`.
    """

    ms: float | None
    cpu: float


def changes(place: Place, client: Client) -> list[Row]:
    """Measure edits, added and removed skills one at a time, and many edits at once; everything is restored."""
    path = place.sample[-1]
    added = f"added/added-{path.split('/')[1]}"
    many = [skill_path(number) for number in range(min(AT_ONCE, place.skills))]
    limit = _cost_to_load(place, many)
    client.subscribe([uri_of(path)])
    alone: dict[str, list[Told]] = {"edit": [], "added skill": [], "removed skill": []}
    try:
        for _ in range(TRIALS):
            alone["edit"].append(measure_change(client, lambda: mark(place, [path]), lambda: is_marked(client, path)))
            mark(place, [path], remove=True)
            add, remove = (lambda: _add(place, path, added)), (lambda: _remove(place, added))
            alone["added skill"].append(measure_change(client, add, lambda: serves(client, added) is not None))
            alone["removed skill"].append(measure_change(client, remove, lambda: serves(client, added) is None))
        at_once = measure_change(
            client, lambda: mark(place, many), lambda: all(is_marked(client, each) for each in reversed(many))
        )
    finally:
        mark(place, many, remove=True)
        mark(place, [path], remove=True)
        shutil.rmtree((place.root / added).parent, ignore_errors=True)
    rows = [row for name, trials in alone.items() for row in _told_rows(name, trials)]
    return [*rows, *_told_rows(f"{len(many):,} edits at once", [at_once], limit)]


def _cost_to_load(place: Place, paths: list[str]) -> Cost:
    begin, cpu = time.perf_counter(), time.process_time()
    for path in paths:
        load(f"{place.root}/{path}")
    return Cost(time.perf_counter() - begin, time.process_time() - cpu)


def measure_change(client: Client, change: Callable[[], None], is_served: Callable[[], bool]) -> Told:
    """Make a change on a settled server, and wait until the client is notified and the server is settled again.

    The client has listed the tools since it was notified of the change before, as clients do.
    """
    client.call("tools/list", {})
    settle(client.pid)
    client.settle(0)
    before = cpu_seconds(client.pid)
    change()
    begin = time.perf_counter()
    told = None
    while (arrived := client.next_change(begin + TOLD_TIMEOUT - time.perf_counter())) is not None:
        if is_served():
            told = (arrived - begin) * 1e3 - DEBOUNCE_MS
            break
    return Told(told, (settle(client.pid) - before) * 1e3)


def _told_rows(name: str, trials: list[Told], limit: Cost | None = None) -> list[Row]:
    """Return the medians of the trials; the limit is that of loading what changed."""
    times = [trial.ms for trial in trials if trial.ms is not None]
    wall, cpu = (limit.wall * 1e3, limit.cpu * 1e3) if limit else (None, None)
    fault = f"not told within {TOLD_TIMEOUT:g} s" if len(times) < len(trials) else ""
    told = None if fault else statistics.median(times)
    return [
        Row(f"{name} told, ms past the debounce", told, wall, "" if limit else "30 ms", fault),
        Row("… CPU ms", statistics.median(trial.cpu for trial in trials), cpu),
    ]


def stalls(place: Place, client: Client) -> list[Row]:
    """Return the longest ping while all files are touched, until pings cost what they cost before."""
    settle(client.pid)
    calm, calm_cpu = _pings(client, place.sample[0], CALM_SECONDS)
    busy: list[float] = []
    spans_in_a_row, begin = 0, time.perf_counter()
    before = cpu_seconds(client.pid)
    with subprocess.Popen([sys.executable, "-c", TOUCH, str(place.root)]) as touching:
        while spans_in_a_row < CALM_SPANS:
            if time.perf_counter() - begin > STALL_TIMEOUT:
                touching.wait()
                return [Row("longest ping while all is touched, ms", None, fault=f"busy for {STALL_TIMEOUT:g} s")]
            times, cpu = _pings(client, place.sample[0], SPAN_SECONDS)
            busy += times
            is_calm = touching.poll() is not None and cpu / len(times) < CALM_RATIO * calm_cpu / len(calm)
            spans_in_a_row = spans_in_a_row + 1 if is_calm else 0
    cpu = cpu_seconds(client.pid) - before - len(busy) * calm_cpu / len(calm)
    return [
        Row("longest ping while all is touched, ms (before)", max(busy) * 1e3, max(calm) * 1e3, "100 ms"),
        Row("p99 of these pings, ms (before)", quantile(busy, 0.99) * 1e3, quantile(calm, 0.99) * 1e3),
        Row("touching all, CPU s beyond the pings", cpu),
    ]


def _pings(client: Client, path: str, seconds: float) -> tuple[list[float], float]:
    """Ask for a skill every few milliseconds; return the seconds of each request, and the server's processor time."""
    before, end = cpu_seconds(client.pid), time.perf_counter() + seconds
    times: list[float] = []
    while time.perf_counter() < end:
        times.append(client.timed("skills/get", {"uri": uri_of(path)}, STALL_TIMEOUT).seconds)
        time.sleep(PING_PAUSE)
    return times, cpu_seconds(client.pid) - before


def is_marked(client: Client, path: str) -> bool:
    """Return whether the server serves the mark of a skill."""
    skill = serves(client, path)
    return skill is not None and MARK in skill["frontmatter"]["description"]


def mark(place: Place, paths: list[str], *, remove: bool = False) -> None:
    """Mark the descriptions of skills, or remove the marks, each by an atomic rename."""
    draft = place.work / "edited.md"
    for path in paths:
        main = place.root / path / "SKILL.md"
        text = main.read_text(encoding="utf-8")
        edited = text.replace(MARK, USE, 1) if remove else text.replace(USE, MARK, 1)
        if edited != text:
            draft.write_text(edited, encoding="utf-8")
            os.replace(draft, main)  # noqa: PTH105 - a Path says no more


def _add(place: Place, path: str, added: str) -> None:
    """Copy a skill under another name, and move the complete copy into the corpus."""
    draft = place.work / "added"
    shutil.copytree(place.root / path, draft)
    main, (name, other) = draft / "SKILL.md", (each.split("/")[1] for each in (path, added))
    main.write_text(main.read_text(encoding="utf-8").replace(f"name: {name}", f"name: {other}", 1), "utf-8")
    (place.root / added).parent.mkdir(exist_ok=True)
    draft.rename(place.root / added)


def _remove(place: Place, added: str) -> None:
    shutil.rmtree((place.root / added).parent)
