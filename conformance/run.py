"""Run the official checks of others against our server and print one line for each.

Run from the repository: `make conformance`, or `.venv/bin/python -m conformance.run --only NAME...` once that has
installed what is needed. See docs/explanation/conformance.md for what is checked.
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
    """A folder of skills that checks are made on, as a server has it."""

    folder: Path
    url: str
    place: Place


@dataclass(frozen=True, slots=True)
class Check:
    """A check with its name, and the name of the folder that has to be served for it."""

    name: str
    folder: str
    make: Callable[[Served], Awaitable[Outcome]]

    def answers_to(self, name: str) -> bool:
        """Tell whether `--only NAME` means this check; a scenario answers without its revision as well."""
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
"""In the order in which they are made; those on one folder stand together, so that one server does for them."""


def _prepared(name: str, place: Place) -> Path:
    """Return a folder of skills by the name that checks have for it."""
    if name == "samples":
        return SAMPLES
    folder = place.folder(name)
    if name == "fixtures":
        write_fixtures(folder)
    elif name == "tricky":
        write_tricky(folder)
    else:
        # The samples that the strictest reader takes: its list is refused as a whole where one of them is.
        shutil.copytree(SAMPLES, folder, dirs_exist_ok=True)
        for uri in FASTMCP_REFUSES:
            shutil.rmtree(folder / uri.removeprefix("skill://").removesuffix("/SKILL.md"))
    return folder


async def run_all(checks: Sequence[Check], place: Place) -> bool:
    """Make the checks and print a line for each; returns whether all of them hold."""
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
    """Run until all is done or somebody ends it; either way no process is left."""
    good = False
    async with _until_terminated():
        good = await run_all(checks, place)
    print("all hold" if good else "not all hold", flush=True)
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
    """Read the command line and make the checks; 1 when one of them does not hold, 2 when something is missing."""
    parser = argparse.ArgumentParser(
        "conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="make these checks alone")
    parser.add_argument("--list", action="store_true", help="print the names of all checks and do nothing")
    options = parser.parse_args()
    if options.list:
        print("\n".join(check.name for check in CHECKS))
        return 0
    for name in options.only or ():
        if not any(check.answers_to(name) for check in CHECKS):
            parser.error(f"there is no check {name!r}; --list names them")
    missing = [path for path in (NODE, SUITE, INSPECTOR, PYTHON) if not path.exists()]
    if missing:
        print(f"{missing[0]} is missing: run `make conformance`, which installs it", file=sys.stderr)
        return 2
    names = options.only
    checks = [each for each in CHECKS if names is None or any(map(each.answers_to, names))]
    with tempfile.TemporaryDirectory(prefix="skillserve-conformance-") as scratch:
        # Resolved, as the server's own answers name folders by where links lead.
        return anyio.run(_main, checks, Place(Path(scratch).resolve()))


if __name__ == "__main__":
    sys.exit(main())
