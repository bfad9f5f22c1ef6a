"""Run third-party conformance checks against our server and print one line for each.

Run from the repository: `make conformance`, which installs the programs; then also
`.venv/bin/python -m conformance.run --only NAME...`. docs/explanation/conformance.md describes the checks.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.inspector import INSPECTOR, inspect
from conformance.outcome import Outcome
from conformance.parity import compare_validators
from conformance.peers import FASTMCP_REFUSES, PYTHON, SAMPLES, download_with_fastmcp, validate_format
from conformance.playground import skills_coming_and_going, write_fixtures
from conformance.processes import CheckError, Place, serve
from conformance.scenarios import SCENARIOS, Scenario
from conformance.stringify import compare_with_node
from conformance.suite import NODE, SUITE, run_scenario
from conformance.tricky import MUST_BE_LISTED, write_tricky

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

WIDTH = 42


@dataclass(frozen=True, slots=True)
class Served:
    """A folder of skills and the server that serves it."""

    folder: Path
    url: str
    place: Place


@dataclass(frozen=True, slots=True)
class Check:
    """A check, with the name of the folder that must be served for it."""

    name: str
    folder: str
    make: Callable[[Served], Awaitable[Outcome]]

    def matches(self, name: str) -> bool:
        """Return whether `--only NAME` selects this check; scenarios match without their revision too."""
        return name in {self.name, self.name.partition(" ")[0]}


def _scenario_check(scenario: Scenario, revision: str) -> Check:
    async def make(served: Served) -> Outcome:
        if not scenario.edits:
            return await run_scenario(scenario, revision, served.url, served.place)
        async with skills_coming_and_going(served.folder):
            return await run_scenario(scenario, revision, served.url, served.place)

    return Check(f"{scenario.name} {revision}".strip(), "fixtures" if scenario.fixtures else "samples", make)


CHECKS = (
    *(_scenario_check(each, revision) for each in SCENARIOS if not each.fixtures for revision in each.revisions),
    Check("inspector-http", "samples", lambda it: inspect([it.folder], it.url, it.place)),
    Check("inspector-stdio", "samples", lambda it: inspect([it.folder], None, it.place)),
    Check("fastmcp", "samples", lambda it: download_with_fastmcp(it.folder, it.url, it.place)),
    Check("skills-ref", "samples", lambda it: validate_format(it.place)),
    Check("skills-ref-parity", "samples", lambda it: compare_validators(it.place)),
    Check("json-stringify", "samples", lambda it: compare_with_node(it.place)),
    *(_scenario_check(each, revision) for each in SCENARIOS if each.fixtures for revision in each.revisions),
    Check("fastmcp-strict", "strict", lambda it: download_with_fastmcp(it.folder, it.url, it.place)),
    Check("inspector-tricky", "tricky", lambda it: inspect([it.folder], it.url, it.place, MUST_BE_LISTED)),
)
"""In the order of execution; checks of one folder are adjacent, so that they share a server."""


def _prepared(name: str, place: Place) -> Path:
    """Prepare the folder of skills with this name and return it."""
    if name == "samples":
        return SAMPLES
    folder = place.folder(name)
    if name == "fixtures":
        write_fixtures(folder)
    elif name == "tricky":
        write_tricky(folder)
    else:
        # Without the samples that FastMCP rejects, because a single one makes its typed list fail.
        shutil.copytree(SAMPLES, folder, dirs_exist_ok=True)
        for uri in FASTMCP_REFUSES:
            shutil.rmtree(folder / uri.removeprefix("skill://").removesuffix("/SKILL.md"))
    return folder


async def run_all(checks: Sequence[Check], place: Place) -> bool:
    """Run the checks and print a line for each; return whether all passed."""
    good = True
    print(f"{'check':{WIDTH}}  {'passed':>9}", flush=True)
    for name, group in groupby(checks, key=lambda check: check.folder):
        folder = _prepared(name, place)
        try:
            async with serve([folder], place) as url:
                for check in group:
                    good = await _line(check, Served(folder, url, place)) and good
        except CheckError as error:
            print(f"{name}: {error}", flush=True)
            good = False
    return good


async def _line(check: Check, served: Served) -> bool:
    try:
        outcome = await check.make(served)
    except CheckError as error:
        outcome = Outcome(0, 0, (str(error),))
    exempt = f" ({outcome.exempt} exempt)" if outcome.exempt else ""
    verdict = "ok" if outcome.ok else "FAIL"
    print(f"{check.name:{WIDTH}}  {outcome.passed:>4}/{outcome.total:<4}  {verdict}{exempt}", flush=True)
    for fault in outcome.faults:
        print(f"    {fault}", flush=True)
    return outcome.ok


async def _main(checks: Sequence[Check], place: Place) -> int:
    """Run all checks, or stop at a signal; in both cases no process remains."""
    good = False
    async with _until_terminated():
        good = await run_all(checks, place)
    print("all checks passed" if good else "some checks failed", flush=True)
    return int(not good)


@asynccontextmanager
async def _until_terminated() -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        yield
        tasks.cancel_scope.cancel()


def main() -> int:
    """Run the checks that the command line selects; return 1 if one fails, 2 if a program is missing."""
    parser = argparse.ArgumentParser(
        "conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only these checks")
    parser.add_argument("--list", action="store_true", help="print the names of all checks and exit")
    options = parser.parse_args()
    if options.list:
        print("\n".join(check.name for check in CHECKS))
        return 0
    for name in options.only or ():
        if not any(check.matches(name) for check in CHECKS):
            parser.error(f"there is no check {name!r}; --list prints all names")
    missing = [path for path in (NODE, SUITE, INSPECTOR, PYTHON) if not path.exists()]
    if missing:
        print(f"{missing[0]} is missing: run `make conformance`, which installs it", file=sys.stderr)
        return 2
    names = options.only
    checks = [each for each in CHECKS if names is None or any(map(each.matches, names))]
    with tempfile.TemporaryDirectory(prefix="skillserve-conformance-") as scratch:
        # Resolved, because the server reports folders with links resolved.
        return anyio.run(_main, checks, Place(Path(scratch).resolve()))


if __name__ == "__main__":
    sys.exit(main())
