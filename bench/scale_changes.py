"""Measure changes at one size: when a client is told, what a change costs, and how long requests wait meanwhile.

A client is told when a notification has arrived after which the server answers with the change; the times do not
include the debounce. The requests that may be stalled come over the same pipe, as a stdio server has one client.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from edits import DEBOUNCE_MS
from scale_corpus import skill_path
from scale_limits import load
from scale_measures import cpu_seconds, quantile, serves, settle, uri_of
from scale_report import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from client import Client
    from scale_measures import Place

AT_ONCE = 1000
TOLD_TIMEOUT = 120.0
PING_PAUSE = 0.005
CALM_SECONDS, STALL_TIMEOUT = 5.0, 300.0
# Pings are calm again after so many spans in which each costs not much more processor time than before.
SPAN_SECONDS, CALM_SPANS, CALM_RATIO = 2.0, 2, 1.4
# Every description has this, and no body.
USE, MARK = "Use when", "Edited. Use when"
# Touches every file below a folder, as a process of its own: the pings need theirs.
TOUCH = (
    "import os, sys\nfor folder, _, names in os.walk(sys.argv[1]):\n for name in names: os.utime(folder + '/' + name)"
)


def changes(place: Place, client: Client) -> list[Row]:
    """Measure an edit, an added, a removed skill, and many edits at once; everything is restored."""
    path = place.sample[-1]
    client.subscribe([uri_of(path)])
    added = f"added/added-{path.split('/')[1]}"
    many = [skill_path(number) for number in range(min(AT_ONCE, place.skills))]
    begin = time.perf_counter()
    for each in many:
        load(f"{place.root}/{each}")
    limit = time.perf_counter() - begin
    rows = [
        *_told(client, "edit", lambda: _edit(place, [path]), lambda: _is_edited(client, path), None),
        *_told(client, "added skill", lambda: _add(place, path, added), lambda: bool(serves(client, added)), None),
        *_told(client, "removed skill", lambda: _remove(place, added), lambda: not serves(client, added), None),
    ]
    _edit(place, [path])
    settle(client.pid)
    rows += _told(
        client,
        f"{len(many):,} edits",
        lambda: _edit(place, many),
        lambda: all(_is_edited(client, each) for each in reversed(many)),
        limit,
    )
    _edit(place, many)
    settle(client.pid)
    return rows


def _told(
    client: Client, name: str, change: Callable[[], None], is_served: Callable[[], bool], limit: float | None
) -> list[Row]:
    """Make a change and wait until the client is told; the limit, in seconds, is that of what changed."""
    settle(client.pid)
    client.settle(0)
    before = cpu_seconds(client.pid)
    change()
    begin = time.perf_counter()
    while True:
        arrived = client.next_change(begin + TOLD_TIMEOUT - time.perf_counter())
        if arrived is None:
            settle(client.pid)
            return [Row(f"{name} told, ms past the debounce", None, fault=f"not told within {TOLD_TIMEOUT:g} s")]
        if is_served():
            break
    cpu = settle(client.pid) - before
    told = (arrived - begin) * 1e3 - DEBOUNCE_MS
    limit_ms = limit * 1e3 if limit else None
    return [
        Row(f"{name} told, ms past the debounce", told, limit_ms, "" if limit else "30 ms"),
        Row(f"{name}, CPU ms", cpu * 1e3, limit_ms),
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


def _is_edited(client: Client, path: str) -> bool:
    skill = serves(client, path)
    return skill is not None and MARK in skill["frontmatter"]["description"]


def _edit(place: Place, paths: list[str]) -> None:
    """Mark the descriptions of skills, or remove the mark, each by an atomic rename."""
    draft = place.work / "edited.md"
    for path in paths:
        main = place.root / path / "SKILL.md"
        text = main.read_text(encoding="utf-8")
        is_marked = MARK in text
        draft.write_text(text.replace(MARK, USE, 1) if is_marked else text.replace(USE, MARK, 1), "utf-8")
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
