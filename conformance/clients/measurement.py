"""Measure one client: record every scenario, and judge the recordings."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.clients.catalogs import catalog_names
from conformance.clients.checks import CHECKS, Column, Finding
from conformance.clients.client import Run
from conformance.clients.recording import Recording
from conformance.clients.sandbox import run_inside
from conformance.clients.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from conformance.clients.client import Client
    from conformance.clients.scenarios import ScenarioName

__all__ = ["Measurement", "measure"]

ATTEMPTS = 3
"""Some clients wait less than a second for a server; on a busy machine it may come too late."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was found for a client; `day` is ISO 8601."""

    client: str
    version: str
    day: str
    findings: Mapping[Column, Finding]


async def measure(client: Client, version: str, day: str, root: Path) -> Measurement:
    """Run a client through all scenarios.

    Raises:
        CheckError: The measurement itself failed.
    """
    recordings = {name: await _recorded(client, name, root) for name in SCENARIOS}
    findings = {
        check.column: check.judge(recordings[check.scenario], catalog_names(SCENARIOS[check.scenario].size))
        for check in CHECKS
    }
    return Measurement(client.name, version, day, findings)


async def _recorded(client: Client, scenario: ScenarioName, root: Path) -> Recording:
    recording = Recording(())
    for attempt in range(1, ATTEMPTS + 1):
        folder = root / f"{client.name}-{scenario}-{attempt}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        await run_inside(client.name, scenario, folder)
        recording = Recording.read(Run(folder, "").recording)
        if recording.used_the_server:
            break
        print(f"{client.name}, {scenario}: the model had no tool of the server in attempt {attempt} of {ATTEMPTS}")
    return recording
