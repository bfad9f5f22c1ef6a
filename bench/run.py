"""Compare the server with the floor of its SDK and print a table for each combination.

Run from the repository: `make bench`, or `.venv/bin/python bench/run.py --help`. bench/README.md explains the figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import signal
import sys
import tempfile
from pathlib import Path

from cases import Case, Effort, Outcome
from corpus import write_corpus
from measure import measure
from processes import Command
from report import as_json, table
from wire import BenchError, Era

HERE = Path(__file__).resolve().parent
TRANSPORTS = ("stdio", "http")
SIZES = (100, 1000)
QUICK_SIZES = (20,)
EDIT_SIZES = (10_000,)
QUICK = Effort(calls=40, starts=1, edits=1)


def main() -> int:
    """Measure the requested combinations; return 1 if a figure is missing or not comparable."""
    options = _parser().parse_args()
    # Turn SIGTERM into a regular exit, so that servers are stopped and folders removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    effort = QUICK if options.quick else Effort()
    if options.calls is not None:
        effort = Effort(options.calls, effort.starts, effort.edits)
    outcomes: list[Outcome] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder:
        for case in _cases(options, Path(folder)):
            print(f"measuring {case.skills} skills, {case.transport}, {case.era} ...", file=sys.stderr)
            try:
                outcomes.append(measure(case, effort))
            except (BenchError, OSError) as error:
                failed = True
                notes = getattr(error, "__notes__", [])
                print("\n".join((f"measurement failed: {error}", *notes)), file=sys.stderr)
            else:
                print(table(outcomes[-1]), flush=True)
                failed = failed or not outcomes[-1].complete
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(outcomes, effort), indent=2) + "\n", encoding="utf-8")
    return int(failed)


def _cases(options: argparse.Namespace, work: Path) -> list[Case]:
    """Write the skills and return all requested combinations."""
    home, answers = work / "home", work / "answers.json"
    home.mkdir(exist_ok=True)
    sizes = options.skills or (QUICK_SIZES if options.quick else SIZES)
    floor_words = (sys.executable, "-m", "floor", "{dir}", "--answers", str(answers))
    servers = {
        "stdio": (Command(floor_words, HERE, home), Command(options.ours, HERE.parent, home)),
        "http": (
            Command((*floor_words, "--port", "{port}"), HERE, home),
            Command(options.ours_http, HERE.parent, home),
        ),
    }
    cases = []
    for size in sizes:
        root = work / str(size) / "skills"
        write_corpus(root, size)
        for transport, era in itertools.product(options.transport, options.era):
            cases.append(Case(size, transport, era, root, *servers[transport], answers, options.edits_only))
    if not (options.skills or options.quick or options.edits_only):
        options = argparse.Namespace(**{**vars(options), "skills": EDIT_SIZES, "edits_only": True, "era": [Era.MODERN]})
        cases += _cases(options, work)
    return cases


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    ours = (sys.executable, "-m", "server", "serve", "{dir}")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=_sizes, metavar="N,N", help="how many skills (default: 100,1000)")
    parser.add_argument("--transport", nargs="+", choices=TRANSPORTS, default=TRANSPORTS)
    parser.add_argument("--era", nargs="+", type=Era, choices=list(Era), default=list(Era))
    parser.add_argument("--calls", type=_positive, metavar="N", help="timed calls of each kind (default: 300)")
    parser.add_argument(
        "--edits-only", action="store_true", help="measure only the time from an edit to its notification"
    )
    parser.add_argument("--quick", action="store_true", help="a short run that only checks that everything works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results here")
    parser.add_argument("--ours", type=_words, default=ours, metavar="CMD", help="stdio server, with {dir}")
    parser.add_argument(
        "--ours-http",
        type=_words,
        default=(*ours, "--transport", "http", "--port", "{port}"),
        metavar="CMD",
        help="HTTP server, with {dir} and {port}",
    )
    return parser


def _sizes(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


if __name__ == "__main__":
    sys.exit(main())
