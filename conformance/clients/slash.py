"""Type a slash command into real clients, and find what of it reaches the model: `make slash`.

Run from the repository: `make slash`, or `make slash CLIENTS="claude gemini"`. Each client runs without a person, in a
terminal, beside a skill of its own with the same name, and with a mention of the skill's resource; each of these twice.
Results are kept in slash.json and shown in docs/reference/clients-measured.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients.all_clients import CLIENTS
from conformance.clients.client import Run
from conformance.clients.document import write_page
from conformance.clients.install import NotInstallableError, install
from conformance.clients.recording import Recording
from conformance.clients.sandbox import is_possible, run_inside
from conformance.clients.slash_results import Arrival, Typing, arrival_in, keep
from conformance.clients.slash_ways import NATIVE_FOLDERS, SLASHES, Way
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ways_of"]


@dataclass(frozen=True, slots=True)
class Options:
    """The command line; recordings are kept in `folder`."""

    clients: Sequence[str]
    ways: Sequence[Way]
    times: int
    folder: Path


def ways_of(client: str) -> list[Way]:
    """Return the ways in which a client is measured."""
    slash = SLASHES[client]
    possible = {
        Way.HEADLESS: slash.headlessly,
        Way.TERMINAL: True,
        Way.RELOADED: bool(slash.reload),
        Way.MENTION: bool(slash.mention),
        Way.BESIDE_NATIVE: client in NATIVE_FOLDERS,
    }
    return [way for way in Way if possible[way]]


async def _main(options: Options) -> int:
    if not await is_possible():
        print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
        return 0
    if shutil.which("tmux") is None:
        print("skipped: tmux is missing")
        return 0
    faults = 0
    for client in options.clients:
        try:
            await install(CLIENTS[client].package)
        except NotInstallableError as error:
            print(f"{client}: skipped: {error}")
            continue
        version = CLIENTS[client].version() or "unknown"
        print(f"{client} {version}", flush=True)
        arrivals: dict[Way, Sequence[Arrival | None]] = {}
        for way in (way for way in ways_of(client) if way in options.ways):
            try:
                arrivals[way] = await _arrivals(client, way, options)
            except CheckError as error:
                faults += 1
                print(f"    {way:14} {error}", flush=True)
                continue
            found = (str(each or "the model was not asked") for each in arrivals[way])
            print(f"    {way:14} {'; or: '.join(found)}", flush=True)
        keep(client, Typing(version, datetime.now(UTC).date().isoformat(), arrivals))
    write_page()
    return int(bool(faults))


async def _arrivals(client: str, way: Way, options: Options) -> list[Arrival | None]:
    """Return what arrived in all attempts, each different arrival once."""
    found: list[Arrival | None] = []
    for attempt in range(1, options.times + 1):
        root = options.folder / f"{client}-{way}-{attempt}"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        await run_inside(client, way, root, "conformance.clients.slash_inside")
        found.append(arrival_in(Recording.read(Run(root, "").recording)))
    return list(dict.fromkeys(found))


def main() -> int:
    """Measure the clients that the command line names; return 1 if a measurement itself failed."""
    parser = argparse.ArgumentParser("slash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"all by default: {' '.join(SLASHES)}")
    parser.add_argument("--way", action="append", choices=list(Way), type=Way, help="measure only this way")
    parser.add_argument("--times", type=int, default=2, help="attempts in each way")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recordings in this folder")
    options = parser.parse_args()
    for name in options.clients:
        if name not in SLASHES:
            parser.error(f"there is no client {name!r}; choose from {' '.join(SLASHES)}")
    with tempfile.TemporaryDirectory(prefix="skillserve-slash-", ignore_cleanup_errors=True) as scratch:
        folder = Path(options.keep or scratch).resolve()
        chosen = Options(options.clients or list(SLASHES), options.way or list(Way), options.times, folder)
        return anyio.run(_main, chosen)


if __name__ == "__main__":
    sys.exit(main())
