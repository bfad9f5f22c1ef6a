"""Kill the server of one client in the middle of a session; `sandbox.py` starts this module in namespaces of its own.

Usage: killed_inside.py CLIENT MOMENT FOLDER [OPTION ...]. The options are those of `skillserve serve`. The recording
and the client's output are left in FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from conformance.clients.all_clients import CLIENTS
from conformance.clients.catalogs import write_catalog
from conformance.clients.client import Run
from conformance.clients.endpoint import endpoint, serving
from conformance.clients.inside import bring_loopback_up, run_client
from conformance.clients.killed_script import Moment, script
from conformance.clients.recording import Recorder
from conformance.clients.scripted_model import ScriptedModel

SKILLS = 10


async def _main(client: str, moment: Moment, root: Path, options: tuple[str, ...]) -> None:
    skills = Run(root, "").skills
    write_catalog(skills, SKILLS)
    model = ScriptedModel(script(skills, moment))
    async with serving(endpoint(model, Recorder(Run(root, "").recording))) as address:
        run = Run(root, address, options=options)
        command = CLIENTS[client].prepare(run)
        await run_client(command.words, run, {**run.environment(), **command.environment})


if __name__ == "__main__":
    bring_loopback_up()
    anyio.run(_main, sys.argv[1], Moment(sys.argv[2]), Path(sys.argv[3]), tuple(sys.argv[4:]))
