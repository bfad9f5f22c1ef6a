"""Measure starts, memory and requests at one size, each beside its limit in the same run.

Every server is a process of its own with default settings, over stdio. All files were read just before, so they are in
the page cache. A server is settled when it uses no processor time for a second and a half.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
from client import Client, connected
from floor import Answers
from measure import latencies
from processes import Command
from scale_corpus import skill_path
from scale_limits import Cost, run
from scale_report import Row
from wire import BenchError, Era, RefusedError

if TYPE_CHECKING:
    from record import Call, Walk
    from wire import Message

HERE = Path(__file__).resolve().parent
SAMPLE = 20
QUIET, QUIET_CPU, QUIET_TIMEOUT = 1.5, 0.03, 600.0
COMPLETE_TIMEOUT = 600.0
POLL = 0.02


@dataclass(frozen=True)
class Place:
    """A corpus to measure: its folder and number of skills, and a folder for everything that servers write."""

    root: Path
    skills: int
    work: Path

    @property
    def sample(self) -> list[str]:
        """The paths of skills that are spread over the whole corpus."""
        return [skill_path(number) for number in range(0, self.skills, max(self.skills // SAMPLE, 1))][:SAMPLE]

    @contextmanager
    def served(self, home: str, era: Era, root: Path | None = None) -> Iterator[Client]:
        """Connect to a new server with a home folder of this name; an index on disk is in there, if there is one."""
        (self.work / home).mkdir(exist_ok=True)
        words = (sys.executable, "-m", "server", "serve", "{dir}")
        with connected(Command(words, HERE.parent, self.work / home), root or self.root, "stdio", era) as client:
            yield client

    @contextmanager
    def floor(self, answers: Message) -> Iterator[Client]:
        """Connect to a floor that has the answers and no skills."""
        recording, empty = self.work / "answers.json", self.work / "empty"
        recording.write_text(
            json.dumps({each.name: {} for each in fields(Answers) if each.name != "schemas"} | answers)
        )
        empty.mkdir(exist_ok=True)
        words = (sys.executable, "-m", "floor", "{dir}", "--answers", str(recording))
        with connected(Command(words, HERE, self.work), empty, "stdio", Era.MODERN) as client:
            yield client


class Start(NamedTuple):
    """A start: the first answer, the complete library, and everything until the server is settled.

    `rss` and `uss` are the bytes of memory of the settled server.
    """

    first: float
    complete: Cost
    settled_cpu: float
    rss: int
    uss: int


def cpu_seconds(pid: int) -> float:
    """Return the processor time so far of a process and of all that it started."""
    seconds, process = 0.0, psutil.Process(pid)
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return float(seconds)


def settle(pid: int) -> float:
    """Wait until a server is settled; return its processor time."""
    end = time.perf_counter() + QUIET_TIMEOUT
    before = cpu_seconds(pid)
    while time.perf_counter() < end:
        time.sleep(QUIET)
        after = cpu_seconds(pid)
        if after - before < QUIET_CPU:
            return after
        before = after
    raise BenchError(f"the server was not settled after {QUIET_TIMEOUT:g} s")


def uri_of(path: str) -> str:
    """Return the URI of the SKILL.md of a skill, given its folder."""
    return f"skill://{path}/SKILL.md"


def serves(client: Client, path: str) -> Message | None:
    """Return what `skills/get` answers about a skill, None if the server does not know it."""
    try:
        skill: Message = client.call("skills/get", {"uri": uri_of(path)})["skill"]
    except RefusedError:
        return None
    return skill


# Starts and memory


def starts(place: Place, rounds: int) -> list[Row]:
    """Measure cold and warm starts and the memory; loops and servers alternate, after one loop as a warm-up."""
    metadata = run("load", place.root)[1]
    empty = place.work / "nothing"
    empty.mkdir()
    done: dict[str, list[Start]] = {"cold": [], "warm": [], "empty": []}
    limits: dict[str, list[Cost]] = {"load": [], "walk": []}
    for number in range(rounds):
        limits["load"].append(run("load", place.root)[0])
        done["cold"].append(_start(place, f"home{number}", place.root))
        limits["walk"].append(run("walk", place.root)[0])
        done["warm"].append(_start(place, f"home{number}", place.root))
        done["empty"].append(_start(place, f"home{number}-empty", empty))
    middle = {name: _median(each) for name, each in done.items()}
    load, walk = (Cost(*map(statistics.median, zip(*limits[each], strict=True))) for each in ("load", "walk"))
    return [*_start_rows(middle, load, walk), *_memory_rows(middle, metadata)]


def _start(place: Place, home: str, root: Path) -> Start:
    with place.served(home, Era.HANDSHAKE, root) as client:
        first = client.timed("tools/list").end - client.spawned
        if root == place.root:
            _await_all(client, place.sample)
        else:
            # The first answers may come before the server is loaded; this one does not.
            serves(client, "no/skill")
        complete = Cost(time.perf_counter() - client.spawned, cpu_seconds(client.pid))
        settled = settle(client.pid)
        memory = psutil.Process(client.pid).memory_full_info()
        return Start(first, complete, settled, memory.rss, memory.uss)


def _await_all(client: Client, paths: list[str]) -> None:
    """Wait until a server serves all these skills; it gets one request at a time, so that this costs it little."""
    end = time.perf_counter() + COMPLETE_TIMEOUT
    for path in paths:
        while serves(client, path) is None:
            if time.perf_counter() > end:
                raise BenchError(f"not served after {COMPLETE_TIMEOUT:g} s: {path}")
            time.sleep(POLL)


def _median(of: Sequence[Start]) -> Start:
    return sorted(of, key=lambda start: start.complete.cpu)[len(of) // 2]


def _start_rows(starts: dict[str, Start], load: Cost, walk: Cost) -> list[Row]:
    cold, warm, empty = starts["cold"], starts["warm"], starts["empty"]
    rows = [
        Row("first answer, cold, s (empty server)", cold.first, empty.first, "1"),
        Row("first answer, warm, s (empty server)", warm.first, empty.first, "1"),
    ]
    for name, start, limit, cost in (("cold", cold, "plain loop", load), ("warm", warm, "walk + stat", walk)):
        rows += [
            Row(f"{name} start complete, s ({limit})", start.complete.wall, cost.wall, "1.5"),
            Row(f"… CPU s beyond an empty server ({limit})", start.complete.cpu - empty.complete.cpu, cost.cpu, "1.5"),
            Row(f"… the same until settled ({limit})", start.settled_cpu - empty.settled_cpu, cost.cpu),
        ]
    return rows


def _memory_rows(starts: dict[str, Start], metadata: int) -> list[Row]:
    cold, warm, empty = starts["cold"], starts["warm"], starts["empty"]
    return [
        Row("RSS beyond an empty server, cold, MB (metadata)", (cold.rss - empty.rss) / 1e6, metadata / 1e6, "2"),
        Row("USS beyond an empty server, cold, MB (metadata)", (cold.uss - empty.uss) / 1e6, metadata / 1e6, "2"),
        Row("USS beyond an empty server, warm, MB (metadata)", (warm.uss - empty.uss) / 1e6, metadata / 1e6, "2"),
    ]


# Requests


def requests(place: Place, client: Client, calls: int) -> list[Row]:
    """Measure requests of a settled server in turns with a floor that has the same answers."""
    rows = [Row("first find_skills, ms", _first_search(place, client) * 1e3, goal="20 ms")]
    walks = _walks(place)
    page: Call = ("skills/list", {})
    floor_answers = {**_record(client, walks), "pages": {"": client.call(*page)}}
    with place.floor(floor_answers) as floor:
        for name, each in walks.items():
            floors, ours = latencies(floor, client, each, calls)
            rows += [
                Row(f"{name} {label}, ms", quantile(ours, share) * 1e3, quantile(floors, share) * 1e3, goal)
                for label, share, goal in (("p50", 0.5, _GOALS[name]), ("p99", 0.99, ""))
            ]
        listed = len(floor_answers["pages"][""]["skills"])
        paged = latencies(floor, client, [[page]], max(calls // 10, 2))[0]
    return [*rows, *_listing(place, client, statistics.median(paged) / listed)]


_GOALS = {"activate_skill": "1.15", "skills/get": "1.15", "resources/read": "1.15", "find_skills": "10 ms"}


def _walks(place: Place) -> dict[str, list[Walk]]:
    return {
        "activate_skill": [[call("activate_skill", name=path.split("/")[1])] for path in place.sample],
        "skills/get": [[("skills/get", {"uri": uri_of(path)})] for path in place.sample],
        "resources/read": [[("resources/read", {"uri": uri_of(path)})] for path in place.sample],
        "find_skills": [[call("find_skills", query=query(path))] for path in place.sample],
    }


def call(tool: str, **arguments: str) -> Call:
    """Return the call of a tool."""
    return ("tools/call", {"name": tool, "arguments": arguments})


def query(path: str) -> str:
    """Return what a user asks for who wants a skill like this one: the words of its name."""
    return " ".join(path.split("/")[1].split("-")[:-1])


def _first_search(place: Place, client: Client) -> float:
    answer = client.timed(*call("find_skills", query=place.sample[-1].split("/")[1]), timeout=QUIET_TIMEOUT)
    if place.sample[-1].split("/")[1] not in json.dumps(answer.reply):
        raise BenchError(f"find_skills does not find {place.sample[-1]} by its name")
    return answer.seconds


def _record(client: Client, walks: dict[str, list[Walk]]) -> Message:
    """Send every request once, and check that its answer is about the skill."""
    answers: Message = {"tools": client.call("tools/list"), "activations": {}, "skills": {}, "reads": {}}
    tables = {"activate_skill": "activations", "skills/get": "skills", "resources/read": "reads"}
    for name, calls in walks.items():
        for [(method, params)] in calls:
            key = params.get("uri") or next(iter(params["arguments"].values()))
            result = client.call(method, params)
            expected = key.split()[1] if name == "find_skills" else key.removesuffix("/SKILL.md").split("/")[-1]
            if result.get("isError") or expected not in json.dumps(result):
                raise BenchError(f"{name} {key}: {json.dumps(result)[:300]}")
            answers[tables.get(name, "activations")][key] = result
    return answers


def _listing(place: Place, client: Client, floor: float) -> list[Row]:
    """List all skills by pages, twice; the second listing shows whether the memory still grows."""
    process, seconds = psutil.Process(client.pid), list[float]()
    rss = [process.memory_info().rss]
    for _ in range(2):
        begin = time.perf_counter()
        found = sum(len(page["skills"]) for page in pages(client))
        seconds.append((time.perf_counter() - begin) / place.skills)
        rss.append(process.memory_info().rss)
        if found != place.skills:
            raise BenchError(f"skills/list has {found} skills of {place.skills}")
    return [
        Row("skills/list, all pages, µs a skill (one page)", min(seconds) * 1e6, floor * 1e6, "flat"),
        Row("memory of a listing, MB", (rss[1] - rss[0]) / 1e6, goal="flat"),
        Row("memory of a second listing, MB", (rss[2] - rss[1]) / 1e6, goal="0"),
    ]


def pages(client: Client) -> Iterator[Message]:
    """Yield all pages of `skills/list`."""
    page = client.call("skills/list", {})
    yield page
    while (cursor := page.get("nextCursor")) is not None:
        page = client.call("skills/list", {"cursor": cursor})
        yield page


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return sorted(values)[min(math.floor(len(values) * share), len(values) - 1)]
