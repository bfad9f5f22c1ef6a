"""Measure verdicts on simulated evals whose truth is known: false ones, right ones, and what the intervals cover.

Each experiment draws cases, runs and grades, and is scored by `score_iteration`, as an eval is. Five worlds differ in
how hard cases are and whom a skill helps; a cell (a truth, a number of cases and of runs) has the same number of
experiments of each. The exit code is 1 if a claim of the documentation does not hold, by more than chance.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import Pool
from random import Random
from statistics import fmean, median
from typing import Any, Final, NamedTuple

from skills_core.evals.grading.benchmark import score_iteration
from skills_core.evals.grading.results import RunScore
from skills_core.evals.statistics import MIN_CASES, wilson

SUBJECT, BASELINE = "with_skill", "without_skill"
TIMES: Final = "\u00d7"
CASES: Final = (3, 5, 6, 10, 20)
RUNS: Final = (1, 3, 5)

MOST_FALSE: Final = 0.05
LEAST_COVERAGE: Final = 0.9
COVERED_FROM: Final = 5
LEAST_POWER: Final = 0.65
POWER_AT: Final = (10, 5)

_TRUTH_SAMPLE: Final = 20_000

_HALF: Final = 0.5
_GAINING: Final = 0.8
# The share of cases that gain in the world of losses.


class Case(NamedTuple):
    """The probability of each assertion in both arms; `together` tells that those of a run pass or fail together."""

    base: list[float]
    skill: list[float]
    together: bool


World = Callable[[Random, float], Case]


def _case(chance: Random, base: float, skill: float) -> Case:
    count = chance.randint(1, 6)
    clipped = [min(1.0, max(0.0, rate)) for rate in (base, skill)]
    return Case([clipped[0]] * count, [clipped[1]] * count, chance.random() < _HALF)


def even(chance: Random, gain: float) -> Case:
    """Cases of any difficulty, which gain about the same."""
    base = chance.uniform(0.35, 0.65)
    return _case(chance, base, base + (chance.gauss(gain, 0.1) if gain else 0.0))


def easy_and_hard(chance: Random, gain: float) -> Case:
    """Half of the cases are nearly always solved, half nearly never: there is only one side to move."""
    easy = chance.random() < _HALF
    moved = gain != 0 and easy == (gain < 0)
    base = 0.95 if easy else 0.05
    # The other half moves as far as it can, which is little.
    little = min(0.04, abs(gain)) * (1 if gain > 0 else -1 if gain < 0 else 0)
    return _case(chance, base, base + (2 * gain - little if moved else little))


def assertions(chance: Random, gain: float) -> Case:
    """Assertions differ: always met, never, or by chance; a skill fixes or breaks some of them."""
    count = chance.randint(1, 6)
    base = [chance.choice((0.03, 0.5, 0.97)) for _ in range(count)]
    goal = 0.97 if gain > 0 else 0.03
    # The mean over the assertions that can move is gain.
    share = abs(gain) / fmean(abs(goal - rate) for rate in (0.03, 0.5, 0.97))
    skill = [goal if chance.random() < share else rate for rate in base]
    return Case(base, skill, chance.random() < _HALF)


def few(chance: Random, gain: float) -> Case:
    """A skill teaches what a few cases need, and nothing to the others."""
    if chance.random() < abs(gain) / 0.9:
        return _case(chance, 0.05, 0.95) if gain > 0 else _case(chance, 0.95, 0.05)
    base = chance.uniform(0.1, 0.9)
    return _case(chance, base, base)


def losses(chance: Random, gain: float) -> Case:
    """Four of five cases gain more than the mean, and one loses much, also if the mean is 0."""
    base = chance.uniform(0.4, 0.6)
    return _case(chance, base, base + gain + (0.1 if chance.random() < _GAINING else -0.4))


WORLDS: Final[tuple[World, ...]] = (even, easy_and_hard, assertions, few, losses)


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of the skill, and what goes wrong with the runs.

    `crash` is the probability that a run of an arm fails, `crash_of_hard` that one of a hard case with the skill does,
    `crash_of_bad` that a run with the skill does that fails most of its assertions. With `repeat`, it is run again.
    """

    name: str
    gain: float = 0.0
    flaky: float = 0.0
    crash: dict[str, float] = field(default_factory=dict)
    crash_of_hard: float = 0.0
    crash_of_bad: float = 0.0
    repeat: bool = False
    not_loaded: float = 0.0

    @property
    def fails(self) -> bool:
        """Whether runs can fail."""
        return bool(self.crash or self.crash_of_hard or self.crash_of_bad)


