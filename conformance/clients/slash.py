"""Type a slash command into real clients, and print what of it reaches the model: `make slash`.

Run from the repository: `make slash`, or `make slash CLIENTS="claude gemini"`. Each client runs without a person, in a
terminal, beside a skill of its own with the same name, and with a mention of the skill's resource.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients.all_clients import CLIENTS
from conformance.clients.client import Run
from conformance.clients.install import NotInstallableError, install
from conformance.clients.recording import Recording
from conformance.clients.sandbox import is_possible, run_inside
from conformance.clients.slash_ways import NATIVE_FOLDERS, NATIVE_MARK, SERVED_MARK, SLASHES, WORDS, Way
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Arrival", "arrival_in", "ways_of"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """What the model received: whose skill, which of the words, and whether they stand in the skill's text."""

    skill: str
    words: tuple[str, ...]
    filled: bool

    def __str__(self) -> str:
        """Return it as a line."""
        if not self.words:
            return f"{self.skill}; none of the words"
        words = "every word" if self.words == WORDS else f"only {', '.join(self.words)}"
        return f"{self.skill}; {words}{', filled into the text' if self.filled else ''}"


def arrival_in(recording: Recording) -> Arrival | None:
    """Return what arrived in the first request that has the skill, else in the first with the words, else None."""
    texts = [exchange.request.text for exchange in recording.exchanges]
    marked = [text for text in texts if SERVED_MARK in text or NATIVE_MARK in text]
    said = marked or [text for text in texts if any(word in text for word in WORDS)]
    if not said:
        return None
    text = said[0]
    skill = "the served skill" if SERVED_MARK in text else "its own skill" if NATIVE_MARK in text else "no skill"
    filled = f"[{' '.join(WORDS)}]" in text
    return Arrival(skill, tuple(word for word in WORDS if word in text), filled)


def ways_of(client: str) -> list[Way]:
    """Return the ways in which a client is measured."""
    ways = [Way.TERMINAL, Way.MENTION]
    if client in NATIVE_FOLDERS:
        ways.append(Way.BESIDE_NATIVE)
    return [*([Way.HEADLESS] if SLASHES[client].headlessly else []), *ways]


async def _main(clients: Iterable[str], folder: Path) -> int:
    if not await is_possible():
        print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
        return 0
    if shutil.which("tmux") is None:
        print("skipped: tmux is missing")
        return 0
    faults = 0
    for client in clients:
        try:
            await install(CLIENTS[client].package)
        except NotInstallableError as error:
            print(f"{client}: skipped: {error}")
            continue
        print(f"{client} {CLIENTS[client].version()}")
        for way in ways_of(client):
            root = folder / f"{client}-{way}"
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            try:
                await run_inside(client, way, root, "conformance.clients.slash_inside")
                found = arrival_in(Recording.read(Run(root, "").recording))
            except CheckError as error:
                faults += 1
                print(f"    {way:14} {error}")
                continue
            print(f"    {way:14} {found or 'the model was not asked'}", flush=True)
    return int(bool(faults))


def main() -> int:
    """Measure the clients that the command line names; return 1 if a measurement itself failed."""
    parser = argparse.ArgumentParser("slash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"all by default: {' '.join(SLASHES)}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recordings in this folder")
    options = parser.parse_args()
    for name in options.clients:
        if name not in SLASHES:
            parser.error(f"there is no client {name!r}; choose from {' '.join(SLASHES)}")
    with tempfile.TemporaryDirectory(prefix="skillserve-slash-", ignore_cleanup_errors=True) as scratch:
        folder = Path(options.keep or scratch).resolve()
        return anyio.run(_main, options.clients or list(SLASHES), folder)


if __name__ == "__main__":
    sys.exit(main())
