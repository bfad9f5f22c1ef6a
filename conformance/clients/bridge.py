"""Measure for real clients what stubs are worth: skills of the client's own, served ones, and stubs of served ones.

Run from the repository: `python -m conformance.clients.bridge claude codex --sizes 20 100`. A row has how many skills
the first request names, and describes by the first words or whole; the characters of that request; and after
how many calls the model has read the body of a skill.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from conformance.clients.bridge_inside import BRIDGED, Mode
from conformance.clients.catalogs import LOADED, body_mark, catalog
from conformance.clients.client import Run
from conformance.clients.names import described_in, length, names_in, sent
from conformance.clients.recording import Recording
from conformance.clients.sandbox import is_possible, run_inside
from conformance.processes import CheckError

SIZES = (20, 100, 1000)


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured; `calls` is 0 if the body did not reach the model."""

    client: str
    mode: str
    size: int
    named: int
    described: int
    whole: int
    characters: int
    calls: int


def row_of(client: str, mode: str, size: int, recording: Recording) -> Row:
    """Judge a recording."""
    if not recording.exchanges:
        return Row(client, mode, size, 0, 0, 0, 0, 0)
    first = recording.exchanges[0].request
    skills = catalog(size)
    named = len(names_in(first, skills))
    mark = body_mark(LOADED)
    places = [place for place, each in enumerate(recording.exchanges) if mark in "\n".join(each.request.results)]
    in_text = [place for place, each in enumerate(recording.exchanges) if mark in each.request.text]
    calls = min([*places, *in_text], default=0)
    flat = " ".join(sent(first).replace("\\n", "\n").split())
    whole = sum(description in flat for description in skills.values())
    return Row(client, mode, size, named, len(described_in(first, skills)), whole, length(first), calls)


async def _measure(client: str, mode: str, size: int, root: Path) -> Row:
    folder = root / f"{client}-{mode}-{size}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    await run_inside(client, f"{mode}-{size}", folder, "conformance.clients.bridge_inside")
    return row_of(client, mode, size, Recording.read(Run(folder, "").recording))


async def _main(options: argparse.Namespace, folder: Path) -> int:
    if not await is_possible():
        print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
        return 0
    limiter, faults = anyio.CapacityLimiter(options.jobs), []

    async def measured(client: str, mode: str, size: int) -> None:
        async with limiter:
            try:
                print(json.dumps(asdict(await _measure(client, mode, size, folder))), flush=True)
            except CheckError as error:
                faults.append(f"{client}, {mode}, {size}: {error}")

    async with anyio.create_task_group() as tasks:
        for client in options.clients or BRIDGED:
            for mode in options.modes:
                for size in options.sizes if mode != Mode.NONE else options.sizes[:1]:
                    tasks.start_soon(measured, client, mode, size)
    print("\n".join(faults), file=sys.stderr)
    return int(bool(faults))


def _run() -> int:
    parser = argparse.ArgumentParser("bridge", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"all by default: {' '.join(BRIDGED)}")
    parser.add_argument("--modes", nargs="+", default=Mode.ALL, choices=Mode.ALL)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recordings in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillserve-bridge-", ignore_cleanup_errors=True) as scratch:
        return anyio.run(_main, options, Path(options.keep or scratch).resolve())


if __name__ == "__main__":
    sys.exit(_run())
