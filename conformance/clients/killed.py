"""Kill the stdio server of real clients in the middle of a session, and print what comes of later calls: `make killed`.

Run from the repository: `make killed`, or `make killed CLIENTS="codex opencode"`. A server of `serve --keep-alive` must
answer all later calls; without it, the table says which clients start a server again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients import catalogs
from conformance.clients.all_clients import CLIENTS
from conformance.clients.client import Run
from conformance.clients.install import NotInstallableError, install
from conformance.clients.killed_script import AFTER, Moment
from conformance.clients.recording import Recording
from conformance.clients.sandbox import is_possible, run_inside
from conformance.clients.scenarios import ACTIVATE
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MEASURED", "OK", "TOLD", "expected", "outcomes_in"]

MEASURED = ("claude", "codex", "gemini", "opencode", "qwen", "copilot", "cline", "continue")
KEPT_ALIVE = ("--keep-alive",)

OK, TOLD = "ok", "told"

UNCHANGED = "has not changed since you loaded it"
AGAIN = "has been started again"
"""What the server says instead of a text that the model has, and what a model reads whose call was lost."""

SHOWN = 110
"""Characters of an answer that has no skill."""


def outcomes_in(recording: Recording) -> list[str]:
    """Return what each call after the server was killed brought.

    It is OK if the server answered, TOLD if the model was told that the server has been started again, else what the
    result says, or that there was no call.
    """
    places = recording.steps(ACTIVATE)[1:]
    results = [recording.results_after(place) for place in places[: len(AFTER)]]
    found = [_outcome(name, result) for name, result in zip(AFTER, results, strict=False)]
    return found + ["not asked"] * (len(AFTER) - len(found))


def _outcome(name: str, result: str) -> str:
    if catalogs.body_mark(name) in result or UNCHANGED in result:
        return OK
    return TOLD if AGAIN in result else " ".join(result.split())[:SHOWN] or "no result"


def expected(moment: Moment) -> list[str]:
    """Return the outcomes with a server that is kept alive: only a call that is open when it ends is lost."""
    return [TOLD if moment is Moment.DURING else OK, *[OK] * (len(AFTER) - 1)]


async def _measure(client: str, folder: Path, options: Sequence[str]) -> bool:
    """Kill the server of a client at each moment, and print what came; return whether all calls were answered."""
    title, is_right = "keep-alive" if options else "plain", True
    # A client without a server has none to kill once more.
    for moment in Moment if options else (Moment.BETWEEN, Moment.DURING):
        root = folder / f"{client}-{title}-{moment}"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        try:
            await run_inside(client, moment, root, "conformance.clients.killed_inside", options)
            found = outcomes_in(Recording.read(Run(root, "").recording))
        except CheckError as error:
            found = [str(error)]
        is_right = is_right and found == expected(moment)
        print(f"{client} {CLIENTS[client].version()} {title:10} {moment:8} {' | '.join(found)}", flush=True)
    return is_right


async def _main(clients: Sequence[str], folder: Path, *, plain: bool) -> int:
    if not await is_possible():
        print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
        return 0
    faults = 0
    for client in clients:
        try:
            await install(CLIENTS[client].package)
        except NotInstallableError as error:
            print(f"{client}: skipped: {error}")
            continue
        if plain:
            await _measure(client, folder, ())
        else:
            faults += not await _measure(client, folder, KEPT_ALIVE)
    return int(bool(faults))


def main() -> int:
    """Measure the clients that the command line names; return 1 if a server that is kept alive missed a call."""
    parser = argparse.ArgumentParser(
        "killed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"all by default: {' '.join(MEASURED)}")
    parser.add_argument("--plain", action="store_true", help="measure the server without --keep-alive")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recordings in this folder")
    options = parser.parse_args()
    for name in options.clients:
        if name not in CLIENTS:
            parser.error(f"there is no client {name!r}; choose from {' '.join(CLIENTS)}")
    with tempfile.TemporaryDirectory(prefix="skillserve-killed-", ignore_cleanup_errors=True) as scratch:
        folder = Path(options.keep or scratch).resolve()
        return anyio.run(lambda: _main(options.clients or list(MEASURED), folder, plain=options.plain))


if __name__ == "__main__":
    sys.exit(main())
