"""Measure for real clients what stubs are worth: skills of the client's own, served ones, and stubs of served ones.

Run from the repository: `python -m conformance.clients.bridge claude codex --sizes 20 100`. A row has how many skills
the first request names, and describes by the first words or whole; the characters of that request; and after
how many calls the model has read the body of a skill.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients.bridge_inside import BRIDGED, Mode
from conformance.clients.catalogs import LOADED, body_mark, catalog_names, write_catalog
from conformance.clients.client import Run
from conformance.clients.names import names_in
from conformance.clients.recording import Recording
from conformance.clients.sandbox import is_possible, run_inside
from conformance.processes import CheckError

if TYPE_CHECKING:
    from conformance.clients.dialects.messages import Request

SIZES = (20, 100, 1000)
FIRST = 20
"""Characters of a description by which it counts as shown."""
BETWEEN = 60
"""Most characters between a name and its description."""


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


def text_of(request: Request) -> str:
    """Return everything of a request that the model reads."""
    tools = [tool for tool in request.tools if not tool.deferred]
    return "\n".join([request.text, *(f"{each.name} {each.description} {json.dumps(each.schema)}" for each in tools)])


def described_in(text: str, descriptions: dict[str, str]) -> tuple[int, int]:
    """Return how many skills a text describes: with the beginning of the description after the name, and whole."""
    flat = " ".join(text.replace("\\n", "\n").split())
    begun = sum(
        re.search(rf"(?<![\w-]){name}(?![\w-]).{{0,{BETWEEN}}}?{re.escape(words[:FIRST])}", flat) is not None
        for name, words in descriptions.items()
    )
    return begun, sum(words in flat for words in descriptions.values())


def read_descriptions(size: int) -> dict[str, str]:
    """Return the descriptions of a catalog by name."""
    with tempfile.TemporaryDirectory() as folder:
        names = write_catalog(Path(folder), size)
        texts = {name: (Path(folder) / name / "SKILL.md").read_text(encoding="utf-8") for name in names}
    return {name: " ".join(text.partition(">-\n")[2].partition("\n---")[0].split()) for name, text in texts.items()}


def row_of(client: str, mode: str, size: int, recording: Recording) -> Row:
    """Judge a recording."""
    if not recording.exchanges:
        return Row(client, mode, size, 0, 0, 0, 0, 0)
    first = recording.exchanges[0].request
    named = len(names_in(first, catalog_names(size)))
    mark = body_mark(LOADED)
    places = [place for place, each in enumerate(recording.exchanges) if mark in "\n".join(each.request.results)]
    in_text = [place for place, each in enumerate(recording.exchanges) if mark in each.request.text]
    calls = min([*places, *in_text], default=0)
    text = text_of(first)
    return Row(client, mode, size, named, *described_in(text, read_descriptions(size)), len(text), calls)


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
