"""Measure how long a library takes to load skills with the audit, in comparison with loading them without it.

The figures are processor times of this process, the medians of rounds that alternate between the two, so that other
work on the machine changes neither much. The result is the ratio, and the time of the audit for one skill.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from corpus import write_corpus

from skills_core import Environment, Library, explicit_sources
from skills_core.audit.review import AuditReview

SIZES = (100, 1000)
WARM_UP, ROUNDS = 1, 5


def main() -> int:
    """Print a line for each number of skills; return 1 if a skill is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    print(f"{'skills':>8}{'without audit':>16}{'with audit':>14}{'ratio':>8}{'audit of a skill':>20}")
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder:
        for count in options.skills:
            root = Path(folder) / str(count)
            write_corpus(root, count)
            without, audited = [], []
            for turn in range(WARM_UP + options.rounds):
                times = _load(root, count, None), _load(root, count, AuditReview(blocks=True))
                if None in times:
                    print(f"a library of {count} skills lacks some of them", file=sys.stderr)
                    return 1
                if turn >= WARM_UP:
                    without.append(times[0] or 0.0)
                    audited.append(times[1] or 0.0)
            floor, ours = statistics.median(without), statistics.median(audited)
            each = (ours - floor) / count * 1000
            print(f"{count:>8}{floor:>14.2f} s{ours:>12.2f} s{ours / floor:>8.1f}{each:>17.1f} ms", flush=True)
    return 0


def _load(root: Path, count: int, review: AuditReview | None) -> float | None:
    """Return the seconds of processor time to load the skills, None if not all of them are offered."""
    begun = time.process_time()
    catalog = Library(explicit_sources([root]), lambda: Environment(os="linux", has_bin=lambda _: True), review).catalog
    taken = time.process_time() - begun
    return taken if len(catalog.offered) == count else None


if __name__ == "__main__":
    sys.exit(main())