TRUTHS: Final = (
    Truth("no effect"),
    Truth("+10 points", 0.1),
    Truth("+30 points", 0.3),
    Truth("-30 points", -0.3),
    Truth("no effect, flaky grader", flaky=0.2),
    Truth("+30 points, flaky grader", 0.3, flaky=0.2),
    Truth("no effect, a fifth crashes with the skill", crash={SUBJECT: 0.2}),
    Truth("no effect, a fifth crashes in the baseline", crash={BASELINE: 0.2}),
    Truth("no effect, hard cases crash with the skill", crash_of_hard=0.5),
    Truth("no effect, bad runs crash with the skill", crash_of_bad=0.5),
    Truth("no effect, bad runs crash and are repeated", crash_of_bad=0.5, repeat=True),
    Truth("no effect, cheats in both arms are errors", crash={SUBJECT: 0.2, BASELINE: 0.2}),
    Truth("+30 points, a twentieth crashes in both arms", 0.3, crash={SUBJECT: 0.05, BASELINE: 0.05}),
    Truth("no effect, two fifths never load the skill", not_loaded=0.4),
    Truth("+30 points, two fifths never load the skill", 0.3, not_loaded=0.4),
)


def _rate(chance: Random, truth: Truth, rates: Sequence[float], *, together: bool) -> float:
    shared = chance.random()
    passed = [(shared if together else chance.random()) < rate for rate in rates]
    return fmean(chance.random() < _HALF if chance.random() < truth.flaky else each for each in passed)


def _run(chance: Random, truth: Truth, case: Case, key: tuple[str, str, int], attempt: int = 1) -> RunScore:
    name, arm, number = key
    with_skill = arm == SUBJECT
    loaded = chance.random() >= truth.not_loaded if with_skill and truth.not_loaded else None
    rates = case.skill if with_skill and loaded is not False else case.base
    rate = _rate(chance, truth, rates, together=case.together)
    risk = truth.crash.get(arm, 0.0)
    if with_skill and fmean(case.base) < _HALF:
        risk = max(risk, truth.crash_of_hard)
    if with_skill and rate < _HALF:
        risk = max(risk, truth.crash_of_bad)
    crashed = chance.random() < risk
    if crashed and truth.repeat:
        return _run(chance, truth, case, key, attempt + 1)
    return RunScore(
        case=name,
        arm=arm,
        number=number,
        rate=None if crashed else rate,
        is_graded=not crashed,
        is_repeated=attempt > 1,
        loaded=None if crashed else loaded,
    )


def experiment(chance: Random, truth: Truth, world: World, cases: int, runs: int) -> dict[str, Any]:
    """Return the object `effect` of an eval."""
    found = [
        _run(chance, truth, case, (f"case-{place}", arm, number))
        for place, case in enumerate(world(chance, truth.gain) for _ in range(cases))
        for arm in (SUBJECT, BASELINE)
        for number in range(1, runs + 1)
    ]
    effect: Any = score_iteration(found, (SUBJECT, BASELINE), BASELINE)["effect"]
    return dict(effect)


def true_means(truth: Truth, world: World) -> tuple[float, float]:
    """Return the mean difference that endless cases and runs would show, and that of runs that load the skill."""
    # Grades by chance hide their part of the difference.
    treated = _true_gain(world, truth.gain) * (1 - truth.flaky)
    return treated * (1 - truth.not_loaded), treated


@cache
def _true_gain(world: World, gain: float) -> float:
    chance = Random(0)  # noqa: S311 - a reproducible sample
    cases = (world(chance, gain) for _ in range(_TRUTH_SAMPLE))
    return fmean(fmean(case.skill) - fmean(case.base) for case in cases)


