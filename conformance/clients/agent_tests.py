"""The program of both tests with real agents: it installs each agent, and checks it in each of its modes."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from conformance.clients.install import NotInstallableError, install
from conformance.clients.sandbox import is_possible, run_inside
from conformance.clients.trigger_agents import TRIGGER_AGENTS
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["AgentTest"]

WAYS = ("folder", "server")
"""Where each agent has the skill from: its own folder, or this server."""


@dataclass(frozen=True, slots=True)
class AgentTest:
    """A test named `name`; `module` runs inside the namespace and writes `results.json` into the folder of a mode.

    `faults` yields what is wrong there, from the folder, the results and the mode. `further` has the
    other modes of an agent, by its name.
    """

    name: str
    module: str
    faults: Callable[[Path, dict[str, Any], str], Iterable[str]]
    further: dict[str, tuple[str, ...]]

    def main(self, description: str | None) -> int:
        """Test the agents that the command line names; return 1 if a result is not as expected."""
        parser = argparse.ArgumentParser(self.name, description=description)
        known = " ".join(TRIGGER_AGENTS)
        parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"all by default: {known}")
        parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the results in this folder")
        options = parser.parse_args()
        for name in options.agents:
            if name not in TRIGGER_AGENTS:
                parser.error(f"there is no agent {name!r}; choose from {known}")
        with tempfile.TemporaryDirectory(prefix=f"skillserve-{self.name}-", ignore_cleanup_errors=True) as scratch:
            folder = Path(options.keep or scratch).resolve()
            return anyio.run(self._test, options.agents or [*TRIGGER_AGENTS], folder)

    async def _test(self, agents: list[str], folder: Path) -> int:
        if not await is_possible():
            print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
            return 0
        failed = False
        for agent in agents:
            try:
                await install(agent)
            except NotInstallableError as error:
                print(f"{agent}: skipped: {error}")
                continue
            for mode in (*WAYS, *self.further.get(agent, ())):
                if (agent, mode) == ("opencode", "folder") and shutil.which("rg") is None:
                    print("opencode folder: skipped: opencode loads a skill with ripgrep; install it (`rg`)")
                    continue
                try:
                    faults = await self._check(agent, mode, folder)
                except CheckError as error:
                    faults = [str(error)]
                failed = failed or bool(faults)
                print(f"{agent} {mode}: {'; '.join(faults) or 'as expected'}", flush=True)
        return int(failed)

    async def _check(self, agent: str, mode: str, folder: Path) -> list[str]:
        root = folder / f"{agent}-{mode}"
        root.mkdir(parents=True)
        await run_inside(agent, mode, root, self.module)
        text = (root / "results.json").read_text(encoding="utf-8")
        if not text.strip():
            return [(root / "log.txt").read_text(encoding="utf-8")[-600:]]
        return [*self.faults(root, json.loads(text), mode)]
