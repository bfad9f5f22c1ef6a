"""Measure a case: the same method for every size, transport and era.

The two servers alternate, by process and by block of calls, so that other load on the machine affects both equally.
Every figure is a median, with a 95th percentile where there are enough samples.
"""

from __future__ import annotations

import gc
import json
import time
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from cases import Case, Effort, Figure, Outcome, figure
from edits import edit_delays
from record import early_operations, first_operations, operations, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from client import Client
    from record import Call, Walk
    from wire import Answer

BLOCK = 10
WARM_UP = 20
FIRSTS = 200
# A model reads the list of tools before it calls one.
READING_SECONDS = 1.0
# Other clients do not wait: a server watches its folders and prepares texts in these seconds.
EARLY_SECONDS = 4.0
EARLY_BLOCK = 5
_ORDINALS = ("first", "second")


def measure(case: Case, effort: Effort) -> Outcome:
    """Measure one case: record the answers, then time cold starts, calls and edits."""
    if case.edits_only:
        return _edits(case, effort)
    with case.connect(case.ours) as client:
        names, answers = record(client)
    case.answers.write_text(json.dumps(answers), encoding="utf-8")
    figures = [_cold_start(case, effort.starts)]
    with ExitStack() as stack:
        floor, ours = (stack.enter_context(case.connect(command)) for command in (case.floor, case.ours))
        wanted = operations(case.era, names, answers["pages"])
        differing = [name for name, walks in wanted.items() if not _same_answers(floor, ours, walks)]
        figures += [_latency(name, floor, ours, walks, effort.calls) for name, walks in wanted.items()]
        edits_ms, missed = edit_delays(ours, case.folder, names[: effort.edits])
    firsts, others = _first_calls(case)
    early = [*_first_activations(case, effort.starts), *_early_calls(case, effort.starts)]
    return Outcome(case, [*figures, *firsts, *early], edits_ms, missed, [*differing, *others])


