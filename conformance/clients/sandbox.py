"""Run a client in namespaces of its own: no network but loopback, and no process that outlives the run."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio

from conformance.processes import REPOSITORY, CheckError, tail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["is_possible", "run_inside"]

PATIENCE = 150.0


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


async def is_possible() -> bool:
    """Return whether this system has such namespaces and allows them."""
    try:
        done = await anyio.run_process([*_unshare(), "true"], check=False)
    except OSError:
        return False
    return done.returncode == 0


async def run_inside(
    client: str, scenario: str, folder: Path, module: str = "conformance.clients.inside", further: Sequence[str] = ()
) -> None:
    """Record a client in a scenario, which `module` runs with `further` arguments; the recording is in `folder`.

    Raises:
        CheckError: The measurement itself failed.
    """
    words = [*_unshare(), sys.executable, "-m", module, client, scenario, str(folder), *further]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    try:
        with anyio.fail_after(PATIENCE):
            done = await anyio.run_process(
                words, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=REPOSITORY, env=environment
            )
    except TimeoutError as error:
        raise CheckError(f"{client}, {scenario}: did not end within {PATIENCE:.0f} s") from error
    if done.returncode:
        raise CheckError(f"{client}, {scenario}: {tail(done.stderr.decode(errors='replace'))}")
