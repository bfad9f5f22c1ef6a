"""Test that real clients use the server that `skillserve connect` adds: `make connect-clients`.

Each client is connected for its user, for a project and to an address with a token in a variable. Its own list must
have the server where it has a list, a session must load a skill, and `--remove` must leave the files as they were.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from conformance.clients.all_clients import CLIENTS
from conformance.clients.install import NotInstallableError, install
from conformance.clients.login_script import BODY
from conformance.clients.sandbox import is_possible, run_inside
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CONNECTED", "USER", "Connected", "faults_of_connection"]

USER, PROJECT, ADDRESS = "user", "project", "http"


@dataclass(frozen=True, slots=True)
class Connected:
    """A client: its key for `connect`, the words of its own list, and the modes in which it is tested."""

    key: str
    lists: tuple[str, ...] = ()
    modes: tuple[str, ...] = (USER, PROJECT, ADDRESS)


CONNECTED = {
    "claude": Connected("claude-code", ("mcp", "list")),
    "codex": Connected("codex", ("mcp", "list")),
    "gemini": Connected("gemini-cli", ("mcp", "list")),
    "qwen": Connected("qwen-code", ("mcp", "list")),
    "opencode": Connected("opencode", ("mcp", "list")),
    "copilot": Connected("copilot-cli", ("mcp", "list")),
    "cline": Connected("cline", modes=(USER, ADDRESS)),
    "continue": Connected("continue", modes=(USER, ADDRESS)),
}
"""By the names of `agents.py`."""


def faults_of_connection(results: dict[str, Any], requests: str, *, lists: bool) -> Iterator[str]:
    """Yield what is wrong in the results of a mode and in what the model was sent."""
    for name in ("connected", "removed"):
        if results[name]["code"]:
            yield f"not {name}: {results[name]['said']}"
    if lists and "skills" not in results["listed"]:
        yield f"its list has no server: {results['listed']}"
    if BODY not in requests:
        yield f"the skill did not reach the model: {results['session'][-300:]}"
    if results["at_once"] != results["before"]:
        yield f"a removal at once left other files: {results['at_once']}, not {results['before']}"
    if results["left"]:
        yield f"{results['left']} is left of the server"
    if results["lost"]:
        yield f"what the client itself wrote is lost: {results['lost']}"


def _main() -> int:
    parser = argparse.ArgumentParser("connect", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"all by default: {' '.join(CONNECTED)}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the results in this folder")
    options = parser.parse_args()
    if unknown := {*options.clients} - {*CONNECTED}:
        parser.error(f"there is no client {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="skillserve-connect-", ignore_cleanup_errors=True) as scratch:
        return anyio.run(_test, options.clients or [*CONNECTED], Path(options.keep or scratch).resolve())


async def _test(clients: list[str], folder: Path) -> int:
    if not await is_possible():
        print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
        return 0
    return int(not all([await _is_right(each, folder) for each in clients]))


async def _is_right(name: str, folder: Path) -> bool:
    """Test a client in each of its modes, and print what was seen."""
    try:
        await install(CLIENTS[name].package)
    except NotInstallableError as error:
        print(f"{name}: skipped: {error}")
        return True
    connected, is_right = CONNECTED[name], True
    for mode in connected.modes:
        root = folder / f"{name}-{mode}"
        root.mkdir(parents=True)
        try:
            await run_inside(name, mode, root, "conformance.clients.connect_inside")
            results = json.loads((root / "results.json").read_text(encoding="utf-8"))
            recording = root / "requests.jsonl"
            requests = recording.read_text(encoding="utf-8") if recording.exists() else ""
            faults = [*faults_of_connection(results, requests, lists=bool(connected.lists))]
        except CheckError as error:
            faults = [str(error)]
        is_right = is_right and not faults
        print(f"{name} {CLIENTS[name].version()} {mode}: {'; '.join(faults) or 'as expected'}", flush=True)
    return is_right


if __name__ == "__main__":
    sys.exit(_main())