class Cell(NamedTuple):
    """What came out of the experiments of a truth, a world, and a number of cases and runs.

    Where runs fail, both intervals together have to cover; `treated` is None where all load the skill.
    """

    truth: Truth
    world: str
    cases: int
    runs: int
    experiments: int
    better: int
    worse: int
    covered: int
    treated: int | None
    width: float

    @property
    def false(self) -> int:
        """How many verdicts contradict the truth."""
        return (self.better if self.truth.gain <= 0 else 0) + (self.worse if self.truth.gain >= 0 else 0)

    @property
    def right(self) -> int:
        """How many verdicts say the truth."""
        return self.better if self.truth.gain > 0 else self.worse if self.truth.gain < 0 else 0


def measure(samples: int, place: tuple[Truth, World, int, int]) -> Cell:
    """Make the experiments of a cell in one world."""
    truth, world, cases, runs = place
    chance = Random(f"{truth.name} {world.__name__} {cases} {runs}")  # noqa: S311
    mean, treated_mean = true_means(truth, world)
    made = [experiment(chance, truth, world, cases, runs) for _ in range(samples)]
    verdicts = [each["verdict"] for each in made]
    bounds = ("failures_left_out", "failures_as_zero") if truth.fails else ("failures_left_out",)
    treated = [each["as_treated"] for each in made if each["as_treated"]]
    return Cell(
        truth=truth,
        world=world.__name__,
        cases=cases,
        runs=runs,
        experiments=samples,
        better=verdicts.count("better"),
        worse=verdicts.count("worse"),
        covered=sum(_covers([each[name]["interval"] for name in bounds], mean) for each in made),
        treated=sum(_covers([each["interval"]], treated_mean) for each in treated) if truth.not_loaded else None,
        width=median(_width(each["interval"]) for each in made),
    )


def _covers(intervals: Sequence[dict[str, float] | None], mean: float) -> bool:
    known = [each for each in intervals if each is not None]
    # Without an interval, nothing false is said.
    return not known or min(each["low"] for each in known) - 1e-4 <= mean <= max(each["high"] for each in known) + 1e-4


def _width(interval: dict[str, float] | None) -> float:
    return 2.0 if interval is None else interval["high"] - interval["low"]


def main() -> None:
    """Print the tables, and what does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100, help="experiments of each world in a cell, of five worlds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    places = [(truth, world, cases, runs) for truth in TRUTHS for world in WORLDS for cases in CASES for runs in RUNS]
    with Pool(options.jobs) as pool:
        cells = pool.map(partial(measure, options.samples), places, chunksize=1)
    each = options.samples * len(WORLDS)
    print(f"{len(places) * options.samples:,} experiments, {each} in each cell of a truth, cases and runs\n")
    for lines in (_sizes(cells), _truths(cells), _worlds(cells), _few_cases(cells)):
        print("\n".join(lines), end="\n\n")
    failed = list(_failed(cells))
    print("\n".join(failed or ["All claims hold."]))
    sys.exit(bool(failed))


def _share(counts: Sequence[int], cells: Sequence[Cell]) -> float:
    return sum(counts) / sum(cell.experiments for cell in cells)


def _percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def _groups(cells: Sequence[Cell], key: Callable[[Cell], Any]) -> dict[Any, list[Cell]]:
    found: dict[Any, list[Cell]] = {}
    for cell in cells:
        found.setdefault(key(cell), []).append(cell)
    return found


def _false(cells: Sequence[Cell]) -> float:
    return _share([cell.false for cell in cells], cells)


def _coverage(cells: Sequence[Cell]) -> float:
    return _share([cell.covered for cell in cells], cells)


def _by_size(cells: Sequence[Cell]) -> dict[tuple[int, int], list[Cell]]:
    return _groups(cells, lambda cell: (cell.cases, cell.runs))


def _sizes(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield how often a verdict arrives, by the size of the set."""
    shown = [truth for truth in TRUTHS if truth.gain and not truth.fails and not truth.not_loaded]
    names = (f"Cases {TIMES} runs", *(truth.name for truth in shown), "False, at most", "Width of the interval")
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for (cases, runs), group in _by_size(cells).items():
        of_truth = _groups(group, lambda cell: cell.truth.name)
        rights = [_share([cell.right for cell in of_truth[truth.name]], of_truth[truth.name]) for truth in shown]
        worst = max(_false(found) for found in of_truth.values())
        width = round(median(cell.width for cell in group) * 100)
        shares = " | ".join(map(_percent, (*rights, worst)))
        yield f"| {cases} {TIMES} {runs} | {shares} | {width} points |"


