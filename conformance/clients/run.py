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
from conformance.clients.client import earlier_packages
from conformance.clients.document import write_page
from conformance.clients.install import NotInstallableError, install
from conformance.clients.measurement import Measurement, measure
from conformance.clients.python_clients import PYTHON_CLIENTS
from conformance.clients.results import fallen, keep, kept
from conformance.clients.sandbox import is_possible
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.clients.client import Client


@dataclass(frozen=True, slots=True)
class Options:
    """The command line; with `check` nothing is written, and a verdict that is worse than the kept one is a failure.

    `before` is a day (ISO 8601): the versions that were the newest before it are measured.
    """

    clients: Sequence[Client]
    check: bool
    jobs: int
    folder: Path
    before: str = ""


async def _main(options: Options) -> int:
    if not await is_possible():
        print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
        return 0
    found: dict[str, Measurement] = {}
    faults: list[str] = []
    clients = await _installed(options.clients, options.before, faults)
    limiter = anyio.CapacityLimiter(options.jobs)

    async def measured(client: Client) -> None:
        async with limiter:
            try:
                measurement = await _measured(client, options)
                found[measurement.key] = measurement
                if not options.check:
                    keep({measurement.key: measurement})  # At once, because all of them take long.
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
        write_page()
    print("\n".join(faults) or f"{len(found)} clients were measured", flush=True)
    return int(bool(faults))


async def _measured(client: Client, options: Options) -> Measurement:
    day = datetime.now(UTC).date().isoformat()
    measurement = await measure(client, day, options.folder, options.before)
    before = kept().get(measurement.key)
    if before and any(fallen(before, measurement)):
        # On a busy machine, the news of a change may come later than the next call.
        measurement = await measure(client, day, options.folder, options.before)
    _print(measurement)
    return measurement


async def _installed(clients: Sequence[Client], before: str, faults: list[str]) -> list[Client]:
    """Install what the clients need; return those for which that was possible, and say why others are skipped.

    What failed is added to `faults`. Of clients that have no other version `before` a day, nothing new can be measured.
    """
    missing: dict[str, str] = {}

    async def installed(package: str) -> None:
        try:
            await install(package, before)
        except NotInstallableError as error:
            missing[package] = f"skipped: {error}"
        except CheckError as error:
            missing[package] = str(error)
            faults.append(f"{package}: {error}")

    async with anyio.create_task_group() as tasks:
        for package in {client.package for client in clients}:
            tasks.start_soon(installed, package)
    ready: list[Client] = []
    for client in clients:
        if client.package in missing:
            print(f"{client.name}: {missing[client.package]}", flush=True)
        elif before and _is_newest(client, client.version(earlier_packages(before))):
            print(f"{client.name}: skipped: the version before {before} is the newest", flush=True)
        else:
            ready.append(client)
    return ready


def _is_newest(client: Client, version: str | None) -> bool:
    newest = kept().get(client.name)
    return version is not None and version == (client.version() or (newest and newest.version))


def _print(measurement: Measurement) -> None:
    print(f"{measurement.client} {measurement.version}; tokens {dict(measurement.tokens)}")
    for column, finding in measurement.findings.items():
        further = "; ".join(part for part in (finding.measured, finding.reason) if part)
        print(f"    {column:14} {finding.verdict:6} {further}".rstrip(), flush=True)


def main() -> int:
    """Measure the clients that the command line names; return 1 if that failed, or a check found less than before."""
    parser = argparse.ArgumentParser(
        "clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"all by default: {' '.join(CLIENTS)}")
    parser.add_argument("--frameworks", action="store_true", help="measure only the clients of `make frameworks`")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a client sees less than before")
    parser.add_argument(
        "--jobs", type=int, default=1, help="clients at a time; a busy machine may be too slow for some"
    )
    parser.add_argument(
        "--before", default="", metavar="DAY", help="measure the newest versions before this day (ISO 8601)"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recordings in this folder")
    options = parser.parse_args()
    for name in options.clients:
        if name not in CLIENTS:
            parser.error(f"there is no client {name!r}; choose from {' '.join(CLIENTS)}")
    chosen = [CLIENTS[name] for name in options.clients or CLIENTS]
    chosen = [client for client in chosen if not options.frameworks or client in PYTHON_CLIENTS]
    # Runs end with this process, also if it is terminated.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="skillserve-clients-", ignore_cleanup_errors=True) as scratch:
        folder = Path(options.keep or scratch).resolve()
        try:
            return anyio.run(_main, Options(chosen, options.check, options.jobs, folder, options.before))
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
