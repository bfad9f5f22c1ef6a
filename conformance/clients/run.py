"""Measure real clients against our server and a scripted model; print a table.

Run from the repository: `make clients`, or `make clients CLIENTS="claude codex"`. docs/explanation/conformance.md
describes the measurements.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients.all_clients import CLIENTS
from conformance.clients.document import write_page
from conformance.clients.install import NotInstallableError, install
from conformance.clients.measurement import Measurement, measure
from conformance.clients.results import fallen, keep, kept
from conformance.clients.sandbox import is_possible
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.clients.client import Client


@dataclass(frozen=True, slots=True)
class Options:
    """The command line; with `check` nothing is written, and a verdict that is worse than the kept one is a failure."""

    clients: Sequence[Client]
    check: bool
    jobs: int
    folder: Path


async def _main(options: Options) -> int:
    if not await is_possible():
        print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
        return 0
    found: dict[str, Measurement] = {}
    faults: list[str] = []
    clients = await _installed(options.clients, faults)
    limiter = anyio.CapacityLimiter(options.jobs)

    async def measured(client: Client) -> None:
        async with limiter:
            try:
                found[client.name] = await _measured(client, options.folder)
            except CheckError as error:
                faults.append(f"{client.name}: {error}")

    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(measured, client)
    before = kept()
    if options.check:
        worse = [(name, each) for name in found if name in before for each in fallen(before[name], found[name])]
        faults += [f"{name}: {each}" for name, each in worse]
    else:
        keep(found)
        write_page()
    print("\n".join(faults) or f"{len(found)} clients were measured", flush=True)
    return int(bool(faults))


async def _measured(client: Client, folder: Path) -> Measurement:
    version, day = client.version() or "unknown", datetime.now(UTC).date().isoformat()
    before = kept().get(client.name)
    measurement = await measure(client, version, day, folder)
    if before and any(fallen(before, measurement)):
        # On a busy machine, the news of a change may come later than the next call.
        measurement = await measure(client, version, day, folder)
    _print(measurement)
    return measurement


async def _installed(clients: Sequence[Client], faults: list[str]) -> list[Client]:
    """Install what the clients need; return those for which that was possible, and say why others are skipped.

    What failed is added to `faults`.
    """
    missing: dict[str, str] = {}

    async def installed(package: str) -> None:
        try:
            await install(package)
        except NotInstallableError as error:
            missing[package] = f"skipped: {error}"
        except CheckError as error:
            missing[package] = str(error)
            faults.append(f"{package}: {error}")

    async with anyio.create_task_group() as tasks:
        for package in {client.package for client in clients}:
            tasks.start_soon(installed, package)
    for client in clients:
        if client.package in missing:
            print(f"{client.name}: {missing[client.package]}", flush=True)
    return [client for client in clients if client.package not in missing]


def _print(measurement: Measurement) -> None:
    print(f"{measurement.client} {measurement.version}")
    for column, finding in measurement.findings.items():
        further = "; ".join(part for part in (finding.measured, finding.reason) if part)
        print(f"    {column:14} {finding.verdict:6} {further}".rstrip(), flush=True)


def main() -> int:
    """Measure the clients that the command line names; return 1 if that failed, or a check found less than before."""
    parser = argparse.ArgumentParser(
        "clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"all by default: {' '.join(CLIENTS)}")
    parser.add_argument("--python", action="store_true", help="measure only clients that need no npm")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a client sees less than before")
    parser.add_argument(
        "--jobs", type=int, default=1, help="clients at a time; a busy machine may be too slow for some"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recordings in this folder")
    options = parser.parse_args()
    for name in options.clients:
        if name not in CLIENTS:
            parser.error(f"there is no client {name!r}; choose from {' '.join(CLIENTS)}")
    chosen = [CLIENTS[name] for name in options.clients or CLIENTS]
    chosen = [client for client in chosen if not (options.python and client.npm)]
    # Runs end with this process, also if it is terminated.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="skillserve-clients-", ignore_cleanup_errors=True) as scratch:
        folder = Path(options.keep or scratch).resolve()
        try:
            return anyio.run(_main, Options(chosen, options.check, options.jobs, folder))
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
