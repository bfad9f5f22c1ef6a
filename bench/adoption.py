"""How often `triggers --optimize` adopts a description, by its true worth, and what the gain that it claims is worth.

    .venv/bin/python bench/adoption.py             # some minutes
    .venv/bin/python bench/adoption.py --times 50  # less sure

Each simulated optimization has a skill whose queries are loaded at known rates, and up to five descriptions of one true
worth. Splits, rounds, choice, decision and claim are those of the command; only the agent and the model are simulated.
Rates have two humps, as real ones have: most queries nearly always load the skill or nearly never. A new description
draws the rate of each query anew, so that a useless one helps some queries and harms others. One that is "uneven" is
useless too: it makes four of five queries perfect that were right in 80 % of the runs, and ruins the fifth.

"Before" is the rule until November 2026: a quarter of each kind was sealed, and more passing queries won.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from skills_core.evals.triggers.adoption import decide
from skills_core.evals.triggers.parts import Part, split_queries
from skills_core.evals.triggers.queries import Query
from skills_core.evals.triggers.results import Outcome, Round, SetResult, best_round, is_settled, query_result

SIZES: Final = (10, 15, 20, 30)
RUNS: Final = (1, 3, 5)
GAINS: Final = (0.0, 0.2, 0.4, -0.2)
UNEVEN: Final = "uneven"
"""A description that is useless in another way: it helps most queries a little, and ruins a few."""
ROUNDS: Final = 5
RIGHT: Final = 0.5
"""How often the old description is right, on average."""

_HIGH: Final = (38, 2)
_LOW: Final = (2, 38)
_MEAN_HIGH, _MEAN_LOW = 0.95, 0.05
_MOSTLY: Final = 0.8
_THRESHOLD: Final = 0.5
_OLD_SHARE: Final = 0.25

Rates = Mapping[str, float]
Parts = Mapping[Part, Sequence[Query]]


class Ending(NamedTuple):
    """How one optimization ended: whether it adopted, the gain that it claimed with its interval, or measured."""

    adopted: bool
    gain: float
    interval: tuple[float, float] = (0.0, 0.0)


class Simulation:
    """Optimizations with descriptions of a known gain; `runs` for each query, `each` queries of each kind."""

    def __init__(self, each: int, runs: int, worth: float | str, seed: int) -> None:
        """Prepare the queries."""
        self.runs, self.worth = runs, worth
        self.chance = random.Random(seed)  # noqa: S311 - a reproducible sample
        self.queries = [Query(f"query {number}", number < each, str(number)) for number in range(2 * each)]

    def new(self) -> Ending:
        """Optimize once by the rule of the command."""
        parts = split_queries(self.queries, self.chance.getrandbits(32))
        first, best, rates = self._rounds(parts)
        if best is first or not parts[Part.TEST]:
            return Ending(adopted=False, gain=0.0)
        old, new = (self._measure(parts[Part.TEST], rates[each.number], all_runs=True) for each in (first, best))
        decision = decide(new, old)
        if decision.gain is None:
            return Ending(adopted=False, gain=0.0)
        return Ending(decision.adopted, decision.gain.gain, decision.gain.interval)

    def before(self) -> Ending:
        """Optimize once by the rule until November 2026."""
        parts = self._old_parts()
        first, best, rates = self._rounds(parts)
        if best is first:
            return Ending(adopted=False, gain=0.0)
        old, new = (self._measure(parts[Part.TEST], rates[each.number]).passed for each in (first, best))
        return Ending(new.count > old.count, (new.count - old.count) / new.total)

    def _rounds(self, parts: Parts) -> tuple[Round, Round, list[Rates]]:
        rounds: list[Round] = []
        rates: list[Rates] = []
        for number in range(ROUNDS + 1):
            rates.append(self._rates(is_new=number > 0))
            train, validation = (self._measure(parts[part], rates[-1]) for part in (Part.TRAIN, Part.VALIDATION))
            rounds.append(Round(number, f"description {number}", train, validation))
            if train.passed.count == train.passed.total:
                break
        return rounds[0], best_round(rounds), rates

    def _rates(self, *, is_new: bool) -> Rates:
        """Return the rate at which each query has the wanted outcome."""
        draw = self._uneven if isinstance(self.worth, str) else self._two_humps
        return {query.id: draw(is_new=is_new) for query in self.queries}

    def _two_humps(self, *, is_new: bool) -> float:
        right = RIGHT + float(self.worth) * is_new
        share = (right - _MEAN_LOW) / (_MEAN_HIGH - _MEAN_LOW)
        return self.chance.betavariate(*(_HIGH if self.chance.random() < share else _LOW))

    def _uneven(self, *, is_new: bool) -> float:
        return float(self.chance.random() < _MOSTLY) if is_new else _MOSTLY

    def _measure(self, queries: Sequence[Query], rates: Rates, *, all_runs: bool = False) -> SetResult:
        return SetResult(tuple(query_result(each, self._outcomes(each, rates, all_runs=all_runs)) for each in queries))

    def _outcomes(self, query: Query, rates: Rates, *, all_runs: bool) -> list[Outcome]:
        found: list[Outcome] = []
        while len(found) < self.runs and (all_runs or not is_settled(found, self.runs, _THRESHOLD)):
            right = self.chance.random() < rates[query.id]
            found.append(Outcome.LOADED if right is query.should_trigger else Outcome.NOT_LOADED)
        return found

    def _old_parts(self) -> Parts:
        found: dict[Part, list[Query]] = {part: [] for part in Part}
        for kind in (True, False):
            own = [query for query in self.queries if query.should_trigger is kind]
            test = round(len(own) * _OLD_SHARE)
            train = round((len(own) - test) * 0.6)
            found[Part.TEST] += own[:test]
            found[Part.TRAIN] += own[test : test + train]
            found[Part.VALIDATION] += own[test + train :]
        return found


def _row(each: int, runs: int, worth: float | str, times: int) -> str:
    simulation = Simulation(each, runs, worth, seed=each * 1000 + runs)
    gain = 0.0 if isinstance(worth, str) else worth
    before = [ending for ending in (simulation.before() for _ in range(times)) if ending.adopted]
    now = [ending for ending in (simulation.new() for _ in range(times)) if ending.adopted]
    covers = statistics.fmean(low <= gain <= high for _, _, (low, high) in now) if now else None
    cells = [
        f"{each} + {each}",
        str(runs),
        worth if isinstance(worth, str) else f"{gain:+.1f}",
        f"{len(before) / times:.1%}",
        _claim(before),
        f"{len(now) / times:.1%}",
        _claim(now),
        "" if covers is None else f"{covers:.0%}",
    ]
    return f"| {' | '.join(cells)} |"


def _claim(endings: Sequence[Ending]) -> str:
    return f"{statistics.fmean(each.gain for each in endings):+.2f}" if endings else ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Simulate optimizations with descriptions of known worth.")
    parser.add_argument("--times", type=int, default=1000, help="optimizations in each row")
    arguments = parser.parse_args()
    print("| queries | runs | true gain | before: adopted | claimed | now: adopted | claimed | interval covers |")
    print("|---|---|---|---|---|---|---|---|")
    for each in SIZES:
        for runs in RUNS:
            for worth in (*GAINS, UNEVEN):
                print(_row(each, runs, worth, arguments.times), flush=True)


if __name__ == "__main__":
    main()