def _edits(case: Case, effort: Effort) -> Outcome:
    """Measure only edits, of skills that are spread over the whole list."""
    names = sorted(folder.name for folder in case.folder.iterdir())
    with case.connect(case.ours) as client:
        edits_ms, missed = edit_delays(
            client, case.folder, names[:: max(len(names) // effort.edits, 1)][: effort.edits]
        )
    return Outcome(case, [], edits_ms, missed, [])


def _cold_start(case: Case, count: int) -> Figure:
    """Time from process start to the first tools/list answer; the first pair is a warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(count + 1):
        for command, taken in zip((case.floor, case.ours), times, strict=True):
            with case.connect(command) as client:
                taken.append(client.timed("tools/list").end - client.spawned)
    return figure("cold start to tools/list", times[0][1:], times[1][1:])


def _first_calls(case: Case) -> tuple[list[Figure], list[str]]:
    """Time the first calls for each of many skills on new servers; also return the names of different answers."""
    with case.connect(case.ours) as client:
        names, answers = record(client, FIRSTS)
    case.answers.write_text(json.dumps(answers), encoding="utf-8")
    figures, differing = [], []
    with ExitStack() as stack:
        floor, ours = (stack.enter_context(case.connect(command)) for command in (case.floor, case.ours))
        for client in (floor, ours):
            client.call("tools/list")
        time.sleep(READING_SECONDS)
        for name, calls in first_operations(case.era, names).items():
            answered = _once(floor, ours, calls)
            figures.append(figure(f"{name} p50", *([answer.seconds for answer in each] for each in answered)))
            floors, own = ([answer.reply["result"] for answer in each] for each in answered)
            differing += [name] if floors != own else []
    return figures, differing


def _first_activations(case: Case, starts: int) -> list[Figure]:
    """Time the first two activations of new servers, a while after the list of tools: the first may do more.

    The recording is that of `_first_calls`.
    """
    calls = [walk[0] for walk in operations(case.era, _recorded(case), [])["activate_skill"][: len(_ORDINALS)]]
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in _ORDINALS}
    for _ in range(starts):
        for index, command in enumerate((case.floor, case.ours)):
            with case.connect(command) as client:
                client.call("tools/list")
                time.sleep(READING_SECONDS)
                with _no_garbage_collection():
                    for name, call in zip(_ORDINALS, calls, strict=True):
                        times[name][index].append(client.timed(*call).seconds)
    return [figure(f"{name} activation of a server", *each) for name, each in times.items()]


def _early_calls(case: Case, starts: int) -> list[Figure]:
    """Time calls of each kind from the first request to a new server on, in turns with a new floor.

    The recording is that of `_first_calls`.
    """
    times: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(starts):
        with ExitStack() as stack:
            floor, ours = (stack.enter_context(case.connect(command)) for command in (case.floor, case.ours))
            coming = {name: _endless(walks) for name, walks in early_operations(case.era, _recorded(case)).items()}
            turns = [(floor, 0), (ours, 1)]
            end = time.perf_counter() + EARLY_SECONDS
            with _no_garbage_collection():
                while time.perf_counter() < end:
                    for name, walks in coming.items():
                        block = list(islice(walks, EARLY_BLOCK))
                        for client, index in turns:
                            times.setdefault(name, ([], []))[index].extend(_block(client, block))
                        turns.reverse()
    return [figure(f"{name} p50", *each) for name, each in times.items()]


def _recorded(case: Case) -> list[str]:
    """Return the names of the skills whose answers are recorded."""
    return list(json.loads(case.answers.read_text(encoding="utf-8"))["activations"])


def _once(floor: Client, ours: Client, calls: Sequence[Call]) -> tuple[list[Answer], list[Answer]]:
    """Send each call to both servers once, in blocks of alternating order; the first is the warm-up."""
    answered: tuple[list[Answer], list[Answer]] = ([], [])
    turns = [(floor, answered[0]), (ours, answered[1])]
    for client, _ in turns:
        _block(client, [[calls[0]]] * WARM_UP)
    with _no_garbage_collection():
        for start in range(1, len(calls), BLOCK):
            for client, answers in turns:
                answers += [client.timed(*call) for call in calls[start : start + BLOCK]]
            turns.reverse()
    return answered


def _same_answers(floor: Client, ours: Client, walks: Sequence[Walk]) -> bool:
    """Return whether both servers give the same results; otherwise their times are not comparable."""
    return all(floor.call(*call) == ours.call(*call) for walk in walks for call in walk)


def _latency(name: str, floor: Client, ours: Client, walks: Sequence[Walk], calls: int) -> Figure:
    return figure(f"{name} p50", *latencies(floor, ours, walks, calls))


def latencies(floor: Client, ours: Client, walks: Sequence[Walk], calls: int) -> tuple[list[float], list[float]]:
    """Return the seconds of about `calls` calls of one kind on each server, made in blocks of alternating order."""
    length = len(walks[0])
    count, block = max(calls // length, min(calls, BLOCK)), max(BLOCK // length, 1)
    floor_times: list[float] = []
    ours_times: list[float] = []
    turns = [(floor, _endless(walks), floor_times), (ours, _endless(walks), ours_times)]
    for client, coming, _ in turns:
        _block(client, islice(coming, max(WARM_UP // length, 1)))
    with _no_garbage_collection():
        while len(ours_times) < count:
            size = min(block, count - len(ours_times))
            for client, coming, times in turns:
                times.extend(_block(client, islice(coming, size)))
            turns.reverse()
    return floor_times, ours_times


def _block(client: Client, walks: Iterable[Walk]) -> list[float]:
    return [sum(client.timed(*call).seconds for call in walk) for walk in walks]


def _endless(walks: Sequence[Walk]) -> Iterator[Walk]:
    while True:
        yield from walks


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable the client's garbage collection during timings."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
