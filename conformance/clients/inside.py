"""Run one client through one scenario; `sandbox.py` starts this module in namespaces of its own.

Usage: inside.py CLIENT SCENARIO FOLDER PACKAGES. It brings loopback up, serves the scripted model and runs the client
that is installed below PACKAGES. The recording and the client's output are left in FOLDER.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from conformance.clients.all_clients import CLIENTS
from conformance.clients.catalogs import write_catalog
from conformance.clients.client import Run
from conformance.clients.endpoint import endpoint, serving
from conformance.clients.recording import Recorder
from conformance.clients.scenarios import SCENARIOS, ScenarioName
from conformance.clients.scripted_model import ScriptedModel

GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1
"""Of Linux: netdevice(7)."""

PATIENCE = 100.0
"""Seconds; a client that takes longer hangs."""


def bring_loopback_up() -> None:
    """Bring up the loopback of this network namespace."""
    form = "16sH14x"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack(form, b"lo", 0)
        _, flags = struct.unpack(form, fcntl.ioctl(any_socket, GET_FLAGS, request))
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack(form, b"lo", flags | UP))


async def run_client(
    words: Sequence[str], run: Run, environment: Mapping[str, str], *, patience: float = PATIENCE
) -> None:
    """Run a client to its end, or for `patience` seconds; what it prints goes to a file of the run."""
    with (run.root / "out.txt").open("wb") as out, anyio.move_on_after(patience):
        # The namespace of processes ends with this one, and with it whatever the client leaves behind.
        await anyio.run_process(
            list(words),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=run.work,
            env=environment,
        )


async def _main(client: str, scenario: str, root: Path, packages: Path) -> None:
    chosen = SCENARIOS[ScenarioName(scenario)]
    skills = Run(root, "").skills
    names = write_catalog(skills, chosen.size)
    model = ScriptedModel(lambda first: chosen.play(skills, names, first))
    async with serving(endpoint(model, Recorder(Run(root, "").recording))) as address:
        run = Run(root, address, packages=packages, served=chosen.served)
        command = CLIENTS[client].prepare(run)
        environment = {**run.environment(), **command.environment}
        await run_client(command.words, run, environment)


if __name__ == "__main__":
    bring_loopback_up()
    anyio.run(_main, sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
