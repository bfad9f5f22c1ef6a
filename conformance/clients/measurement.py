"""Measure one client: record every scenario, and judge the recordings."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from conformance.clients.catalogs import catalog
from conformance.clients.checks import CHECKS, Column, Finding
from conformance.clients.client import PACKAGES, Run, earlier_packages
from conformance.clients.names import length
from conformance.clients.recording import Recording
from conformance.clients.sandbox import run_inside
from conformance.clients.scenarios import SCENARIOS, ScenarioName

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from conformance.clients.client import Client

__all__ = ["Measurement", "added_tokens", "measure"]

ATTEMPTS = 3
"""Some clients wait less than a second for a server; on a busy machine it may come too late."""


CHARACTERS_A_TOKEN = 4

COUNTED = (ScenarioName.NEWS, ScenarioName.HUNDRED, ScenarioName.THOUSAND)
"""The scenarios whose first requests are compared with the one without skills."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was found for a client; days are ISO 8601.

    `tokens` says for each size of a catalog how much longer the first request is than without skills. `before` is the
    day before which an earlier version was the newest.
    """

    client: str
    version: str
    day: str
    findings: Mapping[Column, Finding]
    tokens: Mapping[int, int] = field(default_factory=dict)
    before: str = ""

    @property
    def key(self) -> str:
        """The name of the client, with its version if that is an earlier one."""
        return f"{self.client} {self.version}" if self.before else self.client


async def measure(client: Client, day: str, root: Path, before: str = "") -> Measurement:
    """Run a client through all scenarios, or the version of it that was the newest `before` a day.

    Raises:
        CheckError: The measurement itself failed.
    """
    packages = earlier_packages(before) if before else PACKAGES
    version = client.version(packages) or "unknown"
    recordings = {name: await _recorded(client, name, root / version, packages) for name in SCENARIOS}
    findings = {
        check.column: check.judge(recordings[check.scenario], catalog(SCENARIOS[check.scenario].size))
        for check in CHECKS
    }
    return Measurement(client.name, version, day, findings, added_tokens(recordings), before)


def added_tokens(recordings: Mapping[ScenarioName, Recording]) -> dict[int, int]:
    """Return how many more tokens the first request has than without skills, by the size of the catalog."""
    lengths = {name: length(each.exchanges[0].request) for name, each in recordings.items() if each.exchanges}
    if ScenarioName.BARE not in lengths:
        return {}
    bare = lengths[ScenarioName.BARE]
    return {
        SCENARIOS[name].size: round((lengths[name] - bare) / CHARACTERS_A_TOKEN) for name in COUNTED if name in lengths
    }


async def _recorded(client: Client, scenario: ScenarioName, root: Path, packages: Path) -> Recording:
    recording = Recording(())
    for attempt in range(1, ATTEMPTS + 1):
        folder = root / f"{client.name}-{scenario}-{attempt}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        await run_inside(client.name, scenario, folder, further=[str(packages)])
        recording = Recording.read(Run(folder, "").recording)
        if recording.used_the_server or (recording.exchanges and not SCENARIOS[scenario].served):
            break
        print(f"{client.name}, {scenario}: the model had no tool of the server in attempt {attempt} of {ATTEMPTS}")
    return recording