def _truths(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the worst of each truth over all sizes; coverage from the number of cases on from which it is claimed."""
    yield f"| Truth | False, worst size | Right at 10 {TIMES} 5 | Coverage, worst size | As treated, worst size |"
    yield "|---|---|---|---|---|"
    for truth, group in _of_truths(cells):
        sizes = _by_size(group)
        wide = [found for (cases, _), found in sizes.items() if cases >= COVERED_FROM]
        at = sizes[POWER_AT]
        right = _percent(_share([cell.right for cell in at], at)) if truth.gain else ""
        treated = min(_share([cell.treated or 0 for cell in found], found) for found in wide)
        yield (
            f"| {truth.name} | {_percent(max(map(_false, sizes.values())))} | {right} "
            f"| {_percent(min(map(_coverage, wide)))} | {_percent(treated) if truth.not_loaded else ''} |"
        )


def _of_truths(cells: Sequence[Cell]) -> Iterator[tuple[Truth, list[Cell]]]:
    found = _groups(cells, lambda cell: cell.truth.name)
    for truth in TRUTHS:
        yield truth, found[truth.name]


def _worlds(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the same by world, so that a friendly one cannot hide another."""
    yield f"| World | False, worst truth, from six cases | Right at 10 {TIMES} 5, +30 points | Coverage, worst truth |"
    yield "|---|---|---|---|"
    for world, group in _groups(cells, lambda cell: cell.world).items():
        truths = _groups(group, lambda cell: cell.truth.name).values()
        wide = [[cell for cell in found if cell.cases >= COVERED_FROM] for found in truths]
        at = [cell for cell in group if cell.truth.name == "+30 points" and (cell.cases, cell.runs) == POWER_AT]
        right = _percent(_share([cell.right for cell in at], at))
        deciding = [[cell for cell in found if cell.cases >= MIN_CASES] for found in truths]
        worst, covered = max(map(_false, deciding)), min(map(_coverage, wide))
        yield f"| {world.replace('_', ' ')} | {_percent(worst)} | {right} | {_percent(covered)} |"


def _few_cases(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what the intervals cover by the number of cases."""
    yield "| Cases | Coverage | Worst truth and number of runs | Worst of these in one world |"
    yield "|---|---|---|---|"
    for cases, group in _groups(cells, lambda cell: cell.cases).items():
        each = _groups(group, lambda cell: (cell.truth.name, cell.runs)).values()
        alone = min(_coverage([cell]) for cell in group)
        yield f"| {cases} | {_percent(_coverage(group))} | {_percent(min(map(_coverage, each)))} | {_percent(alone)} |"


def _failed(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the claims that do not hold, cell by cell."""
    for truth, group in _of_truths(cells):
        for (cases, runs), found in _by_size(group).items():
            place = f"{truth.name}, {cases} {TIMES} {runs}"
            made = sum(cell.experiments for cell in found)
            false, right = sum(cell.false for cell in found), sum(cell.right for cell in found)
            covered = sum(cell.covered for cell in found)
            if wilson(false, made).low > MOST_FALSE:
                yield f"FALSE VERDICTS: {place}: {false} of {made}"
            if cases >= COVERED_FROM and wilson(covered, made).high < LEAST_COVERAGE:
                yield f"COVERAGE: {place}: {covered} of {made}"
            if truth.name == "+30 points" and (cases, runs) == POWER_AT and wilson(right, made).high < LEAST_POWER:
                yield f"POWER: {place}: {right} of {made}"


if __name__ == "__main__":
    main()
