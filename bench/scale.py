"""Measure how the server scales with the number of skills, each figure beside its limit on the same machine.

Run from the repository: `make bench-scale`, or `.venv/bin/python bench/scale.py --help`. bench/README.md explains the
figures. The exit code is 1 if one is missing.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from scale_changes import changes, stalls
from scale_corpus import write_scale_corpus
from scale_measures import Place, requests, settle, starts
from scale_report import Row, slopes, table
from wire import BenchError, Era

SIZES = (100, 1000, 10_000, 100_000)
ROUNDS, CALLS = 3, 500
# From this number of skills on, one round of starts takes minutes.
LARGE = 50_000
QUICK_CALLS = 40
PARTS = ("starts", "requests", "changes", "stalls")


def main() -> int:
    """Measure all sizes and print a table for each; return 1 if a figure is missing."""
    options = _parser().parse_args()
    # Turn SIGTERM into a regular exit, so that servers are stopped and folders removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tables: list[list[Row]] = []
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder:
        for count in options.skills:
            rounds = 1 if options.quick or count >= LARGE else options.rounds
            tables.append(_measure(options, Path(folder) / str(count), count, rounds))
    if len(tables) > 1 and "requests" in options.parts:
        print(slopes(options.skills, tables))
    if options.json is not None:
        results = {
            str(count): [row._asdict() for row in rows] for count, rows in zip(options.skills, tables, strict=True)
        }
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return int(any(row.fault for rows in tables for row in rows))


def _measure(options: argparse.Namespace, work: Path, count: int, rounds: int) -> list[Row]:
    """Measure one size, and print its table as far as it came."""
    work.mkdir()
    root = (options.corpora or work) / f"{count}-skills"
    if not root.exists():
        _progress(f"writing {count:,} skills")
        write_scale_corpus(root, count)
    place = Place(root.resolve(), count, work)
    rows: list[Row] = []
    try:
        if "starts" in options.parts:
            _progress(f"starts with {count:,} skills")
            rows += starts(place, rounds)
        if set(options.parts) & {"requests", "changes", "stalls"}:
            _measure_served(options, place, rows)
    except (BenchError, OSError) as error:
        print("\n".join((f"measurement failed: {error}", *getattr(error, "__notes__", []))), file=sys.stderr)
        rows.append(Row("everything else", None, fault=str(error)[:80]))
    finally:
        # An end in the middle loses none of the minutes before.
        print(table(count, rows), flush=True)
    return rows


def _measure_served(options: argparse.Namespace, place: Place, rows: list[Row]) -> None:
    """Measure what one server does after its start, and add it to the rows."""
    with place.served("home-serving", Era.MODERN) as client:
        settle(client.pid)
        if "requests" in options.parts:
            _progress(f"requests with {place.skills:,} skills")
            rows += requests(place, client, QUICK_CALLS if options.quick else CALLS)
        if "changes" in options.parts:
            _progress(f"changes with {place.skills:,} skills")
            rows += changes(place, client)
        if "stalls" in options.parts:
            rows += stalls(place, client)


def _progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text} ...", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, nargs="+", default=SIZES, help="numbers of skills, in ascending order")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (default: everything)"
    )
    parser.add_argument(
        "--corpora", type=Path, metavar="DIR", help="keep the corpora here, and use those that are here"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of starts; with many skills there is one")
    parser.add_argument(
        "--quick", action="store_true", help="one round and few calls: only checks that everything works"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
